"""Daemons that are listed with the name of their host: where datagrams for them go.

A name is looked up at the start; again while it leads nowhere; and while its daemon does not say
that it hears this one, as its host may have another address now::

    LOOKED UP ---- an address ----> IN USE ---- the daemon hears this one ----> HEARD
        ^                             |                                           |
        +--- no address: again -------+------- it does not for a while -----------+

The time between two lookups doubles up to LONGEST_LOOK_UP_S. Lookups are done in threads, a few at
a time. They only say where to send: that a datagram is of a daemon is shown by its seal, and never
by its source.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

import trio

from groupcomm.engine import DaemonCore
from groupcomm.host.addresses import Address
from groupcomm.membership.failure_detector import HEARD_BEACONS
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.config.seeds import Seed

LookUp = Callable[[Seed], Awaitable[list[Address]]]
"""Returns the addresses of a name; raises OSError."""

LOOK_UP_S: Final = 0.25
LONGEST_LOOK_UP_S: Final = 5.0
"""The times between two lookups of one name, the first and the longest."""

REMOVED_LOOK_UP_S: Final = 60.0
"""The longest time for a daemon that the roster does not have any more: it is told so if it comes
back, and its name may be gone for good, so that is not logged either.
"""

AT_ONCE: Final = 4
"""The lookups at a time: each may hold a thread for as long as no server answers."""

LEAST_SILENCE_S: Final = 0.5
"""A daemon that has not said for this time that it hears this one may be elsewhere."""

TELL_S: Final = 60.0
"""A name that leads nowhere is logged this often."""

_log = logging.getLogger("groupcommd")


class Locator(Protocol):
    """The part of the daemon that knows where the others are.

    Attributes:
        config: the configuration.
    """

    config: DaemonConfig

    def locate(self, name: str, address: Address) -> None:
        """Send to a daemon at this address from now on."""


class HostNames:
    """Looks up the hosts of other daemons, for one start of a daemon.

    Args:
        locator: is told where daemons are.
        core: the core, which knows whom the others hear.
        look_up: looks a name up.
    """

    def __init__(self, locator: Locator, core: DaemonCore, look_up: LookUp) -> None:
        self._locator, self._core, self._look_up = locator, core, look_up
        self._watched: dict[str, tuple[Seed, trio.CancelScope]] = {}
        self._limiter = trio.CapacityLimiter(AT_ONCE)
        self._nursery: trio.Nursery | None = None
        self._logged_at: dict[str, float] = {}  # by daemon: when its name was logged last

    async def run(self, names: Mapping[str, Seed]) -> None:
        """Watch these names, or those of the latest `use`, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self.use(names)
            await trio.sleep_forever()

    def use(self, names: Mapping[str, Seed]) -> None:
        """Watch the names of these daemons from now on, and no others."""
        if self._nursery is None:
            return  # `run` begins with the names of that time
        for daemon, (host, scope) in list(self._watched.items()):
            if names.get(daemon) != host:
                scope.cancel()
                del self._watched[daemon]
        config = self._locator.config
        for daemon, host in names.items():
            if daemon not in (config.name, *config.relayed, *self._watched):
                scope = trio.CancelScope()
                self._watched[daemon] = host, scope
                self._nursery.start_soon(self._watch, daemon, host, scope)

    async def _watch(self, daemon: str, host: Seed, scope: trio.CancelScope) -> None:
        at: Address | None = None
        wait_s = LOOK_UP_S
        with scope:
            while True:
                if at is not None and self._is_heard(daemon):
                    wait_s = LOOK_UP_S
                else:
                    at = await self._locate(daemon, host, at)
                await trio.sleep(max(wait_s, LEAST_SILENCE_S if at is not None else 0.0))
                longest_s = REMOVED_LOOK_UP_S if self._is_removed(daemon) else LONGEST_LOOK_UP_S
                wait_s = min(2 * wait_s, longest_s)

    def _is_removed(self, daemon: str) -> bool:
        return self._locator.config.core.roster.entry(daemon) is None

    def _is_heard(self, daemon: str) -> bool:
        """Return whether a daemon has said lately that it hears this one: so it gets datagrams."""
        timing = self._locator.config.core.timing
        fresh_s = HEARD_BEACONS * timing.beacon_interval_s + timing.longest_delay_s
        since = trio.current_time() - max(LEAST_SILENCE_S, fresh_s)
        return any(name == daemon and hears for name, _, hears in self._core.heard(since))

    async def _locate(self, daemon: str, host: Seed, at: Address | None) -> Address | None:
        """Look a host up; return the address that is used from now on.

        Args:
            daemon: the daemon.
            host: its host.
            at: the address so far, where the daemon is not heard; None without one.
        """
        try:
            async with self._limiter:
                found = self._usable(await self._look_up(host))
        except OSError as error:
            self._tell(daemon, host, error.strerror or str(error), at)
            return at
        if not found:
            self._tell(daemon, host, "it leads to no address that this daemon can send to", at)
            return at
        # Of several addresses the next one: nothing has come from the one so far.
        chosen = found[(found.index(at) + 1) % len(found)] if at in found else found[0]
        self._logged_at.pop(daemon, None)
        if chosen != at:
            _log.info("daemon %s: %s leads to %s", daemon, host, chosen)
        self._locator.locate(daemon, chosen)
        return chosen

    def _usable(self, found: list[Address]) -> list[Address]:
        """Return the addresses of this daemon's kind, IPv4 or IPv6, that are not its own."""
        config = self._locator.config
        own = config.addresses[config.name]
        return [
            each
            for each in found
            if (":" in each.host) == (":" in own.host)
            and each != own
            and not each.is_multicast
            and (own.is_loopback or not each.is_loopback)
        ]

    def _tell(self, daemon: str, host: Seed, fault: str, at: Address | None) -> None:
        now = trio.current_time()
        if now < self._logged_at.get(daemon, -TELL_S) + TELL_S or self._is_removed(daemon):
            return
        self._logged_at[daemon] = now
        _log.warning(
            "daemon %s: %s cannot be looked up: %s; datagrams to it go %s until a lookup succeeds;"
            " the next ones are in %g to %g s",
            daemon,
            host,
            fault,
            "nowhere" if at is None else f"to {at}, as before,",
            LOOK_UP_S,
            LONGEST_LOOK_UP_S,
        )
