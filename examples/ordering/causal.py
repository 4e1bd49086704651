"""Stamps for causal broadcast, from the naive to the right one."""

from functools import partial

from examples.ordering.stage import Stage, crossed
from examples.ordering.story import Run, story
from groupcomm.clocks.vector import VectorClock
from groupcomm_lessons.algorithms.direct.datagrams import CODEC
from groupcomm_lessons.algorithms.fan_out import FanOut
from groupcomm_lessons.algorithms.global_id import GlobalId
from groupcomm_lessons.algorithms.last_sender import LastSender, LastSenderSame
from groupcomm_lessons.algorithms.message_history import CompressedHistory, MessageHistory
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Name, Order
from groupcomm_lessons.algorithms.real_time import RealTime
from groupcomm_lessons.algorithms.schiper_eggli_sandoz import (
    SchiperEggliSandoz,
    SchiperEggliSandozSends,
)
from groupcomm_lessons.algorithms.vector import Vector
from groupcomm_lessons.algorithms.vector_choices import (
    VectorAdvancing,
    VectorNotUpdating,
    VectorUpdating,
)
from groupcomm_lessons.algorithms.vector_paths import VectorPaths, VectorTree
from groupcomm_lessons.algorithms.vector_session import VectorSession


def _late_question(stage: Stage) -> None:
    """Play: p asks and q answers; at r the answer is first."""
    question = stage.send("p")
    stage.bring(question, "q")
    answer = stage.send("q")
    stage.bring(answer, "r", "p")
    stage.bring(question, "r")


@story("effect-first", "Plain fan-out: the answer before the question", Order.CAUSAL)
def effect_first() -> Run:
    """p asks a question and q answers it. Nothing prevents the question from reaching r later than
    the answer."""
    stage = Stage(FanOut, "pqr")
    _late_question(stage)
    return stage.end()


@story("two-orders", "Plain fan-out: two messages in two orders", Order.TOTAL)
def two_orders() -> Run:
    """p and q send at the same time. Neither message causes the other, so causal order is kept. But
    r and s deliver the two messages in different orders, so two replicas would differ from now
    on."""
    return crossed(FanOut)


@story("late-message", "Real time: a message that is later than the wait", Order.CAUSAL)
def late_message() -> Run:
    """Each message carries the time of its sending. Its receiver holds it for 3 units of time, in
    which all earlier messages should arrive. One message takes longer, and r cannot know that it is
    still in flight."""
    stage = Stage(partial(RealTime, wait=3), "pqr")
    late = stage.send("p")
    stage.bring(late, "q")
    _pass_time(stage, 1, 4)
    stage.bring(stage.send("q"), "p", "r")
    _pass_time(stage, 5, 8)
    stage.bring(late, "r")
    return stage.end()


@story("clock-behind", "Real time: clocks that differ", Order.FIFO)
def clock_behind() -> Run:
    """Every message is fast, but q's clock is 5 units behind. So p considers q's messages to be
    long overdue and waits for nothing. It delivers the second message first, as that arrives
    first."""
    stage = Stage(partial(RealTime, wait=3), "pqr")
    for name, now in (("p", 5), ("q", 0), ("r", 5)):
        _set_clock(stage, name, now)
    first, second = stage.send("q"), stage.send("q")
    stage.bring(second, "p")
    stage.bring(first, "p", "r")
    stage.bring(second, "r")
    _set_clock(stage, "q", 3)
    return stage.end()


def _pass_time(stage: Stage, first: int, last: int) -> None:
    for now in range(first, last + 1):
        for name in sorted(stage.network.processes):
            _set_clock(stage, name, now)


def _set_clock(stage: Stage, name: Name, now: int) -> None:
    process = stage.network.processes[name]
    assert isinstance(process, RealTime)
    stage.network.accept(name, process.set_clock(now))


@story("history", "Message history: right for any destinations, and how it grows")
def history() -> Run:
    """Every stamp names all messages that may have caused its message, so r buffers the answer
    until the question has arrived. Stamps grow with every message. A stamp may leave out the causes
    that follow from others."""
    stage = Stage(MessageHistory, "pqr")
    _late_question(stage)
    return stage.end(bytes_of_stamps=_growth())


