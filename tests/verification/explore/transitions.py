"""The states of an explored cluster, and what can happen in each of them.

A cluster is some daemons, the datagrams in flight between them, and one time for all. At one
instant it goes in *rounds*: what is sent in a round arrives in the next one. In each round a daemon
receives its datagrams in any order, and wakes, acts and stores at any place between them. Once
nothing is in flight and nothing is due, time goes on to the next deadline.

Everything else is a *deviation*: that a datagram arrives a round later, or is lost, that time goes
on although something is in flight or due, that a daemon is killed, that two parts or daemons do
not hear each other, or that a disk does not answer. Exploration is bounded by the number of
deviations of each kind, and of all kinds together.

What daemons do in one round is independent: nothing that one of them sends can reach another one
before the next round. So it is enough to explore one order of the daemons, by place, with all
orders within each daemon; every other order leads to the same states at the end of the round
(Godefroid, "Partial-Order Methods for the Verification of Concurrent Systems", LNCS 1032, 1996:
persistent sets).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple, TypeAlias

import attrs

from groupcomm.wire.packet import PacketKind
from tests.verification.explore.canonical import TICK
from tests.verification.explore.node import (
    MOST_STARTS,
    Boots,
    Crash,
    DiskStores,
    DoAct,
    NodeEvent,
    Receive,
    Wake,
)
from tests.verification.explore.node_states import NodeState, NodeStates, NodeStep, PassingNodes

DEFER: Final = "defer"
LATE: Final = "late"
LOSS: Final = "loss"
CRASH: Final = "crash"
CUT: Final = "cut"
PAIR: Final = "pair"
DISK: Final = "disk"
LOST: Final = "lost"
OLD: Final = "old"
KINDS: Final = (DEFER, LATE, LOSS, CRASH, CUT, PAIR, DISK, LOST, OLD)
"""The kinds of deviations: a datagram arrives a round later; time goes on although something is in
flight or due; a datagram is lost; a daemon is killed; two parts do not hear each other; two of
three daemons do not hear each other, and both hear the third one; a disk does not answer; a daemon
is killed and its disk is empty from then on, or as it was before its last start."""

_DEVIATIONS: Final = frozenset(("defer", "lose", "crash", "cut", "pair", "disk", "lost", "old"))
"""The moves that are deviations, whatever the state."""

_EVENTS: Final[Mapping[str, NodeEvent]] = {
    "wake": Wake(),
    "store": DiskStores(),
    "boot": Boots(),
}

_TWO: Final = 2

_WRITE_HAS_LASTED: Final = frozenset((1,))

Pairs: TypeAlias = frozenset[tuple[int, int]]
"""Pairs of daemons that do not hear each other, by their places, the lower one first."""

Flight: TypeAlias = tuple[tuple[int, int], ...]
"""Datagrams in flight, in the order in which they were sent: the place of the target, and the
number of the packet."""


class State(NamedTuple):
    """One state of a cluster.

    Attributes:
        nodes: the number of each daemon's state.
        lags: ticks since each daemon's last step.
        turn: the place of the daemon whose part of the round it is.
        now: the datagrams that arrive in this round.
        later: those that arrive in the next one.
        cut: the pairs of daemons that do not hear each other.
        spent: the number of deviations of each kind so far.
        elapsed: ticks since exploration began.
        stuck: the daemons whose disks do not answer, by their places.
    """

    nodes: tuple[int, ...]
    lags: tuple[int, ...]
    turn: int
    now: Flight
    later: Flight
    cut: Pairs
    spent: tuple[int, ...]
    elapsed: int
    stuck: frozenset[int] = frozenset()


@attrs.frozen
class Move:
    """One thing that happens.

    Attributes:
        what: the kind: ``receive``, ``wake``, ``act``, ``store``, ``pass``, ``wait``, ``boot``,
            ``defer``, ``lose``, ``crash``, ``lost``, ``old``, ``cut``, ``pair``, ``mend``, ``disk``
            or ``answer``.
        place: the daemon, by its place; -1 for all.
        packet: the number of the packet that arrives, is late or lost; -1 without one.
        program: the program that acts, by its index at the daemon.
        others: with ``cut`` the daemons of one side; with ``pair`` both daemons; with ``crash`` not
            empty if the write has lasted.
    """

    what: str
    place: int = -1
    packet: int = -1
    others: frozenset[int] = frozenset()
    program: int = 0


_MEND: Final = Move("mend")


@attrs.frozen(kw_only=True)
class Bounds:
    """The bounds of one exploration.

    Attributes:
        most: the most deviations of each kind.
        in_all: the most deviations together.
        within_s: simulated seconds in which deviations begin.
        in_view_changes: the kinds that happen only while a daemon that runs has no view, or does
            not know its groups, with the simulated seconds in which they do, in place of
            `within_s`.
    """

    most: Mapping[str, int] = attrs.field(factory=dict)
    in_all: int = 0
    within_s: float = 1.0
    in_view_changes: Mapping[str, float] = attrs.field(factory=dict)


class TransitionSystem:
    """What can happen.

    Args:
        nodes: the states of daemons.
        bounds: the bounds.
    """

    def __init__(self, nodes: NodeStates | PassingNodes, bounds: Bounds) -> None:
        self.nodes = nodes
        self.bounds = bounds
        self.count = len(nodes.constants.names)
        self._apart: Pairs = nodes.constants.apart
        self._most = tuple(bounds.most.get(kind, 0) for kind in KINDS)
        self._changes = tuple(kind in bounds.in_view_changes for kind in KINDS)
        self._until = tuple(
            round(bounds.in_view_changes.get(kind, bounds.within_s) / TICK) for kind in KINDS
        )
        self._is_common = all(most == 0 or most >= bounds.in_all for most in self._most)
        self._effects: dict[str, Callable[[State, Move], State]] = {
            "pass": self._pass,
            "wait": self._wait,
            "lose": self._lose,
            "defer": self._defer,
            "cut": self._cut,
            "pair": self._cut,
            "mend": self._mend,
            "disk": self._stick,
            "answer": self._answer,
        }

    def key(self, state: State) -> tuple[object, ...]:
        """Return all of a state that can make a difference from now on.

        The order of datagrams makes none. Once no deviation can come any more, neither does the
        number of those that came, nor the time since the beginning.
        """
        nodes, lags, turn, now, later, cut, spent, elapsed, stuck = state
        flight = tuple(sorted(now)), tuple(sorted(later))
        if not self.may_deviate(state):
            return nodes, lags, turn, *flight, cut, stuck
        count = sum(spent) if self._is_common else spent
        return nodes, lags, turn, *flight, cut, stuck, count, elapsed

    # ---- moves ----

    def moves(self, state: State) -> list[Move]:
        """Return all that can happen in a state; nothing does where exploration ends."""
        if self.is_at_end(state):
            return list(self._recoveries(state, range(self.count)))
        due = list(self._due(state))
        options = list(self._options(state))
        found = due + options
        if not due and not (options and self._must_act(state)):
            found.append(Move("wait" if self._is_over(state) else "pass", state.turn))
        if self.may_deviate(state):
            found += self._deviations(state)
        return [*found, *self._recoveries(state, (state.turn,))]

    def may_deviate(self, state: State) -> bool:
        """Return whether something may still go wrong, now or later."""
        return any(self._left(state))

    def _left(self, state: State) -> list[bool]:
        """Return for each kind whether such a deviation may come, now or later."""
        if sum(state.spent) >= self.bounds.in_all:
            return [False]
        elapsed = state.elapsed
        each = zip(state.spent, self._most, self._until, strict=True)
        return [spent < most and elapsed <= until for spent, most, until in each]

    def deviates(self, state: State, move: Move) -> bool:
        """Return whether a move is a deviation."""
        return move.what in _DEVIATIONS or (move.what == "wait" and not self._is_over(state))

    def is_at_end(self, state: State) -> bool:
        """Return whether all is at rest, and stays so unless something that went wrong ends."""
        left = self._left(state)
        is_left = any(may for may, change in zip(left, self._changes, strict=False) if not change)
        return not is_left and self.is_at_rest(state)

    def usual(self, state: State) -> Move:
        """Return what happens next if nothing goes wrong and all is as quick as can be."""
        if (state.cut or state.stuck) and state.turn == 0:
            return _MEND if state.cut else Move("answer", min(state.stuck))
        move = next(self._due(state), None) or next(self._options(state), None)
        return move or Move("wait" if self._is_over(state) else "pass", state.turn)

    def _recoveries(self, state: State, places: Iterable[int]) -> Iterator[Move]:
        """Yield how what went wrong may end: in any round after it, and at rest at the latest.

        At rest the daemons that run have done all that they can do without the others. A daemon may
        stay down for ever, but a cut ends, and a disk answers.

        Args:
            state: the state.
            places: the daemons that may start now.
        """
        if state.cut and 0 in places:
            yield _MEND
        for place in places:
            node = self.nodes.states[state.nodes[place]]
            if not node.is_up and node.starts < MOST_STARTS:
                yield Move("boot", place)
            if place in state.stuck:
                yield Move("answer", place)

    def recoveries_at_rest(self, state: State) -> list[Move]:
        """Return how what went wrong may end at rest, whoever's turn it is."""
        return list(self._recoveries(state, range(self.count))) if self.is_at_rest(state) else []

    def _due(self, state: State) -> Iterator[Move]:
        """Yield what the daemon whose turn it is must do in this round."""
        turn = state.turn
        node = self.nodes.states[state.nodes[turn]]
        if node.due <= state.lags[turn]:
            yield Move("wake", turn)
        for target, packet in dict.fromkeys(state.now):
            if target == turn:
                yield Move("receive", turn, packet)

    def _options(self, state: State) -> Iterator[Move]:
        """Yield what it may do in this round or in a later one."""
        turn = state.turn
        node = self.nodes.states[state.nodes[turn]]
        if node.is_storing and turn not in state.stuck:
            yield Move("store", turn)
        for program in node.may_act:
            yield Move("act", turn, program=program)

    def _is_over(self, state: State) -> bool:
        """Return whether nothing is left to happen at this instant."""
        states = self._states(state)
        return self._is_idle(state) and not any(
            node.may_act or (node.is_storing and place not in state.stuck)
            for place, node in enumerate(states)
        )

    def _must_act(self, state: State) -> bool:
        """Return whether nothing else is left: an act or a write that may wait waits no longer."""
        return state.turn + 1 == self.count and self._is_idle(state)

    def _is_idle(self, state: State) -> bool:
        """Return whether nothing is in flight, and no daemon has to wake."""
        if state.now or state.later:
            return False
        due = (node.due for node in self._states(state))
        return all(ticks > lag for ticks, lag in zip(due, state.lags, strict=True))

    def _deviations(self, state: State) -> Iterator[Move]:
        """Yield what may go wrong, as far as the bound of its kind allows it."""
        turn = state.turn
        changing = any(self._changes) and any(
            node.is_up and not node.has_groups for node in self._states(state)
        )
        defer, late, loss, crash, cut, pair, disk, lost, old = (
            may and (changing or not only_then)
            for may, only_then in zip(self._left(state), self._changes, strict=True)
        )
        for target, packet in dict.fromkeys(state.now):
            if target == turn:
                yield from (Move("defer", turn, packet),) if defer else ()
                yield from (Move("lose", turn, packet),) if loss else ()
        node = self.nodes.states[state.nodes[turn]]
        if node.is_up:
            yield from _crashes(turn, node, crash=crash, lost=lost, old=old)
        if node.is_storing and disk and turn not in state.stuck:
            yield Move("disk", turn)
        if turn == 0:
            if late and not self._is_over(state):
                yield Move("wait", 0)
            if cut and not state.cut:
                yield from (Move("cut", others=side) for side in _sides(self.count))
            if pair and not state.cut and self.count > _TWO:
                yield from (Move("pair", others=frozenset(each)) for each in _pairs(self.count))

    def _states(self, state: State) -> list[NodeState]:
        states = self.nodes.states
        return [states[number] for number in state.nodes]

    def is_settled(self, state: State) -> bool:
        """Return whether the daemons that run have one view with nobody else, and all is done."""
        is_whole = not state.cut and not state.stuck
        return is_whole and self._is_over(state) and self._is_formed(state)

    def is_at_rest(self, state: State) -> bool:
        """Return whether each part has settled, and no daemon holds a packet that counts."""
        is_quiet = not any(
            (node.holds_packets or not node.is_read) and place not in state.stuck
            for place, node in enumerate(self._states(state))
        )
        return is_quiet and self._is_over(state) and self._is_formed(state)

    def _is_formed(self, state: State) -> bool:
        """Return whether the daemons that run in each part have a view with nobody else.

        A daemon whose disk does not answer need not be in it.
        """
        views: dict[int, set[bytes]] = {}
        members: dict[int, set[str]] = {}
        names = self.nodes.constants.names
        states = list(enumerate(self._states(state)))
        own = {node.view for place, node in states if place not in state.stuck}
        running = {
            place: node
            for place, node in states
            if node.is_up and (place not in state.stuck or node.view in own)
        }
        parts = parts_of(state.cut | self._apart, tuple(running))
        up = [(parts[place], names[place], node) for place, node in running.items()]
        for side, name, node in up:
            views.setdefault(side, set()).add(node.view)
            members.setdefault(side, set()).add(name)
        is_one = all(len(each) == 1 and b"" not in each for each in views.values())
        return is_one and all(set(node.members) == members[side] for side, _, node in up)

    # ---- their effects ----

    def apply(self, state: State, move: Move) -> tuple[State, NodeStep | None]:
        """Return the next state, and the step of the daemon that has taken one."""
        event = _EVENTS.get(move.what)
        if event is not None:
            return self._step(state, move.place, event, move.what)
        if move.what == "receive":
            now = _without(state.now, (move.place, move.packet))
            packet = self.nodes.packets[move.packet]
            return self._step(state._replace(now=now), move.place, Receive(packet), move.packet)
        if move.what == "act":
            event = DoAct(move.program)
            return self._step(state, move.place, event, (move.what, move.program))
        if move.what in (CRASH, LOST, OLD):
            return self._crash(state, move)
        return self._effects[move.what](state, move), None

    def _step(
        self, state: State, place: int, event: NodeEvent, key: object
    ) -> tuple[State, NodeStep]:
        step = self.nodes.step(state.nodes[place], state.lags[place], event, key)
        sent = step.sent
        is_whole = not (state.cut or self._apart)
        if sent and not (is_whole and all(node.is_up for node in self._states(state))):
            sent = tuple(each for each in sent if self._arrives(state, place, each[0]))
        nodes, lags = list(state.nodes), list(state.lags)
        nodes[place], lags[place] = step.state, 0
        later = (*state.later, *sent)
        return state._replace(nodes=tuple(nodes), lags=tuple(lags), later=later), step

    def _arrives(self, state: State, source: int, target: int) -> bool:
        is_up = self.nodes.states[state.nodes[target]].is_up
        return is_up and _ordered((source, target)) not in state.cut | self._apart

    def _crash(self, state: State, move: Move) -> tuple[State, NodeStep]:
        place, kind, has_lasted = move.place, move.what, bool(move.others)
        state = state._replace(
            now=tuple(each for each in state.now if each[0] != place),
            later=tuple(each for each in state.later if each[0] != place),
            spent=_plus(state.spent, kind),
            stuck=state.stuck - {place},
        )
        event = Crash(has_lasted, "" if kind == CRASH else kind)
        return self._step(state, place, event, (kind, has_lasted))

    @staticmethod
    def _lose(state: State, move: Move) -> State:
        now = _without(state.now, (move.place, move.packet))
        return state._replace(now=now, spent=_plus(state.spent, LOSS))

    @staticmethod
    def _defer(state: State, move: Move) -> State:
        late = (move.place, move.packet)
        now, later = _without(state.now, late), (*state.later, late)
        return state._replace(now=now, later=later, spent=_plus(state.spent, DEFER))

    def _cut(self, state: State, move: Move) -> State:
        others = move.others
        apart = {
            (low, high) for low, high in _pairs(self.count) if (low in others) != (high in others)
        }
        cut = frozenset(apart) if move.what == "cut" else frozenset((_ordered(others),))
        return state._replace(cut=cut, spent=_plus(state.spent, move.what))

    @staticmethod
    def _mend(state: State, _: Move) -> State:
        return state._replace(cut=frozenset())

    @staticmethod
    def _stick(state: State, move: Move) -> State:
        return state._replace(stuck=state.stuck | {move.place}, spent=_plus(state.spent, DISK))

    @staticmethod
    def _answer(state: State, move: Move) -> State:
        return state._replace(stuck=state.stuck - {move.place})

    def _pass(self, state: State, _: Move) -> State:
        """End the turn of a daemon, and with the last one the round."""
        if state.turn + 1 < self.count:
            return state._replace(turn=state.turn + 1)
        return state._replace(turn=0, now=state.later, later=())

    def _wait(self, state: State, _: Move) -> State:
        """Let time pass until the next deadline that is not reached yet."""
        states = self._states(state)
        left = [node.due - lag for node, lag in zip(states, state.lags, strict=True)]
        ticks = min((each for each in left if each > 0), default=0)
        return state._replace(
            lags=tuple(
                lag + ticks if node.is_up else 0
                for node, lag in zip(states, state.lags, strict=True)
            ),
            turn=0,
            now=(*state.now, *state.later),
            later=(),
            spent=state.spent if self._is_over(state) else _plus(state.spent, LATE),
            elapsed=state.elapsed + ticks,
        )

    def describe(self, move: Move) -> str:
        """Return a move as words."""
        names = self.nodes.constants.names
        if move.packet >= 0:
            packet = self.nodes.packets[move.packet]
            kind = PacketKind(packet.content[0]).name.lower()
            verb = {"receive": "receives", "lose": "does not receive", "defer": "receives later"}
            return f"{names[move.place]} {verb[move.what]} {kind} of {packet.source}"
        if move.what in (CUT, PAIR):
            text = " ".join(names[place] for place in sorted(move.others))
            return f"{text} cut off" + (" from each other" if move.what == PAIR else "")
        if move.what == "act":
            number = f" with program {move.program + 1}" if move.program else ""
            return f"{names[move.place]} acts{number}"
        texts = {
            "wake": "wakes",
            "store": "stores",
            "boot": "starts",
            "crash": "is killed" + (", but its write has lasted" if move.others else ""),
            "lost": "is killed, and its disk is lost",
            "old": "is killed, and its disk is as before its last start",
            "mend": "all hear each other",
            "disk": "waits for its disk",
            "answer": "has a disk that answers again",
            "wait": "time passes",
            "pass": "has done its part of the round",
        }
        text = texts[move.what]
        return text if move.what in ("mend", "wait") else f"{names[move.place]} {text}"


