"""The specification of locality: a ring orders alone what only its own programs receive.

It stands beside `order.py`: streams, promises and blocks are the same, and what is new is exact. A
packet is *local* by its place in its ring's stream alone, so all daemons of the ring agree on it:

    wide      a name (a group, or "#" and a session: a private name) of which the stream says that
              other rings may send to it: it had members there when the view began, or its last
              mark is WIDE and not NARROW
    local     a message each of whose names has receivers in the ring and is not wide, none of whose
              receivers is in a wide group, and none of whose receivers has a wide private name:
              what nobody receives waits for the leave of the last one who did
    waits     the earlier packets of the stream that concern one of its receivers, or are of its
              session: it is delivered after these, and before all others if it can be

All other packets are *global*: they are delivered by rising places, below the blocks of all rings.

A daemon may send to a name that another ring has, and have a session join a group, only with a
*right*: SUBSCRIBE goes into its stream, and the first daemon of each ring that has the name marks
it WIDE in its own stream before the right is granted. UNSUBSCRIBE gives it back, and NARROW follows
once the first daemon knows nobody else who has one.

A daemon holds a prefix of each stream here: what comes early waits. Its own packets, too, count
once all before them are there, as the token overtakes packets.
"""

import enum
from functools import lru_cache
from typing import NamedTuple

import attrs

from tests.verification.specification.form import Specification, State
from tests.verification.specification.order import PacketId, Place


class Kind(enum.Enum):
    """What a packet says."""

    MESSAGE = enum.auto()
    JOIN = enum.auto()
    LEAVE = enum.auto()
    SUBSCRIBE = enum.auto()
    UNSUBSCRIBE = enum.auto()
    WIDE = enum.auto()
    NARROW = enum.auto()


AGREED = (Kind.MESSAGE, Kind.JOIN, Kind.LEAVE, Kind.NARROW)
"""These have a place in the agreed order; the others count where they stand in their stream."""


class Content(NamedTuple):
    """The one thing that a packet says.

    Attributes:
        kind: what it is.
        names: groups and private names; one, except of messages.
        session: the session that sends, joins or leaves; empty for a daemon itself.
        safe: whether it is SAFE.
    """

    kind: Kind
    names: tuple[str, ...]
    session: str = ""
    safe: bool = False


class Packet(NamedTuple):
    """A packet that was stamped.

    Attributes:
        time: its time stamp.
        author: the daemon that has numbered it.
        content: what it says.
        before: the messages that some session had got by then, and what their senders had sent
            before them: a telephone may have told its sender of them.
    """

    time: int
    author: str
    content: Content
    before: frozenset[PacketId] = frozenset()


class Entry(NamedTuple):
    """What a stream says of one of its packets.

    Attributes:
        local: whether the ring orders it alone.
        waits: the numbers of the earlier packets that a local one waits for.
        after: the numbers of the global packets that it waits for, by way of local ones too.
    """

    local: bool
    waits: frozenset[int]
    after: frozenset[int]


Memberships = frozenset[tuple[str, str]]
"""Pairs (session, group)."""


class Cluster(NamedTuple):
    """What does not change.

    Attributes:
        rings: the daemons of each ring; the first one marks names.
        homes: the daemon of each session, as pairs.
        members: who is in which group as the view begins.
    """

    rings: tuple[tuple[str, ...], ...]
    homes: tuple[tuple[str, str], ...]
    members: Memberships

    def ring_of(self, daemon: str) -> int:
        """Return the ring of a daemon."""
        return next(ring for ring, daemons in enumerate(self.rings) if daemon in daemons)

    def daemon_of(self, session: str) -> str:
        """Return the daemon of a session."""
        return dict(self.homes)[session]

    def sessions_of(self, ring: int) -> frozenset[str]:
        """Return the sessions of the daemons of a ring."""
        return frozenset(s for s, daemon in self.homes if daemon in self.rings[ring])

    def has(self, ring: int, name: str) -> bool:
        """Return whether a ring has a private name, or members of a group as the view begins."""
        sessions = self.sessions_of(ring)
        return name[1:] in sessions or any(s in sessions and g == name for s, g in self.members)


