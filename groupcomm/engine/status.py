"""Status: all facts about a core, as one frozen value, for status pages, logs and metrics.

Times are seconds of the monotonic clock of the steps; counts are since this start.
"""

from collections.abc import Iterable, Mapping
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias

import attrs

from groupcomm.clocks.ring_clock import PhysicalClock
from groupcomm.config.core import CoreConfig
from groupcomm.config.versions import Versions
from groupcomm.config.view import DaemonId, Start, View
from groupcomm.engine.counters import Counters
from groupcomm.engine.drain import Drain, DrainStatus
from groupcomm.engine.keys import KeyManager
from groupcomm.engine.roster import RosterManager
from groupcomm.engine.sessions import LocalSessions
from groupcomm.engine.view import ViewState
from groupcomm.membership.comparison import SILENT_S, OtherConfiguration
from groupcomm.membership.membership import Membership
from groupcomm.membership.peer import PeerDaemon
from groupcomm.membership.reservation import Reservation
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.ring.counts import RingCounts
from groupcomm.session.daemon_session import DaemonSession
from groupcomm.wire.eviction import Eviction

Counts: TypeAlias = Mapping[str, int]


@attrs.frozen(kw_only=True)
class PeerStatus:
    """Another daemon, in its latest start.

    Attributes:
        name: its announced or listed name; None without one.
        heard_at: the time of its own latest datagram; -inf if none came.
        left: whether it has left in order.
        reading: the physical time at which its latest join was sent, in microseconds; None without
            one.
        joined_at: the time at which that join came.
        advised: its advised settings, key and values.
    """

    name: str | None
    heard_at: float
    left: bool
    reading: int | None
    joined_at: float
    advised: tuple[tuple[str, tuple[str, ...]], ...]


@attrs.frozen(kw_only=True)
class ProtocolStatus:
    """The versions of the protocol of this daemon and of those that it knows.

    Attributes:
        own: the versions and features of this daemon.
        view: what all members of the view have in common, of which the highest version and all
            features are used; None without a view.
        members: the versions of each member of the view, by name.
        apart: the versions of each daemon that is heard and shares none with the view, by name.
    """

    own: Versions
    view: Versions | None
    members: Mapping[str, Versions]
    apart: Mapping[str, Versions]


@attrs.frozen(kw_only=True)
class BrokenStatus:
    """A daemon that has broken the protocol.

    Attributes:
        name: its name, or its number if it has announced no name.
        counts: the number of its breaches, by kind.
        until: the time before which it is left out.
    """

    name: str
    counts: Counts
    until: float


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
class DiskStatus:
    """The disk that marks of view counters are written to.

    Attributes:
        write_s: the longest time of recent writes.
        asked_at: the time since which the present write is wanted; None without one.
        error: the reason for which the last write failed; None if it did not.
        spare: view counters that the disk holds for this daemon and that are not used.
        aside: whether others are in a view that needs a mark which the disk does not hold yet.
    """

    write_s: float
    asked_at: float | None
    error: str | None
    spare: int
    aside: bool


@attrs.frozen(kw_only=True)
class RingStatus:
    """The ring of the present view.

    Attributes:
        token: the token's state, lower case.
        hop: the number of times that the token was passed on.
        held_by_all: all daemons of the ring hold its packets up to this number.
        held: for each ring of the view the number up to which all packets are here.
        frontiers_least: the stamp up to which all daemons of the view hold everything.
        token_losses, token_retransmissions: their numbers in this view.
        waiting_bundles: the number of bundles without a number.
    """

    token: str
    hop: int
    held_by_all: int
    held: tuple[int, ...]
    frontiers_least: int
    token_losses: int
    token_retransmissions: int
    waiting_bundles: int


