"""Every answer does its exercise, and reports its results."""

import json
import re
from pathlib import Path

import pytest

from examples.ordering.answers.__main__ import main
from examples.ordering.answers.deferred_answers import DeferredAnswers, everybody_once
from examples.ordering.answers.differences import Differences
from examples.ordering.answers.fifo_broadcast import FifoBroadcast
from examples.ordering.answers.lost_packets import Asking
from examples.ordering.answers.random_runs import Make, play_at_random
from examples.ordering.answers.rotating import RotatingSequencer
from examples.ordering.answers.sheets import ANSWERS, SHEETS
from examples.ordering.answers.votes import Votes
from groupcomm_lessons.algorithms.mutual_exclusion import MutexNetwork
from groupcomm_lessons.algorithms.process import Order, Process

EXERCISES = Path(__file__).parents[3] / "docs" / "exercises.md"

TOLD = {
    "1.1": ["at q waits p2", "q delivers p1 p2 q1", "r delivers q1 p1 p2", "held: fifo"],
    "1.2": [
        "causal: 16 of 200; q sends; q1 comes to r; r sends; r1 comes to p:"
        " p: r1 before q1, which may have caused it",
    ],
    "1.3": [
        "2 processes, 45 events: 892 one caused the other, 16 concurrent, with equal clocks,"
        " 82 concurrent, with different clocks",
    ],
    "1.4": [
        "PairNumbers: q delivers p1; left for ever: p1 p2 p2 p3 p3",
        "OncePairNumbers: q delivers p1 p2 p3; left for ever: nothing",
    ],
    "1.5": [
        "p3 comes, and q asks for number 2",
        "q has delivered p1 p2 p3",
        "p4 is missing, and nobody knows it as long as p is silent",
    ],
    "2.1": [
        "2 causes: q delivers q1 p1 r1; causal order holds",
        "3 causes: s delivers s1 q1 r1 p1; s: r1 before p1, which may have caused it",
    ],
    "2.2": [
        "p1 [1 0 0] q1 [0 1 0]: concurrent",
        "p1 [1 0 0] r1 [1 1 1]: before",
        "8 processes send twice: 112 of 120 pairs are concurrent",
    ],
    "2.3": [
        "16 processes: 3132 bytes, 388 if each sends to its neighbour only; 16.3 vectors of 192",
    ],
    "2.4": [
        "1 of 8 talk: 80 bytes a stamp, 10.0 as differences",
        "8 of 8 talk: 80 bytes a stamp, 68.3 as differences",
    ],
    "2.5": [
        "5 processes, of 100 runs: FanOut 93, FifoBroadcast 73, LastSender 45, LastTwoSenders 7,"
        " Vector 0",
    ],
    "3.1": [*(f"{name} delivers q1 r1 p1 p2" for name in "pqr"), "4 packets a message among 3"],
    "3.2": ["r delivers p1 t1", "s delivers p1 t1", "held: causal, fifo, total"],
    "3.3": [
        "8 processes, LamportMutex: granted pqrstuvw, 21 packets a use",
        "8 processes, DeferredAnswers: granted pqrstuvw, 14 packets a use",
    ],
    "3.4": ["FanOut: p grants r1 q1", "SchiperEggliSandoz: p grants q1 r1"],
    "3.5": [
        "RotatingSequencer: 4.0, 8.0, 18.0 among 3, 5, 10",
        "AcknowledgedStamps: 8.0, 24.0, 99.0 among 3, 5, 10",
        "Votes: 9.0, 15.0, 30.0 among 3, 5, 10",
    ],
    "4.1": [
        "AT_CLOCK: r delivers q1 p1, held back q1; at random 174 of 480",
        "AT_ESTIMATE: r delivers q1 p1, held back nothing; at random 100 of 480",
    ],
    "4.2": ["p delivers s1 r1", "q delivers r2 q1 s1", "q1 was sent after r1 was: True"],
    "4.3": [
        "passed on before the destruction's tick, the stranger receives a message with the"
        " handle, then the end of the node",
        "passed on after the destruction's tick, the stranger receives a message with an"
        " invalid handle",
    ],
    "4.4": ["patient: b a c", "hasty: b c"],
    "4.5": ["Server: missed nothing; 3 writes", "LateCount: missed second; 2 writes"],
}


@pytest.mark.parametrize("number", sorted(ANSWERS))
def test_an_answer_tells_what_was_asked_for(number: str) -> None:
    told = list(ANSWERS[number].tell())
    assert [line for line in TOLD[number] if line not in told] == []


def test_each_exercise_has_its_answer() -> None:
    asked = re.findall(r"^\*\*(\d\.\d)\b", EXERCISES.read_text(), re.MULTILINE)
    assert asked == sorted(ANSWERS) == sorted(TOLD)
    modules = {
        f"{sheet}.{number}": module.__name__
        for sheet, modules in SHEETS.items()
        for number, module in enumerate(modules, 1)
    }
    assert {number: each.tell.__module__ for number, each in ANSWERS.items()} == modules


@pytest.mark.parametrize("make", [FifoBroadcast, Asking, Differences, RotatingSequencer, Votes])
def test_what_the_new_processes_claim_holds_in_random_runs(make: type[Process]) -> None:
    for seed in range(60):
        history = play_at_random(make, "pqr", seed).history
        assert not history.missing
        assert not history.twice
        assert make.claims <= history.held()


def test_of_what_they_do_not_claim_there_is_a_run_that_breaks_it() -> None:
    def is_broken(make: Make, order: Order) -> bool:
        return any(play_at_random(make, "pqr", s).history.broken(order) for s in range(60))

    assert is_broken(FifoBroadcast, Order.CAUSAL)
    assert is_broken(RotatingSequencer, Order.FIFO)
    assert is_broken(Votes, Order.FIFO)


def test_deferred_answers_keep_lamports_conditions() -> None:
    network = everybody_once(DeferredAnswers, "pqrs")
    assert not network.uses.overlaps
    assert not network.uses.open
    network = MutexNetwork(DeferredAnswers(name, "pqr") for name in "pqr")
    earlier = network.request("q")
    network.send("q", b"I have asked", ["r"])
    network.bring(network.under_way[-1])
    later = network.request("r")
    network.bring_all()
    network.release("q")
    network.bring_all()
    assert network.uses.granted == [earlier, later]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["4.4"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("4.4 A consumer that")
    assert "examples/ordering/answers/patient_consumer.py\n" in told
    assert "  patient: b a c\n" in told
    for arguments in ([], ["--list"]):
        assert main(arguments) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == sorted(ANSWERS)
    assert main(["4.4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["told"] == ["patient: b a c", "hasty: b c"]
    assert main(["--list", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["number"] for line in lines] == sorted(ANSWERS)
    assert main(["4.9"]) == 2
    assert "no answer is named '4.9'; did you mean 4." in capsys.readouterr().err
