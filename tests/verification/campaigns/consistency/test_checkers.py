"""The checkers of consistency find broken records, and accept right ones."""

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.verification.campaigns.consistency.linearizable import check_registers, register_step
from tests.verification.campaigns.consistency.list_append import check_lists
from tests.verification.campaigns.consistency.locks_and_queues import check_locks, check_queue
from tests.verification.campaigns.consistency.operations import (
    Operation,
    read_operations,
    write_operations,
)

pytestmark = pytest.mark.verification


def did(
    call: int, end: int | None, act: Any, result: Any = None, outcome: Any = "ok", **more: Any
) -> Operation:
    return Operation(
        process=f"p{call}", object="", call=call, end=end, act=act, result=result, outcome=outcome,
        **more,
    )  # fmt: skip


# ---- registers ----

WRITE_5 = did(0, 10, ["write", 5])
READ_5 = did(20, 30, ["read"], 5)


@pytest.mark.parametrize(
    ("operations", "holds"),
    [
        ([WRITE_5, did(20, 30, ["read"], 5)], True),
        ([WRITE_5, did(20, 30, ["read"], None)], False),
        ([WRITE_5, did(5, 30, ["read"], None)], True),
        ([did(0, 10, ["read"], 5), did(20, 30, ["write", 5])], False),
        ([did(0, None, ["write", 5], outcome="unknown"), did(20, 30, ["read"], 5)], True),
        ([did(0, None, ["write", 5], outcome="unknown"), did(20, 30, ["read"], None)], True),
        ([did(0, 9, ["write", 5], outcome="failed"), did(20, 30, ["read"], 5)], False),
        ([WRITE_5, did(0, 10, ["write", 6]), READ_5, did(40, 50, ["read"], 6)], False),
        ([WRITE_5, did(20, 30, ["cas", 5, 6], True), did(40, 50, ["cas", 5, 7], True)], False),
        ([WRITE_5, did(20, 30, ["cas", 5, 6], True), did(40, 50, ["cas", 5, 7], False)], True),
        ([did(0, None, ["write", 5], outcome="unknown"), READ_5, did(40, 50, ["read"])], False),
    ],
)  # fmt: skip
def test_registers(operations: list[Operation], holds: bool) -> None:
    assert (check_registers(operations) == []) is holds


def brute(operations: Sequence[Operation]) -> bool:
    """Try every order of operations whose outcomes are all known."""
    for order in permutations(operations):
        if any(b.last < a.call for n, a in enumerate(order) for b in order[n:]):
            continue
        state = None
        for each in order:
            fits, state = register_step(state, each)
            if not fits:
                break
        else:
            return True
    return False


def test_the_search_agrees_with_every_order_tried() -> None:
    rng, found = Random(1), {True: 0, False: 0}
    for _ in range(400):
        operations = []
        for _ in range(5):
            call = rng.randrange(20)
            act, result = rng.choice(
                [(["read"], rng.choice((None, 1, 2))), (["write", rng.choice((1, 2))], None),
                 (["cas", 1, 2], rng.choice((True, False)))]
            )  # fmt: skip
            operations.append(did(call, call + rng.randint(1, 12), act, result))
        holds = check_registers(operations) == []
        assert holds is brute(operations), operations
        found[holds] += 1
    assert min(found.values()) > 40


def test_a_long_record_with_unknown_outcomes_takes_no_time() -> None:
    operations, value = [], None
    for at in range(0, 40_000, 20):
        if at % 400 == 0:
            operations.append(did(at, None, ["write", -at], outcome="unknown"))
        operations += [did(at, at + 15, ["write", at]), did(at + 16, at + 19, ["read"], at)]
        value = at
    assert check_registers(operations) == []
    operations.append(did(50_000, 50_001, ["read"], value))
    assert check_registers(operations) == []


# ---- lists ----


def append(value: str, key: str = "x") -> list[str]:
    return ["append", key, value]


def read(key: str = "x") -> list[str]:
    return ["read", key]


def lists(*transactions: Operation) -> list[str]:
    return [anomaly.kind for anomaly in check_lists(transactions)]


