"""The run of a scenario: its expected transcript, the real one, and the checkers' findings."""

from collections.abc import Callable
from functools import partial

import attrs

from groupcomm.sim.cluster.process import CoreFailure
from tests.verification.scenarios.commands import SHOWS, parse
from tests.verification.scenarios.script import Script, Words, read_script
from tests.verification.scenarios.state import (
    Participants,
    ScenarioFailed,
    ScenarioState,
    read_participants,
)


@attrs.frozen
class Outcome:
    """The result of a scenario.

    Attributes:
        text: the scenario with what really happened as its expectations.
        problems: faults that its text cannot allow.
    """

    text: str
    problems: tuple[str, ...]


class _ScenarioRun:
    """The parts of a run that outlast one block."""

    def __init__(self) -> None:
        self.state: ScenarioState | None = None
        self.lines: list[str] = []
        self.problems: list[str] = []

    def begin(self, participants: Participants) -> None:
        self.end()
        self.state = ScenarioState(participants)

    def end(self) -> None:
        if self.state is not None:
            state, self.state = self.state, None
            self.problems += state.close()

    def act(self, act: Callable[[ScenarioState], object]) -> None:
        assert self.state is not None
        act(self.state)

    def show(self, what: str) -> None:
        self.transcribe()
        assert self.state is not None
        self.lines += SHOWS[what](self.state)

    def transcribe(self) -> None:
        if self.state is not None:
            self.lines += self.state.transcript.pop_lines()

    def pop_lines(self) -> list[str]:
        self.transcribe()
        lines, self.lines = self.lines, []
        return lines


_Step = Callable[[_ScenarioRun], None]


def run_scenario(text: str, name: str) -> Outcome:
    """Run a scenario.

    Args:
        text: the whole file.
        name: the name of the file, for errors.

    Raises:
        ScenarioError: the text is not a scenario; the error names the place and what was expected.
    """
    script = read_script(text, name)
    plan = _plan(script)
    stage = _ScenarioRun()
    outputs: list[list[str]] = []
    place = f"{name}, at its start"
    try:
        for steps in plan:
            for at, step in steps:
                place = at
                step(stage)
            outputs.append(stage.pop_lines())
        place = f"{name}, at the end"
        stage.end()
    except (ScenarioFailed, CoreFailure, AssertionError) as error:
        outputs.append(stage.pop_lines())
        stage.problems.append(f"{place}: {error}")
    return Outcome(script.rewritten(outputs), tuple(stage.problems))


def _plan(script: Script) -> list[list[tuple[str, _Step]]]:
    """Read all commands, with their places, before any is carried out."""
    plan: list[list[tuple[str, _Step]]] = []
    daemons = 0
    for block in script.blocks:
        steps: list[tuple[str, _Step]] = []
        for number, line in block.commands:
            place = f"{script.name}:{number}"
            words = Words(line, place, daemons)
            if words.got("daemons"):
                participants = read_participants(words)
                daemons = sum(map(len, participants.sites))
                steps.append((place, partial(_begin, participants)))
            elif not daemons:
                words.fail("daemons first, as in 'daemons a b c'")
            elif words.got("show"):
                what = words.one_of(tuple(SHOWS))
                words.end()
                steps.append((place, partial(_show, what)))
            else:
                steps.append((place, partial(_act, parse(words))))
        plan.append(steps)
    return plan


def _begin(participants: Participants, stage: _ScenarioRun) -> None:
    stage.begin(participants)


def _show(what: str, stage: _ScenarioRun) -> None:
    stage.show(what)


def _act(act: Callable[[ScenarioState], object], stage: _ScenarioRun) -> None:
    stage.act(act)