def receivers(memberships: Memberships, names: tuple[str, ...]) -> frozenset[str]:
    """Return the sessions to which a message to these names goes."""
    private = {name[1:] for name in names if name[0] == "#"}
    return frozenset(private | {session for session, group in memberships if group in names})


def changed(memberships: Memberships, content: Content) -> Memberships:
    """Return the memberships after a packet."""
    pair = (content.session, content.names[0])
    if content.kind is Kind.JOIN:
        return memberships | {pair}
    return memberships - {pair} if content.kind is Kind.LEAVE else memberships


@lru_cache(maxsize=100_000)
def entries_of(cluster: Cluster, ring: int, contents: tuple[Content, ...]) -> tuple[Entry, ...]:
    """Return what a stream says of its packets; all of it follows from the stream alone."""
    own = cluster.sessions_of(ring)
    now = frozenset(pair for pair in cluster.members if pair[0] in own)
    wide = {group for session, group in cluster.members if session not in own}
    entries: list[Entry] = []
    concerned: list[frozenset[str]] = []
    for content in contents:
        before, now = now, changed(now, content)
        if content.kind is Kind.WIDE:
            wide.add(content.names[0])
        elif content.kind is Kind.NARROW:
            wide.discard(content.names[0])
        who = receivers(before, content.names) | receivers(now, content.names)
        if content.kind in (Kind.JOIN, Kind.LEAVE):  # without effect nobody is told
            who = (who if now != before else frozenset()) | {content.session}
        named = {*content.names, *("#" + s for s in who), *(g for s, g in now if s in who)}
        local = content.kind is Kind.MESSAGE and who <= own and not named & wide
        local = local and all(receivers(now, (name,)) for name in content.names)
        waits = frozenset(
            number
            for number, (other, earlier) in enumerate(zip(contents, concerned, strict=False), 1)
            if other.kind in AGREED
            and (earlier & who or (content.session and other.session == content.session))
        )
        after = {n for n in waits if not entries[n - 1].local}
        after = after.union(*(entries[n - 1].after for n in waits if entries[n - 1].local))
        entries.append(Entry(local, waits, frozenset(after)))
        concerned.append(who & own)
    return tuple(entries)


@attrs.define(eq=False)
class LocalityState(State):
    """The variables of one view.

    Attributes:
        packets: all packets.
        promises: all promises, as (ring, value, upto).
        prefix: for each daemon and ring, all packets up to this number are held.
        counted: for each daemon and ring the highest promise that counts.
        clock: the highest stamp or promise that each daemon has met.
        rights: the daemons that may send to a name, or join.
        delivered: what each daemon has delivered of the agreed order.
        stable: for each daemon the number up to which it knows that its whole ring holds its
            stream.
        frontier: for each daemon the time up to which it knows that all daemons can deliver.
        left: what is still to be said, by the place in the script of the model.
    """

    packets: dict[PacketId, Packet] = attrs.Factory(dict)
    promises: set[tuple[int, int, int]] = attrs.Factory(set)
    prefix: dict[tuple[str, int], int] = attrs.Factory(dict)
    counted: dict[tuple[str, int], int] = attrs.Factory(dict)
    clock: dict[str, int] = attrs.Factory(dict)
    rights: set[tuple[str, str]] = attrs.Factory(set)
    delivered: dict[str, tuple[PacketId, ...]] = attrs.Factory(dict)
    stable: dict[str, int] = attrs.Factory(dict)
    frontier: dict[str, int] = attrs.Factory(dict)
    left: set[int] = attrs.Factory(set)


