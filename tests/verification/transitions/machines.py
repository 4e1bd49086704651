"""The state machines of the protocol, and all transitions that may happen in them."""

from typing import Final

from groupcomm.link.congestion import Bandwidth, Phase
from groupcomm.membership.membership import Membership
from groupcomm.membership.states import MembershipState
from groupcomm.ring.ring import Ring
from groupcomm.ring.states import TokenState
from groupcomm.session.client_session import ClientSession, ClientSessionState
from groupcomm.session.daemon_session import DaemonSession, DaemonSessionState
from tests.verification.transitions.recorder import BEGIN, Machine

MACHINES: Final = (
    Machine(
        "membership",
        Membership,
        "state",
        MembershipState,
        {
            BEGIN: "GATHER",
            "GATHER": "GATHER COMMIT LEFT",
            "COMMIT": "GATHER COMMIT RECOVERED LEFT",
            "RECOVERED": "GATHER OPERATIONAL LEFT",
            "OPERATIONAL": "GATHER LEFT",
        },
    ),
    Machine(
        "ring",
        Ring,
        "state",
        TokenState,
        {
            BEGIN: "AWAY RESTING",
            "AWAY": "ARRIVED",
            "ARRIVED": "AWAY RESTING LINGERING",
            "RESTING": "AWAY RESTING LINGERING",
            "LINGERING": "AWAY RESTING LINGERING",
        },
    ),
    Machine(
        "link",
        Bandwidth,
        "phase",
        Phase,
        {BEGIN: "STARTUP", "STARTUP": "DRAIN", "DRAIN": "CRUISE"},
    ),
    Machine(
        "session at its daemon",
        DaemonSession,
        "state",
        DaemonSessionState,
        {
            BEGIN: "NEW",
            "NEW": "GREETED CLOSED",
            "GREETED": "CONNECTING CLOSED",
            "CONNECTING": "OPEN WITHDRAWING CLOSING GONE",
            "OPEN": "DRAINING LEAVING CLOSING GONE",
            "DRAINING": "GONE",
            "WITHDRAWING": "LEAVING GONE",
            "LEAVING": "CLOSING GONE",
            "CLOSING": "GONE CLOSED",
            "GONE": "CLOSED",
            "CLOSED": "CLOSED",
        },
    ),
    Machine(
        "session at its client",
        ClientSession,
        "state",
        ClientSessionState,
        {
            BEGIN: "GREETING",
            "GREETING": "OPEN CLOSING CLOSED",
            "OPEN": "CLOSING CLOSED",
            "CLOSING": "CLOSED",
        },
    ),
)
"""All of them."""
