"""Two members give a key in the same view: the last that begins is in use, and all read with it."""

from collections.abc import Callable, Iterable

import pytest

from groupcomm.level import ServiceLevel
from groupcomm_client.end_to_end import GroupSecret, SharedSecret
from groupcomm_client.end_to_end.agreement import AWAIT_S, GATHER_S, PATIENCE_S
from tests.clients.end_to_end.test_schedules import run, shared, trusted
from tests.clients.end_to_end.world import GROUP, Program, World

SECRET = SharedSecret(b"s" * 32)
FORMS = [shared, trusted]


class Scene:
    """Ann, Bob and Cem, who have a key, and Dan, who has joined since."""

    def __init__(self) -> None:
        self.world = World(1, lambda number: SECRET)
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
    """What a member has shown the one giver is not erased by what it has shown the other."""
    scene = Scene()
    scene.number(scene.dan)  # Ann gives a key, which waits at her daemon
    scene.wait(PATIENCE_S)
    scene.number(scene.cem, scene.dan)  # they turn to Bob
    scene.wait(AWAIT_S)
    scene.number(scene.bob, scene.ann)
    assert scene.givers(scene.world.everybody) == {scene.ann}
    assert all(program.may_send for program in scene.world.everybody)


def test_who_gives_a_key_that_is_in_use_no_more_goes_on_with_it_in_vain() -> None:
    """Who has got neither key asks for the one in use, and is not refused."""
    scene = Scene()
    scene.wait(AWAIT_S)  # Ann gives a key without Dan, which waits at her daemon
    scene.wait(PATIENCE_S - AWAIT_S)
    scene.number(scene.cem)
    scene.wait(AWAIT_S)  # so does Bob
    scene.number(scene.bob)
    assert scene.givers([scene.cem]) == {scene.bob}
    scene.number(scene.dan)
    scene.wait(GATHER_S)  # Bob gives it to Dan, too, and has not heard of Ann's
    scene.number(scene.ann, scene.bob)
    scene.world.settle()
    assert scene.givers(scene.world.everybody) == {scene.ann}
    assert all(program.may_send for program in scene.world.everybody)
    text = scene.ann.send(ServiceLevel.AGREED)
    scene.world.settle()
    assert all(text in program.texts() for program in scene.world.everybody)


SEED_551854 = (
    """
    merge 0 0, crash 0 0, deliver 0 0, join 0 0, join 0 0, join 0 0, crash 0 0, join 0 0,
    go on 0 2, join 0 0, part 0 51, leave 0 0, join 0 0, join 0 0, join 1 0, go on 0 3,
    go on 0 5, part 4 1, join 2 0, go on 0 47, join 0 0, time 0 2, merge 0 0, crash 1 0,
    go on 0 53, merge 0 0, go on 0 83, deliver 2 0, time 0 2, deliver 3 0, go on 0 24,
    number 2 0, time 0 2, go on 0 59, go on 0 4, deliver 2 0, deliver 2 0, go on 0 1,
    go on 0 1, send 2 3
    """,
    """
    number 0 0, join 0 0, join 0 0, join 0 0, crash 0 0, deliver 2 0, go on 0 4, join 0 0,
    go on 0 1, join 0 0, part 0 51, leave 0 0, join 0 0, join 0 0, join 1 0, go on 0 3,
    go on 0 1, part 4 72, join 0 0, merge 0 0, crash 51 0, number 4 0, join 1 0,
    go on 0 53, merge 0 0, deliver 4 0, go on 0 83, go on 0 5, time 0 2, number 1 0,
    deliver 0 0, time 0 2, go on 0 5, send 2 3
    """,
)
"""What is left of the long schedule of this seed, with the one cause and with the other.

A CAUSAL message was lost to a member that had been in its sender's view and never parted from it.
"""


def steps_of(text: str) -> list[tuple[str, int, int]]:
    """Return the steps that a text lists, each with its two numbers."""
    found = [step.strip().rsplit(" ", 2) for step in text.split(",")]
    return [(what, int(one), int(two)) for what, one, two in found]


@pytest.mark.parametrize("make", FORMS)
@pytest.mark.parametrize("text", SEED_551854, ids=["prekeys", "givers"])
def test_what_was_sent_between_two_keys_is_read(
    make: Callable[[int], GroupSecret], text: str
) -> None:
    run(make, steps_of(text))
