"""Status: all facts about a core, as one frozen value, for status pages, logs and metrics.

Each part gives its own. Times are seconds of the monotonic clock of the steps; counts are since
this start.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from groupcomm.config.view import DaemonId
from groupcomm.engine.access_control import AccessStatus
from groupcomm.engine.counters import DatagramStatus, TrafficStatus
from groupcomm.engine.drain import DrainStatus
from groupcomm.engine.keys import KeyStatus
from groupcomm.engine.view import RingStatus
from groupcomm.facts import fact
from groupcomm.link.link import LinkStatus
from groupcomm.membership.peer import PeerStatus
from groupcomm.membership.reservation import DiskStatus
from groupcomm.membership.status import MembershipStatus
from groupcomm.ring.counts import RingCounts
from groupcomm.session.daemon_session import SessionStatus

__all__ = [
    "AccessStatus",
    "ClockStatus",
    "DatagramStatus",
    "DiskStatus",
    "LinkStatus",
    "PeerStatus",
    "RingStatus",
    "SessionStatus",
    "Status",
    "TrafficStatus",
]


@attrs.frozen(kw_only=True)
class ClockStatus:
    """Physical time.

    Attributes:
        reading: the present reading, microseconds.
    """

    reading: int
    jumps: int = fact("clock_jumps_total", "Number of times that the wall clock was set.")


@attrs.frozen(kw_only=True)
class Status(MembershipStatus):
    """The whole state that a core reports, at one time.

    Attributes:
        at: the time.
        daemon: the start of the daemon.
        majority: whether the view has more than half of all daemons; None if that is unknown.
        configured: the names of all configured daemons.
        roster: the roster that counts, as plain values; see RosterManager.describe.
        ring, links: the ring and the links of the present view; None and () without one.
        token: the counts of the token and of repairs in the ring, over all views.
        programs: of those whose programs are there; so are the figures below.
        sessions: those of these that were asked for; see `DaemonCore.status`.
        silent_programs: the number of sessions that were ended as nothing came from their programs.
        drain: the progress of the drain; None if the daemon is not about to stop.
    """

    at: float
    daemon: DaemonId
    majority: bool | None
    configured: tuple[str, ...]
    roster: Mapping[str, Any]
    clock: ClockStatus
    disk: DiskStatus
    ring: RingStatus | None
    links: tuple[LinkStatus, ...]
    token: RingCounts
    programs: int = fact("sessions", "Sessions of programs.")
    output_bytes: int = fact(
        "session_output_bytes", "Output that waits to be read by all programs together."
    )
    backlog_bytes: int = fact(
        "session_backlog_bytes", "Messages of all programs together that wait for a number."
    )
    backlog_work: int = fact(
        "session_backlog_work",
        "Units of work that these messages are about to cause (docs/security.md): the most of any"
        " program; a session's next requests wait at 1,024.",
    )
    sessions: tuple[SessionStatus, ...]
    access: AccessStatus
    traffic: TrafficStatus
    datagrams: DatagramStatus
    keys: KeyStatus
    silent_programs: int
    drain: DrainStatus | None
