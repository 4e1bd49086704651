"""The search by departures: paths that depart least from the usual order come first.

Exhaustive search has its states near one path long before it comes to another one. Most bugs need
one or two faults at the right place, and whatever order besides. So this search bounds how often a
path departs from the *usual* order, in which datagrams arrive as they were sent, all is done as
soon as it can be, daemons stay down and cuts last until all is at rest. Deviations (see
transitions.py) count apart. What has the least of both is explored first, and in a random order
what has as much. Within its bounds the search is exhaustive, too.

Sources: Harvey and Ginsberg, "Limited Discrepancy Search", IJCAI 1995; Emmi, Qadeer and Rakamaric,
"Delay-Bounded Scheduling", POPL 2011.
"""

from collections import defaultdict
from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple, Optional

from tests.verification.explore.canonical import TICK
from tests.verification.explore.ends import INVARIANT, LIVENESS, EndCheck
from tests.verification.explore.node_states import NodeStep
from tests.verification.explore.scenarios import Beginning
from tests.verification.explore.search import (
    MOST_AT_ONCE,
    SETTLE_S,
    Finding,
    Progress,
    Report,
    digest_of,
)
from tests.verification.explore.transitions import Move, State

_EVERY: Final = 10_000


class _Point(NamedTuple):
    """One point of a path.

    Attributes:
        state: the state.
        key: its digest.
        before: the point before it; None for the first one.
        move: the move that leads to it from there.
        step: the step of the daemon that has taken one in this move.
        departures: the number of departures from the usual order up to here.
        at_once: the number of moves before it at the same instant.
    """

    state: State
    key: bytes
    before: Optional["_Point"]
    move: Move | None
    step: NodeStep | None
    departures: int
    at_once: int


class SearchByDepartures:
    """A search from one beginning.

    Args:
        beginning: where it begins.
        most_departures: the most departures from the usual order.
        most_states: the most states.
        stop_at_first: whether it ends with the first finding.
        seed: the seed of the order of what departs as much.
        report: is called each 10,000 states.
    """

    def __init__(
        self,
        beginning: Beginning,
        *,
        most_departures: int,
        most_states: int = 10**9,
        stop_at_first: bool = False,
        seed: int = 0,
        report: Report = lambda progress: None,
    ) -> None:
        self._system = beginning.system
        self._beginning = beginning
        self._most_departures = most_departures
        self._most_states = most_states
        self._stop_at_first = stop_at_first
        self._report = report
        self._random = Random(seed)
        self._ends = EndCheck(beginning)
        self._least: dict[bytes, int] = {}  # the least departures with which a state was reached
        self._open: dict[int, list[tuple[_Point, Move, int]]] = defaultdict(list)
        bounds = beginning.system.bounds
        until_s = max((bounds.within_s, *bounds.in_view_changes.values()))
        self._limit = round((until_s + SETTLE_S) / TICK)
        self.progress = Progress()

    def run(self) -> Progress:
        """Explore; return how far it has come."""
        progress = self.progress
        first = self._beginning.state
        key = digest_of(self._system.key(first))
        self._go_on(_Point(first, key, None, None, None, 0, 0))
        while any(self._open.values()):
            if self._is_enough():
                return progress
            point, move, departures = self._pop_open()
            after = self._after(point, move, departures)
            if after is not None:
                self._go_on(after)
        progress.is_complete = not self._is_enough() or not self._open
        return progress

    def _is_enough(self) -> bool:
        progress = self.progress
        return progress.states >= self._most_states or (
            self._stop_at_first and bool(progress.findings)
        )

    def _pop_open(self) -> tuple[_Point, Move, int]:
        """Remove and return one of the moves with the least deviations and departures."""
        moves = self._open[min(cost for cost, each in self._open.items() if each)]
        place = self._random.randrange(len(moves))
        moves[place], moves[-1] = moves[-1], moves[place]
        return moves.pop()

    def _go_on(self, point: _Point) -> None:
        """Go on from a point in the usual order, to an end or a state that was reached before."""
        after: _Point | None = point
        while after is not None:
            point = after
            if not self._is_new(point) or self._is_enough():
                return
            after = self._enter(point)

    def _is_new(self, point: _Point) -> bool:
        least = self._least.get(point.key)
        if least is None:
            progress = self.progress
            progress.states += 1
            if not progress.states % _EVERY:
                self._report(progress)
        elif least <= point.departures:
            self._check_circle(point)
            return False
        self._least[point.key] = point.departures
        return True

    def _enter(self, point: _Point) -> _Point | None:
        """Note the other moves of a point; return the next point of the usual order."""
        system, state = self._system, point.state
        if not state.cut and system.is_at_end(state):
            self._check_end(point)
        elif point.at_once > MOST_AT_ONCE or state.elapsed > self._limit:
            what = "at one instant" if point.at_once > MOST_AT_ONCE else f"within {SETTLE_S:g} s"
            self._find(LIVENESS, f"the daemons do not come to rest {what}", point)
            return None
        moves = system.moves(state)
        if system.is_at_end(state):  # whatever ends now has not ended sooner
            for move in moves:
                self._note(point, move, point.departures)
            return None
        for move in moves[1:]:
            if system.deviates(state, move):
                self._note(point, move, point.departures)
            elif point.departures < self._most_departures:
                self._note(point, move, point.departures + 1)
        return self._after(point, moves[0], point.departures)

    def _note(self, point: _Point, move: Move, departures: int) -> None:
        is_deviation = self._system.deviates(point.state, move)
        cost = sum(point.state.spent) + is_deviation + departures
        self._open[cost].append((point, move, departures))

    def _after(self, point: _Point, move: Move, departures: int) -> _Point | None:
        """Return the point after a move; None if a daemon breaks an invariant."""
        state, step = self._system.apply(point.state, move)
        self.progress.transitions += 1
        at_once = point.at_once + 1 if state.elapsed == point.state.elapsed else 0
        key = digest_of(self._system.key(state))
        after = _Point(state, key, point, move, step, departures, at_once)
        if step is not None and step.error:
            self._find(INVARIANT, step.error, after)
            return None
        return after

    # ---- findings ----

    def _check_circle(self, point: _Point) -> None:
        """Check whether a path has met itself, otherwise than by waiting for one daemon."""
        moves = [point.move]
        for each in _back_from(point.before):
            if each.key == point.key:
                if any(move is not None and move.what != "pass" for move in moves):
                    text = f"the daemons go round in a circle of {len(moves)} moves"
                    self._find(LIVENESS, text, point)
                return
            moves.append(each.move)

    def _check_end(self, point: _Point) -> None:
        path = list(_back_from(point))[::-1]
        self.progress.ends += 1
        self.progress.depth = max(self.progress.depth, len(path) - 1)
        steps = ((each.state.elapsed, each.step) for each in path)
        for property_id, text in self._ends.check(point.state, steps):
            self._find(property_id, text, point)

    def _find(self, property_id: str, text: str, point: _Point) -> None:
        if property_id not in (found.property for found in self.progress.findings):
            path = list(_back_from(point))[::-1]
            finding = Finding(
                property=property_id,
                text=text,
                moves=tuple(each.move for each in path if each.move is not None),
                deviations=sum(point.state.spent),
            )
            self.progress.findings.append(finding)


def _back_from(point: _Point | None) -> Iterator[_Point]:
    while point is not None:
        yield point
        point = point.before
