"""One whole daemon as a state machine: the only part that a shell drives."""

from groupcomm.core.daemon import DaemonCore, Transmission
from groupcomm.core.seat import ClientBytes, ClientGone, ClientInput, ClientOpened, RulesChanged

__all__ = [
    "ClientBytes",
    "ClientGone",
    "ClientInput",
    "ClientOpened",
    "DaemonCore",
    "RulesChanged",
    "Transmission",
]
