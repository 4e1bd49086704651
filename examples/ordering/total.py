"""Total order: how it is made, and what it does not imply."""

from examples.ordering.stage import Stage, crossed
from examples.ordering.story import Run, story
from groupcomm.algorithms.acknowledged import AcknowledgedStamps
from groupcomm.algorithms.process import Order
from groupcomm.algorithms.sequencer import SenderSequencer, Sequencer
from groupcomm.algorithms.site_horizons import SiteHorizons
from groupcomm.algorithms.token_ring import TokenRing
from groupcomm.algorithms.vector import Vector


@story("causal-not-total", "Causal order is not total", Order.TOTAL)
def causal_not_total() -> Run:
    """Vectors hold nothing back here: p1 and q1 are concurrent, and r and s may take them in
    different orders."""
    return crossed(Vector)


@story("total-not-causal", "Total order is not causal", Order.CAUSAL)
def total_not_causal() -> Run:
    """q sends twice; its second message overtakes the first one on the way to the sequencer p and
    gets the lower number. All agree, on an order that turns a sender's messages round."""
    stage = Stage(Sequencer, "pqr")
    first, second = stage.send("q"), stage.send("q")
    stage.bring(second, "p")
    stage.bring(first, "p")
    return stage.end()


@story("sender-sequencer", "A sequencer that numbers in the order of each sender")
def sender_sequencer() -> Run:
    """The same network; q counts its messages, and the second one waits at the sequencer."""
    stage = Stage(SenderSequencer, "pqr")
    first, second = stage.send("q"), stage.send("q")
    stage.bring(second, "p")
    waited = stage.waiting("p")
    stage.bring(first, "p")
    return stage.end(waited=waited)


@story("acknowledged", "Acknowledged stamps: wait until everybody is beyond it")
def acknowledged() -> Run:
    """p and q send with the clock 1; p is the lower name. A message is delivered once something
    later has come from everybody: over channels that keep their order nothing below can follow."""
    stage = Stage(AcknowledgedStamps, "pqr")
    one, other = stage.send("p"), stage.send("q")
    stage.bring(other, "r")
    stage.bring(one, "r")
    waited = stage.waiting("r")
    return stage.end(waited=waited, packets=_packets(stage))


@story("overlapping-groups", "Two groups that overlap, and one order")
def overlapping_groups() -> Run:
    """p sends to p, q, r and s to q, r, s. q and r are in both, and get the two messages in one
    order, though each group alone would know nothing of the other."""
    stage = Stage(AcknowledgedStamps, "pqrs")
    one, other = stage.send("p", "pqr"), stage.send("s", "qrs")
    stage.bring(other, "q")
    stage.bring(one, "r", "q")
    stage.bring(other, "r")
    return stage.end()


@story("token", "A ring: who holds the token numbers")
def token() -> Run:
    """Daemons of a site do so. q wishes for the token; what it had sent before waits until then,
    and the token rests with it."""
    stage = Stage(TokenRing, "pqr")
    stage.send("p")
    waiting = stage.send("q")
    waited = stage.waiting("q")
    stage.rest()
    assert str(waiting) in waited
    return stage.end(waited=waited)


@story("horizons", "Horizons: one promise for a site instead of an answer from everybody")
def horizons() -> Run:
    """Sites do so. q's message waits for nobody but those sites that might still send something
    lower; a promise that none of it will come lets it go."""
    stage = Stage(SiteHorizons, "pqr")
    one, other = stage.send("p"), stage.send("q")
    stage.bring(other, "r")
    waited = stage.waiting("r")
    stage.bring(one, "r", "q")
    return stage.end(waited=waited)


def _packets(stage: Stage) -> int:
    stage.rest()
    return stage.network.packets
