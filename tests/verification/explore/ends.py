"""The end of a path: the history of the whole path is checked.

First the cluster goes on for a while with nothing going wrong, so that beacons, notices and timers
of an idle cluster belong to the history, too.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

from msgspec.structs import replace

from groupcomm.sim.checkers import Checkers
from groupcomm.trace.events import Heal, Quiet, TraceEvent
from tests.verification.explore.canonical import TICK
from tests.verification.explore.node_states import NodeStep, PassingNodes
from tests.verification.explore.scenarios import Beginning
from tests.verification.explore.transitions import State, TransitionSystem

AFTER_S: Final = 0.8
"""The simulated time after the end, in which all that is deliverable is delivered."""

MOST_MOVES: Final = 20_000

LIVENESS: Final = "L"
INVARIANT: Final = "assert"

Wrong: TypeAlias = tuple[str, str]
"""The id of a property that does not hold, and what is wrong."""


class EndCheck:
    """The check of histories, from where exploration began to an end."""

    def __init__(self, beginning: Beginning) -> None:
        self._beginning = beginning
        self._is_thorough = True

    def check(self, state: State, steps: Iterable[tuple[int, NodeStep | None]]) -> list[Wrong]:
        """Return what is wrong.

        Args:
            state: the end.
            steps: the steps of the path, each with the ticks that had passed.
        """
        beginning = self._beginning
        checkers = Checkers()
        for ticks, step in beginning.steps:
            _feed(checkers, step, ticks)
        for elapsed, taken in steps:
            if taken is not None:
                _feed(checkers, taken, beginning.at + elapsed)
        wrong = self._go_on(checkers, state)
        if self._is_thorough or not checkers.violations:
            checkers.finish()
        wrong += [(found.property, found.text) for found in checkers.violations]
        self._is_thorough = self._is_thorough and not wrong
        return wrong

    def _go_on(self, checkers: Checkers, state: State) -> list[Wrong]:
        """Go on with nothing going wrong: what can be delivered is, and it stays so."""
        beginning, at = self._beginning, self._beginning.at
        nodes = beginning.nodes
        states = [nodes.states[number] for number in state.nodes]
        names = nodes.constants.names
        core = [
            f"{name}/{node.starts}" for name, node in zip(names, states, strict=True) if node.is_up
        ]
        if not core:
            return []  # all are down for good
        checkers.feed(Heal(at + state.elapsed, tuple(core)))
        until = state.elapsed + round(AFTER_S / TICK)
        system = TransitionSystem(PassingNodes(nodes, state.nodes), beginning.system.bounds)
        for _ in range(MOST_MOVES):
            if state.elapsed > until:
                checkers.feed(Quiet(at + state.elapsed))
                return []
            state, step = system.apply(state, system.usual(state))
            if step is not None:
                if step.error:
                    return [(INVARIANT, step.error)]
                _feed(checkers, step, at + state.elapsed)
        return [(LIVENESS, "the daemons do not stay at rest")]


def _feed(checkers: Checkers, step: NodeStep, ticks: int) -> None:
    event: TraceEvent
    for event in step.events:
        checkers.feed(replace(event, t=ticks))
