"""Order for unicast, and why it is not enough for a group."""

from examples.ordering.stage import Stage
from examples.ordering.story import Run, story
from groupcomm.algorithms.pair_numbers import PairNumbers


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


@story("three-diverge", "Three processes: numbers of each pair do not agree")
def three_diverge() -> Run:
    """p and q each tell the others to set a value. Every pair keeps its order; r ends with p's
    value and s with q's, and r has an answer to what it has not heard."""
    stage = Stage(PairNumbers, "pqrs")
    one, other = stage.send("p"), stage.send("q")
    stage.bring(one, "s")
    stage.bring(other, "r", "s", "p")
    stage.bring(one, "r", "q")
    return stage.end()
