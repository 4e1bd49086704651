"""4.2 One order of all messages that contradicts the time of their sending."""

from collections.abc import Iterable

from examples.ordering.answers.answer import answer
from examples.ordering.bus_stage import BusStage
from groupcomm_lessons.algorithms.bus1.multicast import What
from groupcomm_lessons.algorithms.bus1.queue import Queue


@answer("4.2", "One order of all messages that contradicts the time of their sending")
def tell() -> Iterable[str]:
    stage = BusStage({"p": Queue(0), "q": Queue(1), "r": Queue(2, 9), "s": Queue(3, 5)})
    slow = stage.start("s", "pq")
    stage.until(slow, What.TICK)
    late = stage.send("r", "p")
    call = stage.call("r", "q")
    early = stage.send("q", "q")
    run = stage.end(stamps=stage.stamps(slow, late, early))
    yield f"r sends {late}, and then calls q: {call} is no message of the bus"
    for name in "pq":
        yield f"{name} delivers {' '.join(run.delivered[name])}"
    told = late in stage.history.causes(early)
    yield f"{early} was sent after {late} was: {told}"
    yield f"so {early} < {slow} < {late} is the one order of all; nobody receives both ends of it"
    yield f"held: {', '.join(sorted(order.value for order in run.held or ()))}"
