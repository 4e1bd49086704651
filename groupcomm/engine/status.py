"""Status: all facts about a core, as one frozen value, for status pages, logs and metrics.

Each part gives its own. Times are seconds of the monotonic clock of the steps; counts are since
this start.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from groupcomm.config.view import DaemonId, View
from groupcomm.engine.access_control import AccessStatus
from groupcomm.engine.counters import DatagramStatus, TokenStatus, TrafficStatus
from groupcomm.engine.drain import DrainStatus
from groupcomm.engine.keys import KeyStatus
from groupcomm.engine.view import RingStatus
from groupcomm.link.link import LinkStatus
from groupcomm.membership.comparison import OtherConfiguration
from groupcomm.membership.peer import PeerStatus
from groupcomm.membership.reservation import DiskStatus
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.membership.status import ProtocolStatus
from groupcomm.membership.trust import BrokenStatus
from groupcomm.session.daemon_session import SessionStatus


@attrs.frozen(kw_only=True)
class ClockStatus:
    """Physical time.

    Attributes:
        reading: the present reading, microseconds.
        jumps: the number of times that the wall clock was set.
    """

    reading: int
    jumps: int


@attrs.frozen(kw_only=True)
class Status:
    """The whole state that a core reports, at one time.

    Attributes:
        at: the time.
        daemon: the start of the daemon.
        state: the state of its membership.
        view: the regular view that was installed last; None before the first.
        majority: whether the view has more than half of all daemons; None if that is unknown.
        reasons: the number of times that it gathered, by reason.
        no_room: the daemons that are heard and not in the view, as it has no room, sorted.
        configured: the names of all configured daemons.
        roster: the roster that counts, as plain values; see RosterManager.describe.
        protocol: the versions of the protocol that are spoken and used.
        peers: the other daemons that are known, configured or not.
        differing: configurations that differ from this daemon's.
        ring, links: the ring and the links of the present view; None and () without one.
        token: the counts of the token and of repairs in the ring, over all views.
        silent_programs: the number of sessions that were ended as nothing came from their programs.
        drain: the progress of the drain; None if the daemon is not about to stop.
    """

    at: float
    daemon: DaemonId
    state: MembershipState
    view: View | None
    majority: bool | None
    reasons: Mapping[GatherReason, int]
    no_room: tuple[str, ...]
    configured: tuple[str, ...]
    roster: Mapping[str, Any]
    protocol: ProtocolStatus
    peers: tuple[PeerStatus, ...]
    differing: tuple[OtherConfiguration, ...]
    broken: tuple[BrokenStatus, ...]
    clock: ClockStatus
    disk: DiskStatus
    ring: RingStatus | None
    links: tuple[LinkStatus, ...]
    token: TokenStatus
    sessions: tuple[SessionStatus, ...]
    access: AccessStatus
    traffic: TrafficStatus
    datagrams: DatagramStatus
    keys: KeyStatus
    silent_programs: int
    drain: DrainStatus | None