@attrs.frozen(kw_only=True)
class LinkStatus:
    """A link of the present view that ends here; bytes are of datagrams before sealing.

    Attributes:
        to: name of the daemon at the other end.
        carries_bytes: the size of the largest datagrams that pass.
        most_bytes: the size of the largest datagrams that there are.
        narrow: whether the largest ones are lost.
        round_trip_s: smoothed.
        rate: the best of late, bytes a second; 0 before the first sample.
        sent: the number of attempts to send a packet, in this view.
        lost: the number of attempts among them that were given up as lost.
        in_flight_bytes: the bytes that are not acknowledged yet.
        waiting_bytes: bytes that are not sent yet.
        dropped: UNRELIABLE packets that found no room, in this view.
    """

    to: str
    carries_bytes: int
    most_bytes: int
    narrow: bool
    round_trip_s: float
    rate: float
    sent: int
    lost: int
    in_flight_bytes: int
    waiting_bytes: int
    dropped: int


class SessionStatus(NamedTuple):
    """One program's session; a tuple, as there may be thousands, each second.

    Attributes:
        output_bytes: bytes that wait for the program to read them.
        backlog_bytes: bytes that wait for a number.
        backlog_work: units of work that these are about to cause (docs/security.md).
        dropped: UNRELIABLE messages that were dropped because the program did not keep up.
        blocks: whether all senders wait for it.
    """

    connection: int
    user: str
    principal: str
    output_bytes: int
    backlog_bytes: int
    backlog_work: int
    dropped: int
    blocks: bool


@attrs.frozen(kw_only=True)
class AccessStatus:
    """The refusals by rules and quotas.

    Attributes:
        rules: the number of rules.
        refused: the number of refusals, by verb.
        bounds: the number of joins refused at a bound, by its key in ``clients.quotas``.
        foreign: joins at other daemons that these rules would have refused.
    """

    rules: int
    refused: Counts
    bounds: Counts
    foreign: int


@attrs.frozen(kw_only=True)
class TrafficStatus:
    """Messages from and for local sessions, and bytes of their bodies; see engine/counters.py.

    Counts by level begin with the weakest one.
    """

    taken: int
    taken_bytes: int
    delivered: int
    delivered_bytes: int
    taken_by_level: tuple[int, ...]
    taken_bytes_by_level: tuple[int, ...]
    delivered_by_level: tuple[int, ...]
    delivered_bytes_by_level: tuple[int, ...]


@attrs.frozen(kw_only=True)
class TokenStatus:
    """The token and repairs in the ring, over all views; see ring/counts.py."""

    visits: int
    rotations: int
    rotations_s: float
    repeated_packets: int
    repeated_bytes: int
    repeated_tokens: int


@attrs.frozen(kw_only=True)
class DatagramStatus:
    """Datagrams of the core; see engine/counters.py."""

    sent: int
    received: int
    rejected: Counts
    foreign: int
    stale: int
    duplicates: int
    violations: Counts


@attrs.frozen(kw_only=True)
class KeyStatus:
    """Keys and identities.

    Attributes:
        missing_key: the name of a daemon and the id of the key that it seals with, as it has
            proved, where this daemon does not have that key; None if there is none.
        named_key: a missing key that some datagram has named; anybody can name one.
        evicted: whether this daemon's identity is evicted, and its file says so.
        eviction: the name of a daemon that says so, and its notice; None without one that counts.
        description: the keys here and at all members, without secrets; None without a key file.
    """

    missing_key: tuple[str, int] | None
    named_key: int | None
    evicted: bool
    eviction: tuple[str, Eviction] | None
    description: Mapping[str, Any] | None


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
        programs: the number of sessions whose programs are there.
        output_bytes, backlog_bytes: the sums over these; see SessionStatus.
        backlog_work: the most of any of these.
        sessions: those of these that were asked for; see `DaemonCore.status`.
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
    programs: int
    output_bytes: int
    backlog_bytes: int
    backlog_work: int
    sessions: tuple[SessionStatus, ...]
    access: AccessStatus
    traffic: TrafficStatus
    datagrams: DatagramStatus
    keys: KeyStatus
    silent_programs: int
    drain: DrainStatus | None


