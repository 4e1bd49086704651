"""The versions of the protocol of all daemons, for `status`, the log and `groupcomm doctor`."""

import logging
from typing import Any, Final

from groupcomm.config.versions import Versions, feature_names
from groupcomm.engine import Status

_log: Final = logging.getLogger("groupcommd")


def protocol_table(found: Status) -> dict[str, Any]:
    """Return the versions and features of this daemon, of its view and of others, for JSON.

    ``next`` has what is switched on later: each version and feature that a member has and the view
    does not use, with the members that have to be upgraded before.
    """
    protocol = found.protocol
    view = protocol.view
    return {
        **_plain(protocol.own),
        "view": None
        if view is None
        else {"version": view.highest, "features": feature_names(view.features)},
        "daemons": [{"name": n, **_plain(each)} for n, each in protocol.members.items()],
        "next": [] if view is None else _next(found, view),
        "apart": [
            {"name": name, **_plain(each), "text": _text(name, each, found), "remedy": REMEDY}
            for name, each in protocol.apart.items()
        ],
    }


REMEDY: Final = (
    "upgrade the daemons with the lower versions, by way of a release that speaks both if there is"
    " one; groupcomm daemons upgrade-status shows all"
)


def _plain(versions: Versions) -> dict[str, Any]:
    return {
        "lowest": versions.lowest,
        "highest": versions.highest,
        "features": feature_names(versions.features),
    }


def _next(found: Status, view: Versions) -> list[dict[str, Any]]:
    members = found.protocol.members
    highest = max(each.highest for each in members.values())
    steps: list[dict[str, Any]] = [
        {
            "version": version,
            "waits_for": [name for name, each in members.items() if each.highest < version],
        }
        for version in range(view.highest + 1, highest + 1)
    ]
    for bit in range(64):
        feature = 1 << bit
        having = [name for name, each in members.items() if each.features & feature]
        if having and not view.features & feature:
            waits_for = [name for name in members if name not in having]
            steps.append({"feature": feature_names(feature)[0], "waits_for": waits_for})
    return steps


def _text(name: str, versions: Versions, found: Status) -> str:
    used = found.protocol.view or found.protocol.own
    return (
        f"{name} speaks {versions} of the protocol, and the view of {found.daemon.name} {used}:"
        f" they have none in common, so {name} is not in it"
    )


class VersionWatch:
    """Logs once for each daemon that shares no version with the view."""

    def __init__(self) -> None:
        self._logged: frozenset[str] = frozenset()

    def check(self, found: Status) -> None:
        """Log changes; called once a second."""
        apart = found.protocol.apart
        for name in sorted(apart.keys() - self._logged):
            _log.error("%s: %s", _text(name, apart[name], found), REMEDY, extra={"peer": name})
        self._logged = frozenset(apart)
