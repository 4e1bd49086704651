"""Status: all facts about a core, as one frozen value, for status pages, logs and metrics.

Each part gives its own; `make_status` puts them together. Times are seconds of the monotonic clock
of the steps; counts are since this start.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import DaemonId
from groupcomm.engine.access_control import AccessStatus
from groupcomm.engine.counters import DatagramStatus, TrafficStatus
from groupcomm.engine.drain import Drain, DrainStatus
from groupcomm.engine.keys import KeyStatus
from groupcomm.engine.parts import Parts
from groupcomm.engine.programs_status import ProgramsStatus
from groupcomm.engine.view import RingStatus, ViewState
from groupcomm.link.link import LinkStatus
from groupcomm.membership.membership import Membership
from groupcomm.membership.peer import PeerStatus
from groupcomm.membership.reservation import DiskStatus
from groupcomm.membership.status import MembershipStatus
from groupcomm.metrics import metric
from groupcomm.ring.counts import RingCounts
from groupcomm.session.daemon_session import SessionStatus

__all__ = [
    "AccessStatus",
    "ClockStatus",
    "DatagramStatus",
    "DiskStatus",
    "LinkStatus",
    "PeerStatus",
    "ProgramsStatus",
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
    jumps: int = metric("clock_jumps_total", "Number of times that the wall clock was set.")


@attrs.frozen(kw_only=True)
class Status(MembershipStatus):
    """The whole state that a core reports at one time, but its groups and programs.

    Attributes:
        at: the time.
        daemon: the start of the daemon.
        majority: whether the view has more than half of all daemons; None if that is unknown.
        configured: the names of all configured daemons.
        roster: the roster that counts, as plain values; see RosterManager.describe.
        ring, links: the ring and the links of the present view; None and () without one.
        token: the counts of the token and of repairs in the ring, over all views.
        drain: the progress of the drain; None if the daemon is not about to stop.
        silent_programs: the number of sessions that were ended as nothing came from their programs.
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
    access: AccessStatus
    traffic: TrafficStatus
    datagrams: DatagramStatus
    keys: KeyStatus
    drain: DrainStatus | None
    silent_programs: int
    groups: int = metric("groups", "Groups that have members.")
    group_members: int = metric("group_members", "Members of all groups together.")
    groups_paused: int = metric("groups_paused", "Groups that pause, as there is no quorum.")
    messages_left_lost: int = metric(
        "messages_left_lost_total",
        "Messages of programs that are gone which waited for a quorum, and were lost: such programs"
        " had left 16 MiB.",
    )


def make_status(
    parts: Parts,
    membership: Membership,
    view_state: ViewState | None,
    drain: Drain,
    config: CoreConfig,
    now: float,
) -> Status:
    """Return all facts about a core; see `DaemonCore.status`."""
    found = membership.status(now)
    members = () if found.view is None else tuple(each.name for each in found.view.daemons)
    sessions, counters = parts.sessions, parts.counters
    return Status(
        **attrs.asdict(found, recurse=False),
        at=now,
        daemon=parts.start.daemon,
        majority=None if found.view is None else config.has_majority(members),
        configured=tuple(config.daemons),
        roster=parts.roster_manager.describe(members),
        clock=ClockStatus(reading=parts.physical.read(now), jumps=parts.physical.jumps),
        disk=parts.reservation.status(),
        ring=None if view_state is None else view_state.ring_status(sessions.waiting),
        links=() if view_state is None else view_state.link_status(),
        token=attrs.evolve(counters.ring),
        access=sessions.access_control.status(),
        traffic=sessions.traffic.status(),
        datagrams=counters.status(),
        keys=parts.key_manager.status(config),
        drain=drain.status(now) if drain.begun else None,
        silent_programs=sessions.watches.ended,
        groups=0 if view_state is None else len(view_state.groups),
        group_members=0 if view_state is None else view_state.memberships,
        groups_paused=sessions.pauses.groups,
        messages_left_lost=sessions.subscriptions.lost,
    )