class StatusContext(Protocol):
    """The parts of a core that its status shows; see `DaemonCore`."""

    config: CoreConfig
    start: Start
    membership: Membership
    view_state: ViewState | None
    roster_manager: RosterManager
    key_manager: KeyManager
    physical: PhysicalClock
    reservation: Reservation
    sessions: LocalSessions
    counters: Counters
    drain: Drain


def sessions_of(sessions: LocalSessions, connections: Iterable[int]) -> list[SessionStatus]:
    """Return those of these sessions that have clients."""
    found = map(sessions.by_connection.get, connections)
    return [_session(session) for session in found if session is not None and session.has_client]


def status_of(core: StatusContext, now: float, least_output: float = inf) -> Status:
    """Return the status of a core at a time; for `least_output` see `DaemonCore.status`."""
    membership, view, view_state = core.membership, core.membership.view, core.view_state
    known = membership.peers
    members = () if view is None else tuple(daemon.name for daemon in view.daemons)
    majority = None if view is None else core.config.has_majority(members)
    served = [each for each in core.sessions.by_connection.values() if each.has_client]
    return Status(
        at=now,
        daemon=core.start.daemon,
        state=membership.state,
        view=view,
        majority=majority,
        reasons=MappingProxyType(dict(membership.reasons)),
        no_room=membership.no_room,
        configured=tuple(core.config.daemons),
        roster=core.roster_manager.describe(members),
        protocol=_protocol(core, now),
        peers=tuple(map(_peer, known.values())),
        differing=tuple(membership.comparison.others(view, now)),
        broken=tuple(
            BrokenStatus(
                name=known[number].label if number in known else f"daemon {number:x}",
                counts=_frozen(broken.counts),
                until=broken.until,
            )
            for number, broken in membership.trust.broken.items()
        ),
        clock=ClockStatus(reading=core.physical.read(now), jumps=core.physical.jumps),
        disk=_disk(core.reservation),
        ring=None if view_state is None else _ring(core, view_state),
        links=() if view_state is None else _links(view_state),
        token=_token(core.counters.ring),
        programs=len(served),
        output_bytes=sum([each.output_bytes for each in served]),
        backlog_bytes=sum([each.backlog_bytes for each in served]),
        backlog_work=max([each.backlog_work for each in served], default=0),
        sessions=tuple([_session(s) for s in served if s.output_bytes >= least_output]),
        silent_programs=core.sessions.watches.ended,
        access=AccessStatus(
            rules=len(core.sessions.access_control.rules.rules),
            refused=_frozen(core.sessions.access_control.refusals),
            bounds=_frozen(core.sessions.access_control.bounds),
            foreign=core.sessions.access_control.foreign_joins,
        ),
        traffic=_traffic(core),
        datagrams=_datagrams(core),
        keys=_keys(core.key_manager),
        drain=core.drain.status(now) if core.drain.begun else None,
    )


def _frozen(counts: Mapping[str, int]) -> Counts:
    return MappingProxyType(dict(counts))


def _peer(peer: PeerDaemon) -> PeerStatus:
    return PeerStatus(
        name=peer.name,
        heard_at=peer.heard_at,
        left=peer.left,
        reading=None if peer.join is None else peer.join.reading,
        joined_at=peer.join_at,
        advised=() if peer.settings is None else peer.settings.advised,
    )


def _protocol(core: StatusContext, now: float) -> ProtocolStatus:
    view, own, me = core.membership.view, core.config.versions, core.start.daemon
    peers = core.membership.peers
    members: dict[str, Versions] = {me.name: own}
    for daemon in view.daemons if view is not None else ():
        peer = peers.get(daemon.number)
        if peer is not None and peer.versions is not None:
            members[daemon.name] = peer.versions
    used = own if view is None else view.versions
    apart = {
        peer.label: peer.versions
        for number, peer in peers.items()
        if peer.versions is not None
        and not (peer.left or peer.versions.meets(used))
        and (view is None or number not in view.numbers)
        and peer.heard_at >= now - SILENT_S
    }
    return ProtocolStatus(
        own=own,
        view=None if view is None else view.versions,
        members=MappingProxyType(dict(sorted(members.items()))),
        apart=MappingProxyType(dict(sorted(apart.items()))),
    )


