"""Orders for unicast, and why they are not enough for a group."""

from examples.ordering.stage import Stage, crossed
from examples.ordering.story import Run, story
from groupcomm_lessons.algorithms.pair_numbers import PairNumbers
from groupcomm_lessons.algorithms.process import Order


@story("pair", "Two processes: a number for each message")
def pair() -> Run:
    """The second message arrives first, and q buffers it until the first one has arrived. Two
    processes need no more than this for a consistent state."""
    stage = Stage(PairNumbers, "pq")
    first, second = stage.send("p", "q"), stage.send("p", "q")
    stage.bring(second, "q")
    waited = stage.waiting("q")
    stage.bring(first, "q")
    return stage.end(waited=waited)


@story("three-diverge", "Three processes: numbers of each pair give no common order", Order.TOTAL)
def three_diverge() -> Run:
    """p and q each send the others a value to set. Every pair of processes keeps its order, but r
    ends with q's value and s with p's."""
    return crossed(PairNumbers)
