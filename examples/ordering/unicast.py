"""Orders for unicast, and why they are not enough for a group."""

from examples.ordering.stage import Stage, crossed
from examples.ordering.story import Run, story
from groupcomm.algorithms.pair_numbers import PairNumbers
from groupcomm.algorithms.process import Order


@story("pair", "Two processes: a number for each message")
def pair() -> Run:
    """The second message comes first; q puts it into its buffer until the first has come. For two
    processes a consistent state needs no more."""
    stage = Stage(PairNumbers, "pq")
    first, second = stage.send("p", "q"), stage.send("p", "q")
    stage.bring(second, "q")
    waited = stage.waiting("q")
    stage.bring(first, "q")
    return stage.end(waited=waited)


@story("three-diverge", "Three processes: numbers of each pair do not agree", Order.TOTAL)
def three_diverge() -> Run:
    """p and q each tell the others to set a value. Every pair keeps its order, and yet r ends with
    q's value and s with p's."""
    return crossed(PairNumbers)
