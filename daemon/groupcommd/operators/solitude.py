"""A daemon that hears no other one: for the log, and for `groupcomm doctor`.

Nobody can tell such a daemon anything: the others answer at the address that they list for its
name, and nowhere else. So it says itself what it sees, and what may be the cause. One cause shows
in no setting: the host is a copy of another one, or was copied, and the others use the daemon that
runs at the listed address.
"""

import logging
from collections.abc import Mapping
from math import inf
from typing import Final

from groupcomm.engine import Status
from groupcomm.host.addresses import Address
from groupcommd.config.reach import loopback_fault

ALONE_S: Final = 30.0
"""The time without another daemon after which the log says so; no start takes that long."""

LOGGED_S: Final = 3600.0
"""The time between two such lines."""

COPIED: Final = (
    "if this host is a copy of another one, or was copied, the others use the daemon at the address"
    " that they list: stop one of the two, or give it another name and an empty state folder"
)

_log = logging.getLogger("groupcommd")


class Solitude:
    """The time for which one daemon has heard no other one."""

    def __init__(self) -> None:
        self._heard_at: float | None = None  # None before the first check
        self._logged_at = -inf

    def check(self, status: Status, addresses: Mapping[str, Address]) -> None:
        """Log that nobody is heard, if that lasts; called once a second.

        Args:
            status: the status of this second.
            addresses: those of all daemons whose address is known, by name.
        """
        name, now = status.daemon.name, status.at
        others = sorted(set(status.configured) - {name})
        heard = [peer.heard_at for peer in status.peers if peer.name in others]
        self._heard_at = max([now if self._heard_at is None else self._heard_at, *heard])
        alone_s = now - self._heard_at
        if not others or alone_s < ALONE_S or now < self._logged_at + LOGGED_S:
            return
        self._logged_at = now
        fault = loopback_fault(addresses)
        _log.warning(
            "no other daemon has been heard for %.0f s, of %s: %sstart the others, and check that"
            " datagrams pass in both directions and that the others list this daemon at its"
            " address; %s",
            alone_s,
            ", ".join(others),
            f"{fault}; or " if fault else "",
            COPIED,
            extra={"alone_s": round(alone_s, 1), "others": others},
        )
