"""Runs a scenario: what it says must happen, what did, and what the checkers say of it."""

from collections.abc import Callable
from functools import partial

import attrs

from groupcomm.sim.cluster.process import CoreFailure
from groupcomm.sim.scenario.commands import SHOWS, parse
from groupcomm.sim.scenario.script import Script, Words, read_script
from groupcomm.sim.scenario.state import Cast, Scene, SceneFailed, read_cast


@attrs.frozen
class Outcome:
    """What came of a scenario.

    Attributes:
        text: the scenario as it would be if all that happened was as it should be.
        problems: what is wrong whatever its text says.
    """

    text: str
    problems: tuple[str, ...]


class _Stage:
    """What stays while scenes come and go."""

    def __init__(self) -> None:
        self.scene: Scene | None = None
        self.lines: list[str] = []
        self.problems: list[str] = []

    def begin(self, cast: Cast) -> None:
        self.end()
        self.scene = Scene(cast)

    def end(self) -> None:
        if self.scene is not None:
            scene, self.scene = self.scene, None
            self.problems += scene.close()

    def act(self, act: Callable[[Scene], object]) -> None:
        assert self.scene is not None
        act(self.scene)

    def show(self, what: str) -> None:
        self.tell()
        assert self.scene is not None
        self.lines += SHOWS[what](self.scene)

    def tell(self) -> None:
        if self.scene is not None:
            self.lines += self.scene.story.take()

    def take(self) -> list[str]:
        self.tell()
        lines, self.lines = self.lines, []
        return lines


_Step = Callable[[_Stage], None]


def run_scenario(text: str, name: str) -> Outcome:
    """Run a scenario.

    Args:
        text: the whole file.
        name: of the file, for complaints.

    Raises:
        ScenarioError: the text is not a scenario; says where and what was expected.
    """
    script = read_script(text, name)
    plan = _plan(script)
    stage = _Stage()
    outputs: list[list[str]] = []
    place = f"{name}, at its start"
    try:
        for steps in plan:
            for at, step in steps:
                place = at
                step(stage)
            outputs.append(stage.take())
        place = f"{name}, at the end"
        stage.end()
    except (SceneFailed, CoreFailure, AssertionError) as error:
        outputs.append(stage.take())
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
                cast = read_cast(words)
                daemons = sum(map(len, cast.sites))
                steps.append((place, partial(_begin, cast)))
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


def _begin(cast: Cast, stage: _Stage) -> None:
    stage.begin(cast)


def _show(what: str, stage: _Stage) -> None:
    stage.show(what)


def _act(act: Callable[[Scene], object], stage: _Stage) -> None:
    stage.act(act)
