"""Total order: how it is made, and what it does not imply."""

from examples.ordering.stage import Stage, crossed
from examples.ordering.story import Run, story
from groupcomm_lessons.algorithms.acknowledged import AcknowledgedStamps
from groupcomm_lessons.algorithms.process import Order
from groupcomm_lessons.algorithms.sequencer import SenderSequencer, Sequencer
from groupcomm_lessons.algorithms.site_horizons import SiteHorizons
from groupcomm_lessons.algorithms.token_ring import TokenRing
from groupcomm_lessons.algorithms.vector import Vector


@story("causal-not-total", "Causal order is not total", Order.TOTAL)
def causal_not_total() -> Run:
    """Vectors hold no message back here: p1 and q1 are concurrent, so r and s may deliver them in
    different orders."""
    return crossed(Vector)


@story("total-not-causal", "Total order is not causal", Order.CAUSAL)
def total_not_causal() -> Run:
    """q sends twice. Its second message overtakes the first one on the way to the sequencer p, and
    gets the lower number. All processes agree on one order, which reverses the two messages of
    q."""
    stage = Stage(Sequencer, "pqr")
    first, second = stage.send("q"), stage.send("q")
    stage.bring(second, "p")
    stage.bring(first, "p")
    return stage.end()


@story("sender-sequencer", "A sequencer that numbers in the order of each sender")
def sender_sequencer() -> Run:
    """The network is the same. q counts its messages, and the second one waits at the sequencer for
    the first."""
    stage = Stage(SenderSequencer, "pqr")
    first, second = stage.send("q"), stage.send("q")
    stage.bring(second, "p")
    waited = stage.waiting("p")
    stage.bring(first, "p")
    return stage.end(waited=waited)


@story("acknowledged", "Acknowledged stamps: wait for something later from every process")
def acknowledged() -> Run:
    """p and q both send with the clock 1; p is the lower name. A process delivers a message once
    something later has arrived from every other process. As the channels keep their order, nothing
    lower can follow."""
    stage = Stage(AcknowledgedStamps, "pqr")
    one, other = stage.send("p"), stage.send("q")
    stage.bring(other, "r")
    stage.bring(one, "r")
    waited = stage.waiting("r")
    return stage.end(waited=waited, packets=_packets(stage))


@story("overlapping-groups", "Two groups that overlap, and one order")
def overlapping_groups() -> Run:
    """p sends to p, q and r; s sends to q, r and s. q and r are in both groups, and deliver the two
    messages in one order, although each group alone knows nothing of the other."""
    stage = Stage(AcknowledgedStamps, "pqrs")
    one, other = stage.send("p", "pqr"), stage.send("s", "qrs")
    stage.bring(other, "q")
    stage.bring(one, "r", "q")
    stage.bring(other, "r")
    return stage.end()


@story("token", "A ring: the holder of the token numbers messages")
def token() -> Run:
    """The daemons of a site work like this. q asks for the token, and its message waits until the
    token arrives. Then the token rests with q."""
    stage = Stage(TokenRing, "pqr")
    stage.send("p")
    waiting = stage.send("q")
    waited = stage.waiting("q")
    stage.rest()
    assert str(waiting) in waited
    return stage.end(waited=waited)


@story("horizons", "Horizons: one promise for a site instead of an answer from everybody")
def horizons() -> Run:
    """Sites work like this. q's message waits only for sites that might still send something lower.
    A site's promise that nothing lower will come releases the message."""
    stage = Stage(SiteHorizons, "pqr")
    one, other = stage.send("p"), stage.send("q")
    stage.bring(other, "r")
    waited = stage.waiting("r")
    stage.bring(one, "r", "q")
    return stage.end(waited=waited)


def _packets(stage: Stage) -> int:
    stage.rest()
    return stage.network.packets
