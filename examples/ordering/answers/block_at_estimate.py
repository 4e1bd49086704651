"""4.1 A block at the best estimate of the stamp holds less back."""

from collections.abc import Iterable
from random import Random

from examples.ordering.answers.answer import answer
from examples.ordering.bus_stage import BusStage
from groupcomm_lessons.algorithms.bus1.multicast import Blocking, What
from groupcomm_lessons.algorithms.bus1.queue import Queue
from groupcomm_lessons.algorithms.process import Message, Name


def sender_ahead(blocking: Blocking) -> BusStage:
    """Play p with a clock ahead at the start; q sends to r completely while p stands still."""
    stage = BusStage({"p": Queue(0, 5), "q": Queue(1), "r": Queue(2)}, blocking=blocking)
    slow = stage.start("p", "qr")
    stage.until(slow, What.TICK)
    stage.send("q", "r")
    stage.end()
    return stage


def held_back_at_random(blocking: Blocking, seed: int) -> int:
    """Return the number of copies, of 24, that wait while four peers multicast at random."""
    rng, names = Random(seed), "pqrs"
    queues: dict[Name, Queue[Message]] = {
        name: Queue(at, rng.randrange(20)) for at, name in enumerate(names)
    }
    stage = BusStage(queues, blocking=blocking)
    under_way: list[Message] = []
    for _ in range(12):
        under_way.append(stage.start(rng.choice(names), "".join(rng.sample(names, 2))))
        for _ in range(10):
            stage.step(rng.choice(under_way))
    stage.end()
    return sum(map(len, stage.held_back.values()))


@answer("4.1", "A block at the best estimate of the stamp holds less back")
def tell() -> Iterable[str]:
    for blocking in (Blocking.AT_CLOCK, Blocking.AT_ESTIMATE):
        stage = sender_ahead(blocking)
        delivered = " ".join(map(str, stage.history.delivered["r"]))
        held = ", ".join(stage.held_back.get("r", [])) or "nothing"
        total = sum(held_back_at_random(blocking, seed) for seed in range(20))
        yield f"{blocking.name}: r delivers {delivered}, held back {held}; at random {total} of 480"