class LocalityCondition(enum.Enum):
    """The conditions of the actions."""

    STAMPS_RISE = "the stamps of a ring rise"
    ABOVE_MET = "a stamp is above all stamps and promises that its daemon has met"
    PROMISE_KEPT = "a stamp is above all promises of its ring"
    HAS_RIGHT = "a daemon sends to names of other rings, and lets sessions join, with a right only"
    IS_MARKED = "a right is granted once each ring that has the name has marked it WIDE"
    RING_KNOWS = "a right is granted once the first daemon of each ring knows of it"
    FOLLOWS_MARKS = "a daemon that gets a right follows the stamps of the marks"
    NOBODY_ELSE = "a name is marked NARROW once nobody of another ring has a right"
    COUNTS_WHOLE = "a promise counts once the packets before it are held"
    IS_HELD = "a daemon delivers packets that it holds, and all before them of their stream"
    IN_ORDER = "global packets are delivered by rising places, after all lower local ones"
    NOTHING_LOWER = "a global packet is delivered once no ring can still send a lower one"
    ALL_CAN = "a SAFE packet is delivered once all that may receive it can deliver it"
    IS_LOCAL = "a ring orders alone what nobody else may send to any of its receivers"
    RECEIVERS_FIRST = "a local packet waits for earlier packets that concern its receivers"
    SESSION_FIRST = "a local packet waits for earlier packets of its session"


_C = LocalityCondition