def _growth(rounds: int = 20) -> dict[str, list[int]]:
    """Return the bytes of every fifth stamp when all three send in turn."""
    found: dict[str, list[int]] = {}
    for make in (MessageHistory, CompressedHistory, Vector):
        network = Network([make(name, "pqr") for name in "pqr"])
        for at in range(3 * rounds):
            before = network.stamp_bytes
            network.send("pqr"[at % 3], b"")
            if at % 15 == 0:
                found.setdefault(make.__name__, []).append((network.stamp_bytes - before) // 2)
            network.bring_all()
    return found


@story("one-number", "A global number: right until two messages are concurrent", Order.TOTAL)
def one_number() -> Run:
    """p and q have delivered nothing yet, so both send with the number 1. r has delivered p's
    message when q's arrives, which is concurrent. r delivers it at once, so no message is lost, but
    s delivers the two in the other order."""
    return crossed(GlobalId)


@story("two-causes", "The last sender: a second cause that no stamp names", Order.CAUSAL)
def two_causes() -> Run:
    """r has delivered p1 and q1 before it sends r1. The stamp of r1 names only the last of them,
    q1. So q delivers r1 although p1, its other cause, has not arrived."""
    stage = Stage(LastSender, "pqr")
    cause, named = stage.send("p"), stage.send("q")
    stage.bring(cause, "r")
    stage.bring(named, "r", "p")
    effect = stage.send("r")
    stage.bring(effect, "q")
    stage.bring(cause, "q")
    return stage.end()


@story("same-as", "The last sender, with a test for the same count: an answer that waits for ever")
def same_as() -> Run:
    """q answers p1, and the stamp of the answer names p with the count 1. When the answer arrives,
    r has p1 and p2: its count of p is 2, which is not the same as 1, and the answer waits for ever.
    The algorithm in use tests for "at least as high", and r would deliver the answer at once."""
    stage = Stage(LastSenderSame, "pqr")
    cause = stage.send("p")
    stage.bring(cause, "q")
    answer = stage.send("q")
    stage.bring(cause, "r")
    stage.bring(stage.send("p"), "r")
    stage.bring(answer, "r", "p")
    stage.rest()
    return stage.end(waited=stage.waiting("r"))


@story("vector", "Vector stamps: an effect waits for its causes")
def vector() -> Run:
    """The network is that of `effect-first`. r's count of p is one below the count in the stamp, so
    r buffers the answer, and delivers it as soon as the question has arrived."""
    stage = Stage(Vector, "pqr")
    _late_question(stage)
    return stage.end()


@story("vector-two-causes", "Vector stamps: all causes are counted")
def vector_two_causes() -> Run:
    """The network is that of `two-causes`, where the last sender fails. Here r1 waits at q until p1
    has arrived."""
    stage = Stage(Vector, "pqr")
    cause, named = stage.send("p"), stage.send("q")
    stage.bring(cause, "r")
    stage.bring(named, "r", "p")
    effect = stage.send("r")
    stage.bring(effect, "q")
    waited = stage.waiting("q")
    stage.bring(cause, "q")
    return stage.end(waited=waited)


class LiveVector(Vector):
    """The mistake: the stamp is the clock itself, which counts on while the message waits."""

    def _stamp(self) -> VectorClock[Name]:
        return self._clock


@story("live-vector", "The stamp must be a copy")
def live_vector() -> Run:
    """p sends twice, and attaches its own vector in place of a copy. When the first message leaves,
    its stamp already says 2. So q and r wait for ever for a message that says 1."""
    stage = Stage(LiveVector, "pqr")
    stage.send("p")
    stage.send("p")
    stage.rest()
    return stage.end(waited=stage.waiting("q"))


@story("advance", "A concurrent message: delivered at once, and the stamp advanced", Order.CAUSAL)
def advance() -> Run:
    """s delivers concurrent messages as they arrive, and advances its vector to theirs. So s
    delivers r1, which q1 and p1 have caused, at once. The vector has passed p1, and s delivers p1
    after its effect."""
    stage = Stage(VectorAdvancing, "pqrs")
    cause, other = stage.send("p"), stage.send("q")
    stage.bring(cause, "r")
    stage.bring(other, "r", "s")
    effect = stage.send("r")
    third = stage.send("s")
    stage.bring(effect, "s", "p", "q")
    stage.bring(third, "p", "q", "r")
    stage.bring(cause, "s")
    return stage.end()


def _beside(make: type[Vector], follower: Name) -> Stage:
    """Play: r has p1, then q1, which is concurrent; both come to s, and the follower has one."""
    stage = Stage(make, "pqrst")
    one, other = stage.send("p"), stage.send("q")
    stage.bring(one, "r")
    stage.bring(other, "r")
    stage.bring(one, "s")
    stage.bring(other, "s")
    stage.bring(one if follower == "p" else other, "t")
    stage.bring(stage.send("s"), "r")
    stage.bring(stage.send("t"), "r")
    return stage


@story("update-stamp", "A concurrent message: delivered at once, and the stamp updated")
def update_stamp() -> Run:
    """r delivers q1 at once, and compares with the stamp of q1 from now on. s1 also follows p1,
    which r's stamp does not contain any more, so r never delivers s1. t1 follows only q1, and is
    next."""
    stage = _beside(VectorUpdating, "q")
    return stage.end(waited=stage.waiting("r"))


@story("keep-stamp", "A concurrent message: delivered at once, and the stamp not updated")
def keep_stamp() -> Run:
    """r delivers q1 at once, and continues to compare with the stamp of p1. s1 also follows q1,
    which r's stamp will never contain, so r never delivers s1. t1 follows only p1, and is next."""
    stage = _beside(VectorNotUpdating, "p")
    return stage.end(waited=stage.waiting("r"))


@story("path-tree", "A concurrent message: a copy of the stamp and a new buffer", Order.CAUSAL)
def path_tree() -> Run:
    """r has p1 when q2 arrives, which follows no stamp of r. r makes a copy of its stamp and a new
    buffer, and delivers q2 at once although q1, its cause, is missing; r flags q2 as concurrent. No
    message is lost: r delivers q1 when it arrives, after its effect. p2 is next on the first
    path."""
    stage = Stage(VectorTree, "pqr")
    one = stage.send("p")
    first, second = stage.send("q"), stage.send("q")
    stage.bring(one, "r")
    stage.bring(second, "r")
    stage.bring(stage.send("p"), "r")
    stage.bring(first, "r")
    process = stage.network.processes["r"]
    assert isinstance(process, VectorTree)
    return stage.end(
        flagged=[str(message) for message in process.flagged], paths=len(process.paths)
    )


@story("paths", "A concurrent message: a path of its own")
def paths() -> Run:
    """r keeps a vector and a buffer for the end of every path. q1 follows no path and opens a new
    one. p2 follows both paths and joins them."""
    stage = Stage(VectorPaths, "pqr")
    one, other = stage.send("p"), stage.send("q")
    stage.bring(one, "r")
    stage.bring(other, "r", "p")
    process = stage.network.processes["r"]
    assert isinstance(process, VectorPaths)
    apart = len(process.paths)
    stage.bring(stage.send("p"), "r")
    return stage.end(apart=apart, joined=len(process.paths))


@story("latecomer", "A latecomer starts with its sponsor's vector")
def latecomer() -> Run:
    """s comes late. Its sponsor p gives it a copy of p's vector and of the messages that wait. s
    has missed p1, and need not wait for it: it delivers q1, which p1 has caused, at once."""
    stage = Stage(lambda name, _: VectorSession(name, "" if name == "s" else "pqr"), "pqrs")
    first = stage.send("p")
    stage.bring(first, "q", "r")
    network = stage.network
    session = {
        name: process
        for name, process in network.processes.items()
        if isinstance(process, VectorSession)
    }
    step, welcome = session["p"].sponsor("s")
    network.accept("p", step)
    for name in "qr":
        network.accept(name, session[name].join("s"))
    network.accept("s", session["s"].start(welcome))
    stage.bring(stage.send("q"), "s", "p", "r")
    stage.bring(stage.send("s"), "p")
    return stage.end()


def _chain(make: type[SchiperEggliSandoz]) -> tuple[Stage, dict[str, object]]:
    """Play: p tells r, then q; q tells r, where p's message comes last."""
    stage = Stage(make, "pqr")
    first = stage.send("p", "r")
    stage.bring(stage.send("p", "q"), "q")
    last = stage.send("q", "r")
    clock = dict(stage.network.under_way[-1].stamp.clock.items())
    stage.bring(last, "r")
    waited = stage.waiting("r")
    stage.bring(first, "r")
    return stage, {"waited": waited, "vector_of_q1": clock}


@story("unicasts", "Schiper, Eggli, Sandoz: causes over a chain of unicasts")
def unicasts() -> Run:
    """p sends to r and then to q; q sends to r. Vectors that count broadcasts cannot describe this.
    Here p2 carries what p has sent to r before, q passes it on, and r holds q1 back until p1 has
    arrived. All events are counted: q1 is the third event of q, after the receipt and the delivery
    of p2."""
    stage, seen = _chain(SchiperEggliSandoz)
    return stage.end(**seen, bytes_of_stamps=_codec_bytes(SchiperEggliSandoz))


@story("unicasts-sends", "The same with only sends counted: smaller, and just as right")
def unicasts_sends() -> Run:
    """q1 is the first message of q, and has the vector of q's first sending. r waits for p1 as
    before: r's count of p must have reached 1, and only p1 can raise it to 1. Numbers that skip
    receipts and deliveries distinguish messages as well as numbers that count them."""
    stage, seen = _chain(SchiperEggliSandozSends)
    return stage.end(**seen, bytes_of_stamps=_codec_bytes(SchiperEggliSandozSends))


def _codec_bytes(make: type[SchiperEggliSandoz], rounds: int = 90) -> int:
    """Return the bytes of the last of many stamps in datagrams: 7 bits of a number a byte."""
    network, stamp = Network([make(name, "pqr") for name in "pqr"]), None
    for at in range(rounds):
        network.send("pqr"[at % 3], b"", ["pqr"[(at + 1) % 3]])
        stamp = network.under_way[-1].stamp if network.under_way else stamp
        network.bring_all()
    return len(CODEC.encode(stamp))
