"""The text of a path through an exploration, and its replay.

::

    # comment
    explore agreed-2
    a acts
    a has done its part of the round
    b receives data of a

Each line is one move in the words of `TransitionSystem.describe`. Where several moves have the same
words a number follows, as in ``b receives data of a, 2``: their order is the one in which they were
sent.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from groupcomm.errors import ConfigError
from tests.verification.explore.node_states import NodeStep
from tests.verification.explore.scenarios import SCENARIOS, Beginning, begin
from tests.verification.explore.transitions import KINDS, Bounds, Move, State, TransitionSystem

_HEAD: Final = "explore "
_ANY: Final = Bounds(most=dict.fromkeys(KINDS, 10**6), in_all=10**6, within_s=10**6)


def words_of(system: TransitionSystem, state: State) -> dict[str, Move]:
    """Return all that can happen in a state, by its words."""
    found: dict[str, Move] = {}
    for move in dict.fromkeys([*system.moves(state), *system.recoveries_at_rest(state)]):
        text = words = system.describe(move)
        number = 1
        while words in found:
            number += 1
            words = f"{text}, {number}"
        found[words] = move
    return found


def write_path(beginning: Beginning, name: str, moves: Iterable[Move], comment: str) -> str:
    """Return the text of a path.

    Args:
        beginning: where the search began that has found it: packets have their numbers from there.
        name: the name of the scenario.
        moves: what happens.
        comment: what the text says first.
    """
    system, state = TransitionSystem(beginning.nodes, _ANY), beginning.state
    lines = [*(f"# {line}" for line in comment.splitlines()), f"{_HEAD}{name}"]
    for move in moves:
        found = words_of(system, state)
        lines.append(next(words for words, each in found.items() if each == move))
        state, _ = system.apply(state, move)
    return "\n".join(lines) + "\n"


@attrs.frozen
class Happened:
    """One move of a path.

    Attributes:
        words: what has happened.
        state: the state after it.
        step: the step of the daemon that has taken one.
    """

    words: str
    state: State
    step: NodeStep | None


@attrs.frozen
class Path:
    """A path through an exploration.

    Attributes:
        beginning: where it begins.
        lines: the words of its moves.
    """

    beginning: Beginning
    lines: tuple[str, ...]

    def replay(self) -> Iterator[Happened]:
        """Yield what happens.

        Raises:
            ConfigError: a line names nothing that can happen there.
        """
        system, state = self.beginning.system, self.beginning.state
        for words in self.lines:
            found = words_of(system, state)
            move = found.get(words)
            if move is None:
                raise ConfigError(f"{words!r} cannot happen here; what can: {'; '.join(found)}")
            state, step = system.apply(state, move)
            yield Happened(words, state, step)


def read_path(text: str) -> Path:
    """Return the path of a text.

    Raises:
        ConfigError: it does not name a scenario.
    """
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    name = lines[0].removeprefix(_HEAD) if lines else ""
    if not lines or not lines[0].startswith(_HEAD) or name not in SCENARIOS:
        known = ", ".join(SCENARIOS)
        raise ConfigError(f"the first line must be {_HEAD}NAME, with one of {known}")
    return Path(begin(SCENARIOS[name], _ANY), tuple(lines[1:]))
