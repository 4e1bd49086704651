"""Received events become rows: bundles the fast way give the same as each the slow way."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Position, Stamp, ViewId
from groupcomm.events import (
    CausalContext,
    Cause,
    DaemonView,
    GroupView,
    MemberId,
    Message,
    Transition,
)
from groupcomm.level import LEVELS
from groupcomm_archive.columns import EventBatch, Gap, to_rows
from groupcomm_client.events import Received
from groupcomm_log.schema import PLACE, ROWS
from groupcomm_tools.recording.recorder import ROW_BYTES, WriteQueue

VIEW = ViewId(7, "a", 255)


U64 = st.integers(0, 2**64 - 1)
CAUSES = st.one_of(
    st.none(),
    st.builds(CausalContext, U64, st.none(), st.just(())),
    st.builds(
        CausalContext, U64, st.builds(Stamp, U64, st.integers(0, 9)), st.tuples(U64, U64, U64)
    ),
)


@st.composite
def bundles(draw: st.DrawFn) -> list[Received]:
    """The messages of one bundle."""
    level = draw(st.sampled_from(LEVELS))
    place = Position(VIEW, draw(st.integers(0, 2**63 - 1)), draw(st.integers(0, 9)), 0, 0)
    number = draw(st.integers(0, 2**64 - 10))
    sender = MemberId(draw(st.sampled_from(["#a#a", "#ü#b"])), draw(st.integers(0, 5)))
    causes = draw(CAUSES) if level else None
    groups = tuple(draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=3)))
    return [
        Message(
            sender,
            number + index,
            groups,
            level,
            draw(st.integers(0, 65535)),
            draw(st.binary(max_size=5)),
            place if level else None,
            index,
            causes,
        )
        for index in range(draw(st.integers(1, 4)))
    ]


def expected(message: Message, received_us: int) -> dict[str, Any]:
    place = message.position or (None,) * 5
    number = message.number if message.number < 2**63 else message.number - 2**64
    return {
        "kind": "message",
        **dict(zip(PLACE, [place[0] and str(place[0]), *place[1:]], strict=True)),
        "sender": str(message.sender),
        "number": number,
        "groups": list(message.groups),
        "level": message.level.name,
        "type": message.type,
        "data": message.data,
        "causal_context": message.causes and context(message.causes),
        "received": received_us,
    }


def context(causes: CausalContext) -> list[int]:
    numbers = [causes.packet, *(causes.agreed or ()), *causes.heard]
    return [number if number < 2**63 else number - 2**64 for number in numbers]


@given(batches=st.lists(st.lists(bundles(), min_size=1, max_size=3), min_size=1, max_size=3))
def test_messages_become_rows(batches: list[list[list[Received]]]) -> None:
    taken = [
        EventBatch(at, [m for bundle in batch for m in bundle]) for at, batch in enumerate(batches)
    ]
    rows = to_rows(taken)
    assert rows.schema.equals(ROWS)
    found = rows.set_column(
        ROWS.get_field_index("received"), "received", rows["received"].cast("int64")
    ).to_pylist()
    for row, (at, message) in zip(
        found, [(t.received_us, m) for t in taken for m in t.events], strict=True
    ):
        assert isinstance(message, Message)
        wanted = expected(message, at)
        assert {name: row[name] for name in wanted} == wanted
        assert {row[name] for name in row if name not in wanted} == {None}


def test_what_is_no_message_becomes_rows_between_messages() -> None:
    ann = MemberId("#ann#a", 1)
    one = Message(ann, 1, ("g",), LEVELS[4], 0, b"1", Position(VIEW, 5, 0, 0, 0))
    group_view = GroupView(
        group="g",
        id=Position(VIEW, 6, 1, 2, 3),
        members=(ann,),
        cause=Cause.DISCONNECT,
        changed=(MemberId("#bob#a", 2),),
        vs_set=(ann,),
        own=False,
    )
    events: list[Any] = [
        Gap(cause="reconnect", member=ann, groups=("g",), details={"why": "it was"}),
        DaemonView(id=VIEW, daemons=("a", "b"), majority=False),
        one,
        group_view,
        one,
        one,
        Transition(VIEW),
    ]
    rows = to_rows([EventBatch(1, events)]).to_pylist()
    kinds = [row["kind"] for row in rows]
    assert kinds == ["gap", "daemons", "message", "view", "message", "message", "transition"]
    gap, daemons, _, view, *_ = rows
    assert (gap["cause"], gap["sender"], gap["data"]) == (
        "reconnect",
        "#ann#a/1",
        b'{"why": "it was"}',
    )
    assert (daemons["view"], daemons["members"], daemons["cause"]) == (
        "7.a.ff",
        ["a", "b"],
        "minority",
    )
    assert [view[name] for name in PLACE] == ["7.a.ff", 6, 1, 2, 3]
    assert (view["members"], view["changed"]) == (["#ann#a/1"], ["#bob#a/2"])
    assert (view["cause"], view["vs_set"]) == ("disconnect", ["#ann#a/1"])


def many(size: int) -> list[Received | Gap]:
    return [Message(MemberId("#a#a", 1), 1, ("g",), LEVELS[0], 0, bytes(size - ROW_BYTES), None)]


def test_what_does_not_fit_is_dropped_and_a_gap_stands_in_its_place() -> None:
    waiting = WriteQueue(2000)
    assert [waiting.put(many(1000)) for _ in range(4)] == [True, True, False, False]
    assert (waiting.bytes, waiting.dropped) == (2000, 2)
    assert [len(taken.events) for taken in waiting.pop()] == [1, 1]
    assert waiting.put(many(500))
    gap, message = waiting.pop()
    (event,) = gap.events
    assert isinstance(event, Gap)
    assert (event.cause, event.details["messages"]) == ("overrun", 2)
    assert isinstance(message.events[0], Message)
    assert not waiting


def test_a_gap_comes_also_when_nothing_follows() -> None:
    waiting = WriteQueue(2000)
    for _ in range(3):
        waiting.put(many(1000))
    waiting.pop()
    assert waiting
    ((event,),) = [taken.events for taken in waiting.pop()]
    assert isinstance(event, Gap)
    assert not waiting


def test_one_that_is_larger_than_all_is_taken() -> None:
    waiting = WriteQueue(200)
    assert waiting.put(many(5000))
    assert not waiting.put(many(300))
    assert len(waiting.pop()) == 1


def test_a_part_at_a_time_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupcomm_tools.recording.recorder.BATCH_BYTES", 2500)
    waiting = WriteQueue(10_000)
    for _ in range(5):
        waiting.put(many(1000))
    assert [len(waiting.pop()) for _ in range(3)] == [2, 2, 1]
    assert waiting.bytes == 0