def _disk(reservation: Reservation) -> DiskStatus:
    return DiskStatus(
        write_s=reservation.write_s,
        asked_at=None if reservation.to_store is None else reservation.asked_at,
        error=reservation.error,
        spare=max(0, reservation.mark - reservation.used),
        aside=reservation.is_short,
    )


def _ring(core: StatusContext, view_state: ViewState) -> RingStatus:
    ring = view_state.ring
    return RingStatus(
        token=ring.state.name.lower(),
        hop=ring.monitor.hop,
        held_by_all=ring.held_by_all,
        held=tuple(stream.held for stream in view_state.streams),
        frontiers_least=view_state.delivery.order.frontiers.least,
        token_losses=ring.monitor.token_losses,
        token_retransmissions=ring.monitor.token_retransmissions,
        waiting_bundles=core.sessions.backlog.size + core.sessions.subscriptions.waiting,
    )


def _token(counts: RingCounts) -> TokenStatus:
    return TokenStatus(
        visits=counts.visits,
        rotations=counts.rotations,
        rotations_s=counts.rotations_s,
        repeated_packets=counts.repeated_packets,
        repeated_bytes=counts.repeated_bytes,
        repeated_tokens=counts.repeated_tokens,
    )


def _links(view_state: ViewState) -> tuple[LinkStatus, ...]:
    return tuple(
        LinkStatus(
            to=view_state.view.daemons[at].name,
            carries_bytes=link.path.carries,
            most_bytes=link.path.most,
            narrow=link.path.is_narrow,
            round_trip_s=link.trip.smoothed_s,
            rate=link.bandwidth.rate,
            sent=link.in_flight.last,
            lost=link.in_flight.lost,
            in_flight_bytes=link.in_flight.bytes,
            waiting_bytes=link.queue.bytes,
            dropped=link.queue.dropped,
        )
        for at, link in view_state.links.items()
    )


def _session(session: DaemonSession) -> SessionStatus:
    return SessionStatus(
        session.connection,
        session.user,
        session.principal,
        session.output_bytes,
        session.backlog_bytes,
        session.backlog_work,
        session.dropped,
        session.block_bytes is not None and session.blocks,
    )


def _traffic(core: StatusContext) -> TrafficStatus:
    traffic = core.sessions.traffic
    return TrafficStatus(
        taken=sum(traffic.taken),
        taken_bytes=sum(traffic.taken_bytes),
        delivered=sum(traffic.delivered),
        delivered_bytes=sum(traffic.delivered_bytes),
        taken_by_level=tuple(traffic.taken),
        taken_bytes_by_level=tuple(traffic.taken_bytes),
        delivered_by_level=tuple(traffic.delivered),
        delivered_bytes_by_level=tuple(traffic.delivered_bytes),
    )


def _datagrams(core: StatusContext) -> DatagramStatus:
    counters = core.counters
    return DatagramStatus(
        sent=counters.sent,
        received=counters.received,
        rejected=_frozen(counters.rejected),
        foreign=counters.foreign,
        stale=counters.stale,
        duplicates=counters.duplicates,
        violations=_frozen(counters.violations),
    )


def _keys(key_manager: KeyManager) -> KeyStatus:
    return KeyStatus(
        missing_key=key_manager.missing_key,
        named_key=key_manager.named_key,
        evicted=key_manager.is_evicted,
        eviction=key_manager.eviction,
        description=key_manager.describe() if key_manager.keys is not None else None,
    )
