"""One whole daemon as a state machine, and the loop of duties by which a shell drives it."""

from groupcomm.engine.commands import Evict, LoadKeys, PromoteKey, RetireKey
from groupcomm.engine.daemon import DaemonCore
from groupcomm.engine.drive import drive
from groupcomm.engine.inputs import (
    ClientBytes,
    ClientDismissed,
    ClientGone,
    ClientInput,
    ClientOpened,
    Input,
    KeysStored,
    LeaveRequested,
    MarkNotStored,
    MarkStored,
    ProgramSettings,
    QuestionAnswered,
    RollStored,
    WallClockRead,
)
from groupcomm.engine.news import AccessNews, News, ProtocolNews, TokenLate, ViewInstalled
from groupcomm.engine.output import (
    CoreOver,
    EndReason,
    Output,
    Store,
    StoreKeys,
    StoreMark,
    StoreRoll,
    Transmission,
)
from groupcomm.engine.status import Status

__all__ = [
    "AccessNews",
    "ClientBytes",
    "ClientDismissed",
    "ClientGone",
    "ClientInput",
    "ClientOpened",
    "CoreOver",
    "DaemonCore",
    "EndReason",
    "Evict",
    "Input",
    "KeysStored",
    "LeaveRequested",
    "LoadKeys",
    "MarkNotStored",
    "MarkStored",
    "News",
    "Output",
    "ProgramSettings",
    "PromoteKey",
    "ProtocolNews",
    "QuestionAnswered",
    "RetireKey",
    "RollStored",
    "Status",
    "Store",
    "StoreKeys",
    "StoreMark",
    "StoreRoll",
    "TokenLate",
    "Transmission",
    "ViewInstalled",
    "WallClockRead",
    "drive",
]
