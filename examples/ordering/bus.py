"""bus1: queues without a lock over all of them, and what goes wrong with less."""

from examples.ordering.bus_stage import Bus, BusStage, NodeStage
from examples.ordering.story import Run, story
from groupcomm_lessons.algorithms.bus1.multicast import What
from groupcomm_lessons.algorithms.bus1.naive import FifoQueue, HastyMulticast, plain
from groupcomm_lessons.algorithms.bus1.queue import Queue
from groupcomm_lessons.algorithms.process import Name, Order


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


@story("fifo-overtaking", "Plain queues: one multicast overtakes another", Order.TOTAL)
def fifo_overtaking() -> Run:
    """p and q each send to r and s, to one queue after the other. q's message is the second one at
    r and the first one at s, so r and s receive the two messages in different orders."""
    stage = _plain("pqrs")
    _overtaking(stage)
    return stage.end()


@story("bus1-overtaking", "bus1: blocks keep the places of messages in flight")
def bus1_overtaking() -> Run:
    """The schedule is the same. q's message is at s first, but it stands behind the block of p's
    message, as its stamp is higher. It leaves the queue once p's message has arrived."""
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


@story("fifo-reaction", "Plain queues: the reaction before its cause", Order.CAUSAL)
def fifo_reaction() -> Run:
    """p's message is in q's queue, and not yet in r's. q reacts at once, and r receives the
    reaction before its own copy of the cause."""
    stage = _plain("pqr")
    _reaction(stage)
    return stage.end()


@story("bus1-reaction", "bus1: the reaction waits behind its cause's block")
def bus1_reaction() -> Run:
    """The schedule is the same. p has put its blocks into all queues before q has anything to react
    to, so the reaction stands behind p's block at r."""
    stage = _bus1("pqr")
    _reaction(stage)
    return stage.end()


@story(
    "hasty-bus1",
    "Queued before all queues are synchronised: a telephone reveals it",
    Order.CAUSAL,
)
def hasty_bus1() -> Run:
    """q's clock is ahead, so p's stamp is high. p's message is queued at q while r's clock is still
    low. q calls s (q1 is no message of the bus), and s sends to r. The message of s gets a low
    stamp and stands before its cause."""
    stage = BusStage(_queues("pqrs", "q"), HastyMulticast)
    cause = stage.start("p", "qr")
    stage.until(cause, What.SYNCHRONISE)
    stage.do(cause, What.SYNCHRONISE, "q")
    stage.do(cause, What.QUEUE, "q")
    stage.call("q", "s")
    effect = stage.send("s", "r")
    return stage.end(stamps=stage.stamps(cause, effect))


@story("bus1-telephone", "bus1: causality by any means")
def bus1_telephone() -> Run:
    """When q receives p's message, r's clock is no longer below the stamp of that message. So the
    message of s gets a higher stamp at r, whoever has called s, and waits behind p's block."""
    stage = _bus1("pqrs", "q")
    cause = stage.start("p", "qr")
    stage.until(cause, What.QUEUE)
    stage.do(cause, What.QUEUE, "q")
    stage.call("q", "s")
    effect = stage.send("s", "r")
    return stage.end(stamps=stage.stamps(cause, effect))


@story("bus1-destruction", "bus1: the destruction of a node has one place in the order")
def bus1_destruction() -> Run:
    """q and r send to a node of p, and p destroys it in between. q's message is queued last but has
    a lower stamp than the destruction, so it is delivered. r's message has a higher stamp and is
    refused. Each sender learns the fate of its message from its own transaction."""
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
    """p puts a block into q's queue, and is never heard of again. The message of s arrives at r. At
    q it stands behind p's block, like all messages that anybody sends to q from now on."""
    return _abandoned(aborted=False)


@story("bus1-aborted", "bus1: a sender that gives up lifts its blocks")
def bus1_aborted() -> Run:
    """The same happens, but p aborts its message. Its block is lifted, nobody receives the message,
    and q receives the message of s. A ``with`` statement aborts like this for a sender that an
    error interrupts."""
    return _abandoned(aborted=True)