def test_lists_that_one_order_explains() -> None:
    assert lists(
        did(0, 10, [append("a")], [None]),
        did(5, 15, [append("b"), read()], [None, ["a", "b"]]),
        did(20, 30, [read(), append("c")], [["a", "b"], None]),
        did(20, None, [append("d")], outcome="unknown"),
        did(20, None, [append("e")], outcome="unknown"),
        did(40, 50, [read()], [["a", "b", "c", "d"]]),
    ) == []  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "transactions"),
    [
        ("incompatible order", [did(0, 9, [append("a")], [None]), did(0, 9, [append("b")], [None]),
            did(0, 9, [read()], [["a", "b"]]), did(0, 9, [read()], [["b"]])]),
        ("duplicate", [did(0, 9, [append("a")], [None]), did(0, 9, [read()], [["a", "a"]])]),
        ("aborted read", [did(0, 9, [append("a")], outcome="failed"),
            did(0, 9, [read()], [["a"]])]),
        ("invented", [did(0, 9, [read()], [["a"]])]),
        ("G-single-realtime", [did(0, 9, [append("a")], [None]), did(20, 29, [read()], [[]]),
            did(40, 49, [read()], [["a"]])]),
        ("G-single-realtime", [did(0, 9, [append("a")], [None]), did(20, 29, [read()], [[]])]),
        ("G0", [did(0, 9, [append("1"), append("1", "y")], [None, None]),
            did(0, 9, [append("2"), append("2", "y")], [None, None]),
            did(0, 9, [read(), read("y")], [["1", "2"], ["2", "1"]])]),
        ("G1c", [did(0, 9, [append("1"), read("y")], [None, ["2"]]),
            did(0, 9, [append("2", "y"), read()], [None, ["1"]])]),
        ("G2", [did(0, 9, [append("1"), read("y")], [None, []]),
            did(0, 9, [append("2", "y"), read()], [None, []]),
            did(0, 9, [read(), read("y")], [["1"], ["2"]])]),
        ("G1c-realtime", [did(0, 9, [read()], [["a"]]), did(20, 29, [append("a")], [None])]),
    ],
)  # fmt: skip
def test_anomalies_of_lists(kind: str, transactions: list[Operation]) -> None:
    assert kind in lists(*transactions)


def test_serial_transactions_have_no_anomaly_and_a_lost_one_is_found() -> None:
    rng, state, record = Random(2), dict[str, list[str]](), []
    for number in range(600):
        acts, results = [], list[Any]()
        for at in range(rng.randint(1, 3)):
            key = f"k{rng.randrange(3)}"
            if rng.random() < 0.5:
                acts.append(read(key))
                results.append(list(state.get(key, ())))
            else:
                acts.append(append(f"{number}.{at}", key))
                state.setdefault(key, []).append(f"{number}.{at}")
                results.append(None)
        record.append(did(10 * number - 15, 10 * number + 5, acts, results))
    assert lists(*record) == []
    broken = list(record)
    victim = next(each for each in record[200:] if each.act[0][0] == "read" and each.result[0])
    short = [victim.result[0][:-1], *victim.result[1:]]
    at = record.index(victim)
    broken[at] = did(victim.call + 4000, 9000, victim.act, short)
    assert lists(*broken) != []


# ---- locks and queues ----


def test_locks() -> None:
    one, other = did(0, 10, ["hold"]), did(10, 20, ["hold"])
    assert check_locks([one, other]) == []
    assert len(check_locks([one, did(9, 12, ["hold"])])) == 1
    assert (
        len(check_locks([did(0, 100, ["hold"]), did(5, 6, ["hold"]), did(50, 51, ["hold"])])) == 2
    )
    assert check_locks([one, did(9, None, ["hold"], outcome="unknown")]) == []


def test_queues() -> None:
    sent, done = did(0, 10, ["send", "j"]), did(20, 21, ["do", "j"])
    assert check_queue([sent, done, done]) == []
    assert check_queue([sent]) == ["j of p0 was lost"]
    assert check_queue([did(0, None, ["send", "j"], outcome="unknown")]) == []
    assert check_queue([done]) == ["p20 did j, which nobody has sent"]
    assert check_queue([did(30, 40, ["send", "j"]), done]) == ["p20 did j before it was sent"]


def test_a_record_comes_back(tmp_path: Path) -> None:
    record = [did(0, 9, [append("a")], [None]), did(0, None, ["read"], outcome="unknown", key="k")]
    write_operations(tmp_path / "r.jsonl", record)
    assert read_operations(tmp_path / "r.jsonl") == record
