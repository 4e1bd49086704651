"""The records of a watched process: the vocabulary of steps, and the reasons for buffering."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from groupcomm.trace.events import decode_event_untrusted, encode_event
from groupcomm.trace.steps import AlgorithmStep, Buffered, Given, StampedReceived, StampedSent
from groupcomm_lessons.algorithms.central_scheduler import CentralScheduler
from groupcomm_lessons.algorithms.fan_out import FanOut
from groupcomm_lessons.algorithms.global_id import GlobalId
from groupcomm_lessons.algorithms.lamport_mutex import LamportMutex
from groupcomm_lessons.algorithms.last_sender import LastSender
from groupcomm_lessons.algorithms.message_history import CompressedHistory, MessageHistory
from groupcomm_lessons.algorithms.mutual_exclusion import Claimant, MutexNetwork
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Process
from groupcomm_lessons.algorithms.schiper_eggli_sandoz import SchiperEggliSandoz
from groupcomm_lessons.algorithms.token_ring import TokenRing
from groupcomm_lessons.algorithms.vector import Vector
from groupcomm_lessons.algorithms.vector_choices import VectorAdvancing
from groupcomm_lessons.algorithms.vector_paths import VectorPaths
from groupcomm_lessons.algorithms.vector_session import VectorSession
from groupcomm_tools.traces.check import check_trace
from groupcomm_tools.traces.text import readable
from tests.groupcomm_lessons.algorithms.counterexample import Steps
from tests.groupcomm_lessons.algorithms.schedules import late_cause, play, schedules

NAMES = ("p", "q", "r")


def test_the_steps_of_a_vector() -> None:
    """Every step of the vocabulary in its place, at the process that buffers."""
    steps = late_cause(Vector)
    assert [readable(step).split(maxsplit=1)[1] for step in steps if step.p == "r"] == [
        "r                        creates its vector: p 0, q 0, r 0",
        "r                        receives q:1 from q",
        "r                        buffers q:1, which waits for p:1",
        "r                        receives p:1 from p",
        "r                        delivers p:1",
        "r                        finds q:1 to be a successor",
        "r                        takes q:1 out of the buffer",
        "r                        delivers q:1",
    ]
    assert [readable(step).split(maxsplit=1)[1] for step in steps if step.p == "q"][:5] == [
        "q                        creates its vector: p 0, q 0, r 0",
        "q                        receives p:1 from p",
        "q                        delivers p:1",
        "q                        raises its own count to 1",
        "q                        sends q:1 to p, q, r, stamped <VectorClock p: 1, q: 1, r: 0>"
        " (30 bytes)",
    ]


@pytest.mark.parametrize("make", [Vector, LastSender, MessageHistory, CompressedHistory])
def test_a_stamp_names_what_its_message_waits_for(make: type[Process]) -> None:
    (buffered,) = [step for step in late_cause(make) if isinstance(step, Buffered)]
    assert (buffered.p, buffered.s, buffered.m, buffered.waits) == ("r", "q", 1, (("p", 1),))


def test_concurrent_messages_and_paths() -> None:
    for make, tags in ((VectorAdvancing, {"concurrent"}), (VectorPaths, {"concurrent", "path"})):
        steps: list[AlgorithmStep] = []
        network = Network([make(name, NAMES) for name in NAMES], steps.append)
        network.send("p", b"")
        network.send("q", b"")
        network.bring_all()
        found = {tag_of(step) for step in steps if tag_of(step) in {"concurrent", "path"}}
        assert found == tags


def test_joins_and_leaves() -> None:
    steps: list[AlgorithmStep] = []
    p, q = VectorSession("p", ["p", "q"]), VectorSession("q", ["p", "q"])
    network = Network([p, q], steps.append)
    network.accept("p", p.join("r"))
    network.accept("q", q.leave("p"))
    network.accept("q", q.join("s"))
    assert [(tag_of(step), step.p) for step in steps[2:]] == [
        ("member", "p"),
        ("dropped", "q"),
        ("member", "q"),
    ]


def test_what_is_no_users_message_passes_through() -> None:
    steps: list[AlgorithmStep] = []
    network = Network([TokenRing(name, NAMES) for name in NAMES], steps.append)
    network.send("q", b"")
    network.bring_all()
    assert "pass" in {tag_of(step) for step in steps}


@pytest.mark.parametrize(
    "make", [FanOut, Vector, GlobalId, LastSender, MessageHistory, SchiperEggliSandoz, TokenRing]
)
@given(steps=schedules)
def test_a_trace_tells_what_happened(make: Any, steps: Steps) -> None:
    """It changes nothing; each delivery is in it, behind the receipt, and the file reads back."""
    trace: list[AlgorithmStep] = []
    run, plain = play(make, steps, record=trace.append), play(make, steps)
    assert run.history.events == plain.history.events
    given_to = [(step.p, (step.s, step.m)) for step in trace if isinstance(step, Given)]
    delivered = [(e.process, e.message.id) for e in run.history.events if not e.sends]
    assert given_to == delivered
    seen = {(step.p, step.s, step.m) for step in trace if isinstance(step, StampedReceived)}
    sent = {(step.s, step.m) for step in trace if isinstance(step, StampedSent)}
    assert sent == {message.id for message in run.history.sent}
    assert all((p, *message) in seen or message[0] == p for p, message in given_to)
    lines = [encode_event(step) + b"\n" for step in trace]
    assert [decode_event_untrusted(line) for line in lines] == trace
    assert check_trace("algorithm", lines, make.claims).holds


def test_a_step_without_a_process_is_refused() -> None:
    line = msgspec.json.encode({"e": "give", "t": 1, "p": "", "s": "q", "m": 1}) + b"\n"
    with pytest.raises(Exception, match="1: not an event of this trace: a process"):
        check_trace("trace", [line])


def tag_of(step: AlgorithmStep) -> str:
    return str(step.__struct_config__.tag)


@pytest.mark.parametrize("make", [CentralScheduler, LamportMutex])
def test_what_claimants_tell_each_other_are_messages_of_their_own(make: type[Claimant]) -> None:
    """Each has one sending, and a receipt where it goes; a request waits until it is granted."""
    steps: list[AlgorithmStep] = []
    network = MutexNetwork([make(name, NAMES) for name in NAMES], steps.append)
    for _ in range(2):
        network.request("q")
        network.bring_all()
        network.release("q")
        network.bring_all()
    assert "pass" not in {tag_of(step) for step in steps}
    to = {(step.s, step.m): step.to for step in steps if isinstance(step, StampedSent)}
    assert {"q-request", "q-release"} <= {name for name, _ in to}
    received = [(step.s, step.m, step.p) for step in steps if isinstance(step, StampedReceived)]
    told = {message: names for message, names in to.items() if message[0] != "q"}
    assert sorted(received) == sorted((*each, name) for each in told for name in told[each])
    own = [tag_of(step) for step in steps if getattr(step, "s", "") == "q"]
    assert own == ["out", "buffer", "next", "take", "give"] * 2
