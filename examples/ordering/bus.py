"""bus1: queues without a lock over all of them, and what goes wrong with less."""

from examples.ordering.bus_stage import Bus, BusStage, NodeStage
from examples.ordering.story import Run, story
from groupcomm.algorithms.bus1.multicast import What
from groupcomm.algorithms.bus1.naive import FifoQueue, HastyMulticast, plain
from groupcomm.algorithms.bus1.queue import Queue
from groupcomm.algorithms.process import Name, Order


def _plain(names: str) -> BusStage:
    return BusStage({name: FifoQueue(at) for at, name in enumerate(names)}, plain)


def _bus1(names: str, ahead: Name = "") -> BusStage:
    return BusStage(_queues(names, ahead))


def _queues(names: str, ahead: Name) -> dict[Name, Bus]:
    """Return queues whose clocks begin at 0, but one at 5."""
    return {name: Queue(at, 5 if name == ahead else 0) for at, name in enumerate(names)}


def _overtaking(stage: BusStage) -> None:
    """Play: p's message is queued at r; then q's at s and r; then p's at s."""
    one, other = stage.start("p", "rs"), stage.start("q", "rs")
    stage.until(one, What.QUEUE)
    stage.do(one, What.QUEUE, "r")
    stage.until(other, What.QUEUE)
    stage.do(other, What.QUEUE, "s", "r")
    stage.do(one, What.QUEUE, "s")


@story("fifo-overtaking", "A plain queue each: one multicast overtakes another", Order.TOTAL)
def fifo_overtaking() -> Run:
    """p and q send to r and s, one queue after the other. q's is the second at r, and the first
    at s: the two receive two messages in two orders."""
    stage = _plain("pqrs")
    _overtaking(stage)
    return stage.end()


@story("bus1-overtaking", "bus1: blocks keep the place of what is under way")
def bus1_overtaking() -> Run:
    """The same schedule. q's message is at s first, but behind the block that p's has put there:
    its stamp is higher, and it comes out when p's has come."""
    stage = _bus1("pqrs")
    _overtaking(stage)
    return stage.end()


def _reaction(stage: BusStage) -> None:
    """Play: q has p's message, and sends to r before r has p's."""
    cause = stage.start("p", "qr")
    stage.until(cause, What.QUEUE)
    stage.do(cause, What.QUEUE, "q")
    stage.send("q", "r")
    stage.do(cause, What.QUEUE, "r")


@story("fifo-reaction", "A plain queue each: the reaction before its cause", Order.CAUSAL)
def fifo_reaction() -> Run:
    """p's message is queued at q, and not yet at r. q reacts at once, and r receives the reaction
    before its own copy of the cause."""
    stage = _plain("pqr")
    _reaction(stage)
    return stage.end()


@story("bus1-reaction", "bus1: the reaction waits behind its cause's block")
def bus1_reaction() -> Run:
    """The same schedule. p has put its blocks everywhere before q had anything to react to, so
    the reaction stands behind p's block at r."""
    stage = _bus1("pqr")
    _reaction(stage)
    return stage.end()


@story("hasty-bus1", "Queued before all are synchronised: a telephone reveals it", Order.CAUSAL)
def hasty_bus1() -> Run:
    """q's clock is ahead, so p's stamp is high; it is queued at q while r's clock is still low. q
    calls s (q1 is no message of the bus), and s sends to r: a low stamp, before the cause."""
    stage = BusStage(_queues("pqrs", "q"), HastyMulticast)
    cause = stage.start("p", "qr")
    stage.until(cause, What.SYNCHRONISE)
    stage.do(cause, What.SYNCHRONISE, "q")
    stage.do(cause, What.QUEUE, "q")
    stage.call("q", "s")
    effect = stage.send("s", "r")
    return stage.end(stamps=stage.stamps(cause, effect))


@story("bus1-telephone", "bus1: causality by whatever means")
def bus1_telephone() -> Run:
    """When q receives p's message, r's clock is not below its stamp any more. So s, whoever has
    called it, gets a higher stamp there, and its message waits behind p's block."""
    stage = _bus1("pqrs", "q")
    cause = stage.start("p", "qr")
    stage.until(cause, What.QUEUE)
    stage.do(cause, What.QUEUE, "q")
    stage.call("q", "s")
    effect = stage.send("s", "r")
    return stage.end(stamps=stage.stamps(cause, effect))


@story("bus1-destruction", "bus1: a node dies at one place in the order")
def bus1_destruction() -> Run:
    """q and r send to a node of p, and p destroys it in between. q's message is the last to be
    queued and has the lower stamp, so it is delivered; r's has a higher one and is refused. Each
    sender learns the fate of its message from its own transaction."""
    stage = NodeStage("pqr")
    before = stage.start("q")
    stage.until(before, What.SYNCHRONISE)
    destruction = stage.destroy()
    stage.until(destruction, What.SYNCHRONISE)
    after = stage.start("r")
    stage.finish(after)
    stage.finish(destruction)
    stage.finish(before)
    return stage.end(
        stamps=stage.stamps(before, destruction, after),
        fates=stage.fates(before, after),
        refused=[str(message) for _, message in stage.history.missing],
    )


def _abandoned(*, aborted: bool) -> Run:
    """Play: p begins a message to q and r and stops after the first block; s sends to q and r."""
    stage = _bus1("pqrs")
    abandoned = stage.start("p", "qr")
    stage.do(abandoned, What.BLOCK, "q")
    if aborted:
        stage.abort(abandoned)
    later = stage.start("s", "qr")
    stage.finish(later)
    stage.forget(abandoned)
    return stage.end()


@story("bus1-abandoned", "bus1: a sender that goes away leaves its block behind")
def bus1_abandoned() -> Run:
    """p puts a block on q's queue, and is never heard of again. s's message comes to r; at q it
    stands behind p's block, as does all that anybody sends to q from now on."""
    return _abandoned(aborted=False)


@story("bus1-aborted", "bus1: a sender that gives up lifts its blocks")
def bus1_aborted() -> Run:
    """The same, and p aborts its message: its block is lifted, nobody receives the message, and q
    receives what s sends. A ``with`` statement does so for a sender that an error interrupts."""
    return _abandoned(aborted=True)