def _crashes(place: int, node: NodeState, *, crash: bool, lost: bool, old: bool) -> Iterator[Move]:
    """Yield how a daemon may be killed, and what may become of its disk."""
    if crash:
        yield Move(CRASH, place)
        if node.is_storing:
            yield Move(CRASH, place, others=_WRITE_HAS_LASTED)
    if lost:
        yield Move(LOST, place)
    if old:
        yield Move(OLD, place)


def _sides(count: int) -> list[frozenset[int]]:
    """Return one side of each cut."""
    return [
        frozenset(place for place in range(count) if bits >> place & 1)
        for bits in range(1, 2 ** (count - 1))
    ]


def _pairs(count: int) -> list[tuple[int, int]]:
    """Return each pair of daemons, by their places, the lower one first."""
    return [(low, high) for high in range(count) for low in range(high)]


def _ordered(pair: Iterable[int]) -> tuple[int, int]:
    low, high = sorted(pair)
    return low, high


@cache
def parts_of(cut: Pairs, places: tuple[int, ...]) -> dict[int, int]:
    """Return for each place the least one of its part: those that hear each other, on whatever
    way."""
    part = {place: place for place in places}
    for _ in places:
        for low, high in _pairs(max(places, default=-1) + 1):
            if low in part and high in part and (low, high) not in cut:
                part[low] = part[high] = min(part[low], part[high])
    return part


def _without(flight: Flight, one: tuple[int, int]) -> Flight:
    at = flight.index(one)
    return flight[:at] + flight[at + 1 :]


def _plus(spent: tuple[int, ...], kind: str) -> tuple[int, ...]:
    place = KINDS.index(kind)
    return (*spent[:place], spent[place] + 1, *spent[place + 1 :])
