"""What an operation needs from the daemon around it."""

from typing import Protocol

from groupcomm.clocks.physical import PhysicalClock
from groupcomm.config.core import CoreConfig
from groupcomm.engine.counters import Counters
from groupcomm.engine.keys import KeyManager
from groupcomm.engine.probe import Probe
from groupcomm.engine.sessions import LocalSessions


class ViewContext(Protocol):
    """What an operation shares with those before and after it at its daemon."""

    config: CoreConfig
    physical: PhysicalClock
    sessions: LocalSessions
    key_manager: KeyManager
    counters: Counters
    probe: Probe

    def seal_and_send(self, destination: str | None, packet: bytes) -> None:
        """Send to a daemon, or to all others of the site."""