class Locality(Specification[LocalityState]):
    """The actions of one view.

    Args:
        cluster: daemons, sessions and groups.
        dropped: conditions that are left out.
    """

    def __init__(self, cluster: Cluster, dropped: frozenset[enum.Enum] = frozenset()) -> None:
        super().__init__(dropped)
        self.cluster = cluster
        self.rings = cluster.rings

    # ---- what a state says ----

    def stream(self, state: LocalityState, ring: int) -> list[Packet]:
        """Return the packets of a ring, by rising number."""
        return [state.packets[each] for each in sorted(state.packets) if each[0] == ring]

    def entries(self, state: LocalityState, ring: int) -> tuple[Entry, ...]:
        """Return what a stream says of its packets."""
        contents = tuple(packet.content for packet in self.stream(state, ring))
        return entries_of(self.cluster, ring, contents)

    def is_wide(self, state: LocalityState, ring: int, name: str) -> bool:
        """Return whether a name is wide at the end of a stream."""
        wide = any(self.cluster.has(r, name) for r in range(len(self.rings)) if r != ring)
        wide = wide and name[0] != "#"
        for packet in self.stream(state, ring):
            if packet.content.names == (name,):
                wide = packet.content.kind is Kind.WIDE or (
                    wide and packet.content.kind is not Kind.NARROW
                )
        return wide

    def knows_others(self, state: LocalityState, daemon: str, name: str) -> bool:
        """Return whether a daemon knows one of another ring that has a right to a name."""
        own = self.cluster.ring_of(daemon)
        return any(
            self._wants(state, daemon, ring, name) for ring in range(len(self.rings)) if ring != own
        )

    def _wants(self, state: LocalityState, daemon: str, ring: int, name: str) -> bool:
        """Return whether a ring wants a name, by what a daemon holds of its stream."""
        members = name[0] != "#" and self.cluster.members
        wanting = {self.cluster.daemon_of(s) for s, group in members or () if group == name}
        wanting &= set(self.rings[ring])
        for packet in self.stream(state, ring)[: state.prefix.get((daemon, ring), 0)]:
            if packet.content.names == (name,):
                if packet.content.kind is Kind.SUBSCRIBE:
                    wanting.add(packet.author)
                elif packet.content.kind is Kind.UNSUBSCRIBE:
                    wanting.discard(packet.author)
        return bool(wanting)

    def owes_mark(self, state: LocalityState, ring: int, name: str) -> bool:
        """Return whether the first daemon of a ring still has to mark a name WIDE."""
        first = self.rings[ring][0]
        has = name[1:] in self.cluster.sessions_of(ring) or self._wants(state, first, ring, name)
        knows = self.knows_others(state, first, name)
        return has and knows and not self.is_wide(state, ring, name)

    def least(self, state: LocalityState, daemon: str) -> int:
        """Return the time up to which no ring can still send anything that a daemon lacks."""
        return min(self._block(state, daemon, ring) for ring in range(len(self.rings)))

    def _block(self, state: LocalityState, daemon: str, ring: int) -> int:
        held = state.packets.get((ring, state.prefix.get((daemon, ring), 0)))
        return max(held.time if held else 0, state.counted.get((daemon, ring), 0))

    def place(self, state: LocalityState, packet: PacketId) -> Place:
        """Return the place of a packet."""
        return state.packets[packet].time, packet[0]

    def got(self, state: LocalityState, daemon: str) -> list[tuple[PacketId, frozenset[str]]]:
        """Return the messages that a daemon has delivered, with the sessions that got each."""
        members = self.cluster.members
        found = []
        for each in state.delivered.get(daemon, ()):
            content = state.packets[each].content
            members = changed(members, content)
            if content.kind is Kind.MESSAGE:
                here = {s for s, home in self.cluster.homes if home == daemon}
                found.append((each, receivers(members, content.names) & here))
        return found

    # ---- actions of daemons that number ----

    def stamp(
        self, state: LocalityState, daemon: str, time: int, content: Content, step: int | None
    ) -> None:
        """Number a packet, a mark or the next step of the script."""
        ring = self.cluster.ring_of(daemon)
        stream = self.stream(state, ring)
        self.need(not stream or time > stream[-1].time, _C.STAMPS_RISE)
        self.need(time > state.clock.get(daemon, 0), _C.ABOVE_MET)
        self.need(all(time > v for r, v, _ in state.promises if r == ring), _C.PROMISE_KEPT)
        self._need_right(state, daemon, content)
        if content.kind is Kind.UNSUBSCRIBE:
            state.rights.discard((daemon, content.names[0]))
        before = frozenset[PacketId]()
        if content.kind is Kind.MESSAGE:
            before = self._heard_of(state)
        state.packets[ring, len(stream) + 1] = Packet(time, daemon, content, before)
        state.clock[daemon] = time
        if step is not None:
            state.left.discard(step)

    def _need_right(self, state: LocalityState, daemon: str, content: Content) -> None:
        name = content.names[0]
        match content.kind:
            case Kind.JOIN:
                self.need((daemon, name) in state.rights, _C.HAS_RIGHT)
            case Kind.MESSAGE:
                for other in content.names:
                    has = (daemon, other) in state.rights or not self._leaves(state, daemon, other)
                    self.need(has, _C.HAS_RIGHT)
            case Kind.NARROW:
                self.need(not self.knows_others(state, daemon, name), _C.NOBODY_ELSE)
            case _:
                pass

    def _leaves(self, state: LocalityState, daemon: str, name: str) -> bool:
        """Return whether a message to a name has receivers in other rings, by what is known."""
        if name[0] == "#":
            ring = self.cluster.ring_of(daemon)
            return name[1:] not in self.cluster.sessions_of(ring)
        return self.knows_others(state, daemon, name)

    def _heard_of(self, state: LocalityState) -> frozenset[PacketId]:
        given = {
            each
            for daemon in state.delivered
            for each, sessions in self.got(state, daemon)
            if sessions
        }
        for ring, number in tuple(given):
            session = state.packets[ring, number].content.session
            given |= {
                (ring, n)
                for n in range(1, number)
                if state.packets[ring, n].content.session == session
                and state.packets[ring, n].content.kind is Kind.MESSAGE
            }
        return frozenset(given)

    def promise(self, state: LocalityState, ring: int, value: int) -> None:
        """Promise that nothing after the last packet of the ring is stamped `value` or lower."""
        state.promises.add((ring, value, len(self.stream(state, ring))))

    def grant(self, state: LocalityState, daemon: str, name: str) -> None:
        """Get the right to a name for which this daemon has subscribed."""
        own = self.cluster.ring_of(daemon)
        stream = self.stream(state, own)
        asked = [
            n
            for n, packet in enumerate(stream, 1)
            if packet.author == daemon
            and packet.content.names == (name,)
            and packet.content.kind in (Kind.SUBSCRIBE, Kind.UNSUBSCRIBE)
        ]
        number = asked[-1]
        marks = [0]
        for ring, daemons in enumerate(self.rings):
            knows = state.prefix.get((daemons[0], own), 0) >= number
            self.need(knows, _C.RING_KNOWS)
            self.need(not self.owes_mark(state, ring, name), _C.IS_MARKED)
            if self.is_wide(state, ring, name):
                marks += [
                    packet.time
                    for packet in self.stream(state, ring)
                    if packet.content == Content(Kind.WIDE, (name,))
                ]
        state.rights.add((daemon, name))
        if _C.FOLLOWS_MARKS not in self._dropped:
            state.clock[daemon] = max(state.clock.get(daemon, 0), *marks)

    # ---- actions of daemons that receive ----

    def hold(self, state: LocalityState, daemon: str, ring: int) -> None:
        """Receive the next packet of a stream."""
        number = state.prefix.get((daemon, ring), 0) + 1
        state.prefix[daemon, ring] = number
        time = state.packets[ring, number].time
        state.clock[daemon] = max(time, state.clock.get(daemon, 0))

    def count(self, state: LocalityState, daemon: str, ring: int, value: int, upto: int) -> None:
        """Count a promise."""
        self.need(state.prefix.get((daemon, ring), 0) >= upto, _C.COUNTS_WHOLE)
        state.counted[daemon, ring] = max(value, state.counted.get((daemon, ring), 0))
        state.clock[daemon] = max(value, state.clock.get(daemon, 0))

    def gather(self, state: LocalityState, daemon: str) -> None:
        """Learn what the whole ring holds of its stream, and what all daemons can deliver."""
        ring = self.cluster.ring_of(daemon)
        state.stable[daemon] = min(state.prefix.get((d, ring), 0) for d in self.rings[ring])
        state.frontier[daemon] = min(self.least(state, d) for ring in self.rings for d in ring)

    def deliver(self, state: LocalityState, daemon: str, packet: PacketId) -> None:
        """Deliver a packet as a global one; a local one may come to this, too."""
        done = state.delivered.get(daemon, ())
        place = self.place(state, packet)
        self.need(self._holds(state, daemon, packet), _C.IS_HELD)
        for other in state.packets:
            if other not in done and state.packets[other].content.kind in AGREED:
                lower = self._holds(state, daemon, other) and self.place(state, other) < place
                self.need(not lower, _C.IN_ORDER)
        self.need(place[0] <= self.least(state, daemon), _C.NOTHING_LOWER)
        if state.packets[packet].content.safe:
            ring, number = packet
            all_can = place[0] <= state.frontier.get(daemon, 0)
            own = ring == self.cluster.ring_of(daemon)
            local = self.entries(state, ring)[number - 1].local
            all_can = all_can or (own and local and state.stable.get(daemon, 0) >= number)
            self.need(all_can, _C.ALL_CAN)
        state.delivered[daemon] = (*done, packet)

    def deliver_local(self, state: LocalityState, daemon: str, number: int) -> None:
        """Deliver a packet of the own ring that only this ring's programs receive."""
        ring = self.cluster.ring_of(daemon)
        packet = (ring, number)
        done = state.delivered.get(daemon, ())
        entry = self.entries(state, ring)[number - 1]
        content = state.packets[packet].content
        self.need(self._holds(state, daemon, packet), _C.IS_HELD)
        self.need(entry.local, _C.IS_LOCAL)
        for other in entry.waits:
            same = state.packets[ring, other].content.session == content.session
            condition = _C.SESSION_FIRST if same else _C.RECEIVERS_FIRST
            self.need((ring, other) in done, condition)
        if content.safe:
            self.need(state.stable.get(daemon, 0) >= number, _C.ALL_CAN)
        state.delivered[daemon] = (*done, packet)

    def _holds(self, state: LocalityState, daemon: str, packet: PacketId) -> bool:
        return state.prefix.get((daemon, packet[0]), 0) >= packet[1]
