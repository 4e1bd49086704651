"""3.4 A scheduler whose requests come in causal order."""

from collections.abc import Callable, Iterable, Sequence

from examples.ordering.answers.answer import answer
from examples.ordering.stage import Stage
from groupcomm_lessons.algorithms.fan_out import FanOut
from groupcomm_lessons.algorithms.process import Name, Process
from groupcomm_lessons.algorithms.schiper_eggli_sandoz import SchiperEggliSandoz


def requests_at_the_scheduler(make: Callable[[Name, Sequence[Name]], Process]) -> list[str]:
    """Play: q asks p and tells r, which asks p, too; q's request is slow. Requests go to p."""
    stage = Stage(make, "pqr")
    earlier = stage.send("q", "p")
    stage.bring(stage.send("q", "r"), "r")
    later = stage.send("r", "p")
    stage.bring(later, "p")
    stage.bring(earlier, "p")
    return list(stage.end().delivered["p"])


@answer("3.4", "A scheduler whose requests come in causal order")
def tell() -> Iterable[str]:
    for make in (FanOut, SchiperEggliSandoz):
        yield f"{make.__name__}: p grants {' '.join(requests_at_the_scheduler(make))}"
