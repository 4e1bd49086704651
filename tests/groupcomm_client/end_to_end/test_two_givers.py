"""Two members give a key in the same view: the last that begins is in use, and all read with it."""

from collections.abc import Callable, Iterable

import pytest

from groupcomm.level import ServiceLevel
from groupcomm_client.end_to_end import GroupSecret, SharedSecret
from groupcomm_client.end_to_end.agreement import AWAIT_S, GATHER_S, PATIENCE_S
from tests.groupcomm_client.end_to_end.group_model import GROUP, GroupModel, Program
from tests.groupcomm_client.end_to_end.test_schedules import run, shared, trusted

SECRET = SharedSecret(b"s" * 32)
FORMS = [shared, trusted]


class Scene:
    """Ann, Bob and Cem, who have a key, and Dan, who has joined since."""

    def __init__(self) -> None:
        self.world = GroupModel(1, lambda number: SECRET)
        self.ann, self.bob, self.cem = [self.world.join(0) for _ in range(3)]
        self.world.settle()
        self.dan = self.world.join(0)
        self.deliver()

    def number(self, *programs: Program) -> None:
        """Number all that these have sent, and deliver it to all."""
        for program in programs:
            while program.outbox:
                self.world.number(self.world.components[0], program)
        self.deliver()

    def deliver(self) -> None:
        """Deliver everything that has a number."""
        self.world.drain(self.world.components[0])

    def wait(self, seconds: float) -> None:
        """Let a little more time pass than these seconds."""
        self.world.pass_time(seconds + 0.001)

    def givers(self, programs: Iterable[Program]) -> set[Program]:
        """Return whose keys these programs have in use."""
        found = set[Program]()
        for program in programs:
            key = program.sealing._agreements[GROUP].keys.latest
            assert key is not None
            found.update(one for one in self.world.everybody if one.member == key.giver)
        return found


def test_a_key_that_another_one_has_overtaken_can_be_read_at_once() -> None:
    """Prekeys that a member has shown one giver are not erased by those shown to the other."""
    scene = Scene()
    scene.number(scene.dan)  # Ann gives a key, which waits at her daemon
    scene.wait(PATIENCE_S)
    scene.number(scene.cem, scene.dan)  # the other members ask Bob
    scene.wait(AWAIT_S)
    scene.number(scene.bob, scene.ann)
    assert scene.givers(scene.world.everybody) == {scene.ann}
    assert all(program.may_send for program in scene.world.everybody)


def test_who_gives_a_key_that_is_in_use_no_more_goes_on_with_it_in_vain() -> None:
    """A member with neither key asks for the one in use, and is not refused."""
    scene = Scene()
    scene.wait(AWAIT_S)  # Ann gives a key without Dan, which waits at her daemon
    scene.wait(PATIENCE_S - AWAIT_S)
    scene.number(scene.cem)
    scene.wait(AWAIT_S)  # Bob does so, too
    scene.number(scene.bob)
    assert scene.givers([scene.cem]) == {scene.bob}
    scene.number(scene.dan)
    scene.wait(GATHER_S)  # Bob gives the key to Dan, too, and has not received Ann's
    scene.number(scene.ann, scene.bob)
    scene.world.settle()
    assert scene.givers(scene.world.everybody) == {scene.ann}
    assert all(program.may_send for program in scene.world.everybody)
    text = scene.ann.send(ServiceLevel.AGREED)
    scene.world.settle()
    assert all(text in program.texts() for program in scene.world.everybody)


SCHEDULES = {
    "the prekeys of two givers": """
        merge 0 0, crash 0 0, deliver 0 0, join 0 0, join 0 0, join 0 0, crash 0 0, join 0 0,
        go on 0 2, join 0 0, part 0 51, leave 0 0, join 0 0, join 0 0, join 1 0, go on 0 3,
        go on 0 5, part 4 1, join 2 0, go on 0 47, join 0 0, time 0 2, merge 0 0, crash 1 0,
        go on 0 53, merge 0 0, go on 0 83, deliver 2 0, time 0 2, deliver 3 0, go on 0 24,
        number 2 0, time 0 2, go on 0 59, go on 0 4, deliver 2 0, deliver 2 0, go on 0 1,
        go on 0 1, send 2 3
    """,
    "a key that was overtaken": """
        number 0 0, join 0 0, join 0 0, join 0 0, crash 0 0, deliver 2 0, go on 0 4, join 0 0,
        go on 0 1, join 0 0, part 0 51, leave 0 0, join 0 0, join 0 0, join 1 0, go on 0 3,
        go on 0 1, part 4 72, join 0 0, merge 0 0, crash 51 0, number 4 0, join 1 0,
        go on 0 53, merge 0 0, deliver 4 0, go on 0 83, go on 0 5, time 0 2, number 1 0,
        deliver 0 0, time 0 2, go on 0 5, send 2 3
    """,
    "done before the key": """
        time 0 0, join 0 0, join 0 0, join 0 0, join 0 0, join 0 0, go on 0 1, part 0 3,
        crash 3 0, join 0 0, go on 0 1, part 0 2, join 2 0, deliver 0 0, part 0 1, go on 0 89,
        join 1 0, part 0 3, merge 0 0, join 2 0, crash 2 0, number 0 0, go on 0 2, crash 2 0,
        go on 0 2, go on 0 2, join 1 0, merge 0 0, deliver 46 0, go on 0 74, part 1 1,
        time 0 2, time 0 2, go on 0 5, time 0 2, rekey 0 0, go on 0 92, go on 0 1, go on 0 4,
        crash 1 0, crash 3 0, go on 0 1, go on 0 2, send 1 3
    """,
    "done before who has the key has moved": """
        deliver 0 0, join 0 0, go on 0 1, go on 0 3, time 0 2, time 0 2, go on 0 59, go on 0 1,
        join 0 0, go on 0 5, time 0 1, time 0 1, go on 0 1, time 0 2, send 0 3, go on 0 2,
        number 1 0, time 0 2
    """,
    "done before an older key is not used any more": """
        time 0 0, join 0 0, leave 1 0, join 0 0, join 0 0, go on 0 95, join 0 0, deliver 0 0,
        time 0 2, time 0 2, join 0 0, crash 1 0, go on 0 87, go on 0 2, go on 0 81, go on 0 5,
        deliver 0 0, time 0 2, go on 0 47, send 4 1, time 0 2
    """,
    "a key that has come for what waits behind another message": """
        deliver 0 0, join 0 0, go on 0 1, part 0 1, join 1 0, go on 0 1, join 0 0, go on 0 4,
        time 0 2, number 3 0, go on 0 5, time 0 2, go on 0 76, join 0 0, rekey 4 0, join 0 0,
        join 0 0, send 34 2, deliver 5 0, part 0 1, go on 0 3, go on 0 5, join 1 0, go on 0 2,
        go on 0 0, send 1 3, go on 0 2, go on 0 1, time 0 2, time 0 2, time 0 2, time 0 2
    """,
}
"""By the fault, schedules in which a member lost messages that it had a right to read.

The first two are the rest of the long schedule of seed 551854.
"""


def steps_of(text: str) -> list[tuple[str, int, int]]:
    """Return the steps that a text lists, each with its two numbers."""
    found = [step.strip().rsplit(" ", 2) for step in text.split(",")]
    return [(what, int(one), int(two)) for what, one, two in found]


@pytest.mark.parametrize("make", FORMS)
@pytest.mark.parametrize("cause", SCHEDULES)
def test_a_reader_loses_nothing(make: Callable[[int], GroupSecret], cause: str) -> None:
    run(make, steps_of(SCHEDULES[cause]))
