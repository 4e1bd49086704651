"""The search: every state within the bounds, depth first, and the checks of what it finds.

Three things are found: a core that breaks an invariant of its own, at each step; a cluster that
does not come to rest in one view with all done although nothing goes wrong any more (liveness); and
a history that breaks a property. Histories are checked at the ends, by the checkers of the
simulator. A state includes the history of each daemon, so states are only equal if their histories
are, and no history is missed.

A cluster that does not come to rest either goes round in a circle, and its path meets itself (which
depth-first search notices for every circle there is); or its states differ for ever, and its path
has too many moves at one instant, or goes on for too long.
"""

import hashlib
import marshal
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

import attrs

from tests.verification.explore.canonical import TICK
from tests.verification.explore.ends import INVARIANT, LIVENESS, EndCheck
from tests.verification.explore.node_states import NodeStep
from tests.verification.explore.scenarios import Beginning
from tests.verification.explore.transitions import Move, State

SETTLE_S: Final = 12.0
"""The simulated time in which a cluster comes to rest once nothing goes wrong any more."""

MOST_AT_ONCE: Final = 2_000
"""The most moves of a path at one instant: a handful of datagrams need some hundred."""


@attrs.frozen(kw_only=True)
class Finding:
    """Something wrong.

    Attributes:
        property: the id of the property; ``L`` if the cluster does not settle, ``assert`` if a core
            breaks an invariant of its own.
        text: what is wrong.
        moves: what has happened, in order, up to there.
        deviations: the number of deviations among it.
    """

    property: str
    text: str
    moves: tuple[Move, ...]
    deviations: int


@attrs.define(kw_only=True)
class Progress:
    """How far a search has come.

    Attributes:
        states: the number of different states.
        transitions: the number of moves from one to another.
        ends: the number of ends, whose histories were checked.
        depth: the most moves from the beginning to an end.
        is_complete: whether all states within the bounds were reached.
        findings: what is wrong; the first of each property.
    """

    states: int = 0
    transitions: int = 0
    ends: int = 0
    depth: int = 0
    is_complete: bool = False
    findings: list[Finding] = attrs.field(factory=list)


Report = Callable[[Progress], None]


@attrs.frozen
class _Level:
    """One state of the path that is explored now.

    Attributes:
        state: the state.
        key: its digest.
        move: the move that leads to it; None for the first state.
        step: the step of the daemon that has taken one in this move.
        moves: what can happen in it and was not tried yet.
        at_once: the number of moves before it at the same instant.
    """

    state: State
    key: bytes
    move: Move | None
    step: NodeStep | None
    moves: Iterator[Move]
    at_once: int


class Search:
    """A search from one beginning.

    Args:
        beginning: where it begins.
        most_states: the most states.
        stop_at_first: whether it ends with the first finding.
        shuffle: the seed of the order in which moves are tried; None for the order in which they
            are listed. With a bound on the number of states another order reaches other ones.
        report: is called each 10,000 states.
    """

    def __init__(
        self,
        beginning: Beginning,
        *,
        most_states: int = 10**9,
        stop_at_first: bool = False,
        shuffle: int | None = None,
        report: Report = lambda progress: None,
    ) -> None:
        self._system = beginning.system
        self._beginning = beginning
        self._most = most_states
        self._stop_at_first = stop_at_first
        self._report = report
        self._random = None if shuffle is None else Random(shuffle)
        self._seen: set[bytes] = set()
        self._path: list[_Level] = []
        self._on_path: set[bytes] = set()
        self._ends = EndCheck(beginning)
        self._limit = round((beginning.system.bounds.within_s + SETTLE_S) / TICK)
        self.progress = Progress()

    def run(self) -> Progress:
        """Explore; return how far it has come."""
        progress = self.progress
        self._enter(self._beginning.state, None, None)
        while self._path:
            level = self._path[-1]
            move = next(level.moves, None)
            if move is None:
                self._on_path.remove(self._path.pop().key)
                continue
            state, step = self._system.apply(level.state, move)
            progress.transitions += 1
            if step is not None and step.error:
                self._find(INVARIANT, step.error, (*self._moves(), move), state)
            else:
                self._enter(state, move, step)
            if progress.states >= self._most or (self._stop_at_first and progress.findings):
                return progress
        progress.is_complete = True
        return progress

    def _enter(self, state: State, move: Move | None, step: NodeStep | None) -> None:
        key = digest_of(self._system.key(state))
        if key in self._seen:
            if key in self._on_path:
                self._check_circle(key, move, state)
            return
        self._seen.add(key)
        progress = self.progress
        progress.states += 1
        if not progress.states % 10_000:
            self._report(progress)
        before = self._path[-1] if self._path else None
        at_once = 0
        if before is not None and before.state.elapsed == state.elapsed:
            at_once = before.at_once + 1
        moves = self._system.moves(state)
        if self._random is not None:
            self._random.shuffle(moves)
        level = _Level(state, key, move, step, iter(moves), at_once)
        self._path.append(level)
        self._on_path.add(key)
        if not state.cut and self._system.is_at_end(state):
            progress.ends += 1
            progress.depth = max(progress.depth, len(self._path) - 1)
            steps = ((each.state.elapsed, each.step) for each in self._path)
            for found in self._ends.check(state, steps):
                self._find(*found, self._moves(), state)
        elif at_once > MOST_AT_ONCE or state.elapsed > self._limit:
            what = "at one instant" if at_once > MOST_AT_ONCE else f"within {SETTLE_S:g} s"
            self._find(LIVENESS, f"the daemons do not come to rest {what}", self._moves(), state)
            self._path[-1] = attrs.evolve(level, moves=iter(()))

    def _check_circle(self, key: bytes, move: Move | None, state: State) -> None:
        """Check a path that has met itself: only that all wait for one daemon is no circle.

        An act or a write may wait a round longer, and so for ever: somebody does it later, or has
        to, by another path.
        """
        levels = self._path[next(n for n, each in enumerate(self._path) if each.key == key) + 1 :]
        circle = [level.move for level in levels] + [move]
        if any(each is not None and each.what != "pass" for each in circle):
            text = f"the daemons go round in a circle of {len(circle)} moves"
            moves = self._moves() if move is None else (*self._moves(), move)
            self._find(LIVENESS, text, moves, state)

    def _moves(self) -> tuple[Move, ...]:
        return tuple(level.move for level in self._path if level.move is not None)

    def _find(self, property_id: str, text: str, moves: tuple[Move, ...], state: State) -> None:
        if property_id not in (found.property for found in self.progress.findings):
            finding = Finding(
                property=property_id, text=text, moves=moves, deviations=sum(state.spent)
            )
            self.progress.findings.append(finding)


def digest_of(key: Any) -> bytes:
    """Return the digest of a state, by its key."""
    return hashlib.blake2b(marshal.dumps(key, 2), digest_size=12).digest()
