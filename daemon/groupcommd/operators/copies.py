"""Copies of a daemon: starts that send under its name from another address, for the log, `status`
and `groupcomm doctor`.

A host that is copied with its key and its state has a daemon that calls itself as the first one
does. Others answer a start that they do not know at the listed address only, so the copy never
proves that it sends now, and remains alone. What shows it is that its datagrams keep coming, from
an address that is not its own, while the daemon itself is heard. Somebody who sends captured
datagrams again looks the same; nothing that is done here depends on which it is.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Any, Final

import attrs

from groupcomm.host.addresses import Address
from groupcomm.names import daemon_number
from groupcomm.security.layout import sender_of
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.operators.mismatches import FRESH_S, LOOK_S, DatagramSource, listed

REASON: Final = "unproven"
"""The reason for which the core drops datagrams of an unknown start whose seal is right."""

LASTS_S: Final = 5.0
"""The time for which they have to come: a start that can prove itself does so in a moment."""

LOGGED_S: Final = 3600.0
"""The time between two lines about one copy."""

MAX_COPIES: Final = 32
"""The most that are kept, the latest ones."""

REMEDY: Final = (
    "if that host is a copy of the other one, stop its daemon, or give it another name and an empty"
    " state folder; otherwise somebody sends old datagrams again, which harm nobody"
)

_log = logging.getLogger("groupcommd")


@attrs.define
class _Copy:
    """A start that sends under a name from an address that is not listed for it."""

    name: str
    address: Address
    since: float
    seen_at: float
    logged_at: float = -inf


class Copies:
    """The copies of other daemons that one daemon notices.

    Args:
        config: returns its configuration.
    """

    def __init__(self, config: Callable[[], DaemonConfig]) -> None:
        self._config = config
        self._found: dict[tuple[str, Address], _Copy] = {}
        self._look_at = 0.0

    def note(
        self,
        dropped: Sequence[tuple[bytes, str]],
        datagrams: Sequence[bytes],
        source: DatagramSource,
        heard: Callable[[], Collection[str]],
        now: float,
    ) -> None:
        """Note the datagrams that a step has dropped.

        Args:
            dropped: some of the dropped datagrams, each with the reason.
            datagrams: all datagrams of the step.
            source: the socket that has received them.
            heard: returns the names of the daemons that are heard now, this one among them.
            now: seconds.
        """
        if now < self._look_at or all(reason != REASON for _, reason in dropped):
            return
        self._look_at = now + LOOK_S
        names = {daemon_number(name): name for name in self._config().places}
        for datagram, reason in dropped:
            name = names.get(sender_of(datagram)) if reason == REASON else None
            if name is None:
                continue
            address = source.source_of(
                next(at for at, each in enumerate(datagrams) if each is datagram)
            )
            if address is not None and address not in self._places(name) and name in heard():
                self._note(name, address, now)

    def _note(self, name: str, address: Address, now: float) -> None:
        found = self._found.pop((name, address), None)
        if found is None:
            found = _Copy(name, address, now, now)
        elif found.seen_at < now - FRESH_S:
            found.since = now
        self._found[name, address] = found
        if len(self._found) > MAX_COPIES:
            del self._found[next(iter(self._found))]
        found.seen_at = now
        if now >= found.since + LASTS_S and now >= found.logged_at + LOGGED_S:
            found.logged_at = now
            _log.warning(
                "a second daemon that calls itself %s sends from %s, and %s itself is heard at %s:"
                " %s",
                name,
                address,
                name,
                self._listed(name),
                REMEDY,
                extra={"copy": name, "address": str(address)},
            )

    def _places(self, name: str) -> set[Address]:
        return {at for each, at in listed(self._config()) if each == name}

    def _listed(self, name: str) -> str:
        return ", ".join(sorted(map(str, self._places(name))))

    def report(self, now: float) -> list[dict[str, Any]]:
        """Return the copies that were noticed in the last FRESH_S seconds, as plain values."""
        return [
            {
                "name": found.name,
                "address": str(found.address),
                "listed": self._listed(found.name),
                "seen_s": round(now - found.seen_at, 3),
            }
            for found in self._found.values()
            if found.seen_at >= max(now - FRESH_S, found.since + LASTS_S)
        ]
