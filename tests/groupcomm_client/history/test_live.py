"""Which live events are on the line, as docs/history.md has it."""

from random import Random
from typing import Any

import pytest
from msgspec import structs

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message, Transition
from groupcomm.level import ServiceLevel
from groupcomm_client.events import Received, Reconnected
from groupcomm_client.history.given_queue import EVENT_BYTES
from groupcomm_client.history.live import HURRIED_MARK_S, MARK, MARK_S, LiveLine, runs_of
from groupcomm_client.history.places import place_of

ME, BOB = MemberId("#me#a", 1), MemberId("#bob#b", 2)
AGREED, SAFE, FIFO = ServiceLevel.AGREED, ServiceLevel.SAFE, ServiceLevel.FIFO


def view_id(counter: int) -> ViewId:
    return ViewId(counter, "a", 7)


def daemons(counter: int, names: str = "abc", majority: bool | None = True) -> DaemonView:
    return DaemonView(id=view_id(counter), daemons=tuple(names), majority=majority)


def place(counter: int, time: int) -> Position:
    return Position(view_id(counter), time, 0, 0, 0)


def message(at: Position, level: ServiceLevel = AGREED, data: bytes = b"x") -> Message:
    return Message(BOB, at.time, ("g",), level, 0, data, at)


def mark(at: Position) -> Message:
    return Message(ME, at.time, (ME.name,), SAFE, 0, MARK, at)


def joined(at: Position) -> GroupView:
    return GroupView(
        group="g", id=at, members=(BOB, ME), cause=Cause.JOIN, changed=(ME,), vs_set=(), own=True
    )


def begun(*, stable: bool = False) -> LiveLine:
    """A line that is complete from the join at time 10 of view 5 on."""
    line = LiveLine(ME, ("g",), None, stable=stable)
    feed(line, daemons(5), message(place(5, 9)), joined(place(5, 10)))
    return line


def feed(line: LiveLine, *events: Received) -> bool:
    dropped = False
    for event in events:
        dropped |= line.handle(event)
    return dropped


def times(line: LiveLine) -> list[tuple[int, int]]:
    return [
        (at.view.counter, at.time)
        for queued in line.pop()
        if queued.counts
        for event in queued.events
        if (at := place_of(event))
    ]


def test_the_line_is_complete_from_the_own_join_on() -> None:
    line = begun()
    feed(line, message(place(5, 11)))
    assert line.complete_after is not None
    assert place(5, 9) < line.complete_after < place(5, 10)
    assert times(line) == [(5, 10), (5, 11)]


def test_a_stable_event_waits_for_a_mark_of_the_regular_part() -> None:
    line = begun(stable=True)
    feed(line, message(place(5, 11)))
    assert line.wants_mark
    line.has_mark_in_flight = True
    assert not line.wants_mark
    assert times(line) == []
    feed(line, message(place(5, 13)), mark(place(5, 12)))
    assert times(line) == [(5, 10), (5, 11)]
    assert line.passed == place(5, 12)
    assert line.wants_mark, "for the message behind it"


def test_a_safe_message_proves_nothing_and_hurries_the_mark() -> None:
    """A site delivers its own ones alone, also while all others have gone on without it."""
    line = begun(stable=True)
    feed(line, message(place(5, 11)))
    assert line.mark_after_s == MARK_S
    feed(line, message(place(5, 12), SAFE), message(place(5, 13)))
    assert times(line) == []
    assert (line.wants_mark, line.mark_after_s) == (True, HURRIED_MARK_S)
    feed(line, mark(place(5, 14)))
    assert times(line) == [(5, 10), (5, 11), (5, 12), (5, 13)]
    assert (line.wants_mark, line.mark_after_s) == (False, MARK_S)


def test_a_mark_of_the_transitional_part_proves_nothing() -> None:
    line = begun(stable=True)
    feed(line, message(place(5, 11)), Transition(view_id(5), ("a",)), mark(place(5, 12)))
    assert times(line) == []
    assert feed(line, daemons(9, "a", majority=False)), "the queue is dropped"
    assert line.complete_after is None


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize(
    ("together", "following", "continues"),
    [
        (("a",), daemons(6), True),  # no view of the line has a counter in between
        (("a", "b", "c"), daemons(9), True),  # all go on, so nobody was in another one
        (("a", "b"), daemons(9, "ab"), True),  # a majority has come together
        (("a", "b"), daemons(9, "ab", majority=None), False),
        (("a", "b"), daemons(7), False),  # c may have been in view 6, with a daemon of the others
        (None, daemons(7), False),
        (("a", "b", "c"), daemons(9, majority=False), False),
    ],
)
def test_what_a_view_ends_with_is_on_the_line_if_the_next_one_continues_it(
    together: tuple[str, ...] | None, following: DaemonView, continues: bool, stable: bool
) -> None:
    line = begun(stable=stable)
    feed(line, Transition(view_id(5), ("a", "b", "c")), message(place(5, 20)))
    line.pop()
    following = structs.replace(following, together=together)
    counter = following.id.counter
    assert feed(line, following) is not continues
    if continues:
        assert (5, 20) in times(line)
        feed(line, message(place(counter, 1)), mark(place(counter, 2)))
        assert (counter, 1) in times(line)
    else:
        assert (5, 20) not in times(line)
        on_line = following.majority is not False
        assert (line.complete_after is not None) is on_line
        if on_line:
            assert line.complete_after is not None
            assert place(5, 99) < line.complete_after < place(counter, 0)


def test_transitional_events_wait_for_the_next_view() -> None:
    line = begun()
    line.pop()
    feed(line, Transition(view_id(5), ("a",)), message(place(5, 20)))
    assert times(line) == []


def test_a_view_behind_one_without_a_majority_continues_nothing() -> None:
    line = begun()
    over = Transition(view_id(5), ("a",))
    feed(line, over, daemons(6, "a", majority=False), Transition(view_id(6), ("a",)))
    assert feed(line, daemons(7))
    assert line.complete_after is not None


def test_a_new_session_begins_anew() -> None:
    line = begun()
    again = Reconnected(member=BOB, why="x", last=None, in_doubt=0)
    assert feed(line, message(place(5, 11)), again, daemons(5))
    assert line.complete_after is None
    assert times(line) == []
    assert line.me == BOB


def test_too_many_events_are_dropped_and_the_line_is_complete_behind_them() -> None:
    line = LiveLine(ME, ("g",), None, stable=True, queue_bytes=4 * (EVENT_BYTES + 1))
    feed(line, daemons(5), joined(place(5, 10)))
    assert not feed(line, message(place(5, 11)), message(place(5, 12)), message(place(5, 13)))
    feed(line, mark(place(5, 12)))
    assert times(line) == [(5, 10), (5, 11), (5, 12)]
    assert not feed(line, *(message(place(5, time)) for time in (14, 15, 16)))
    assert feed(line, message(place(5, 17)))
    assert line.complete_after == place(5, 17)
    feed(line, message(place(5, 18)), mark(place(5, 19)))
    assert times(line) == [(5, 18)]


def test_messages_without_a_place_keep_to_those_before_them() -> None:
    line = begun(stable=True)
    feed(line, message(place(5, 11)), message(place(5, 12), FIFO), mark(place(5, 15)))
    given = [event for queued in line.pop() for event in queued.events]
    assert [event.level for event in given if isinstance(event, Message)] == [AGREED, FIFO]


def test_events_that_were_read_are_skipped() -> None:
    line = begun()
    feed(line, *(message(place(5, time)) for time in (11, 12, 13)))
    line.drop_upto(place(5, 12))
    assert times(line) == [(5, 13)]


def bundle(time: int, count: int, level: ServiceLevel = AGREED) -> list[Message]:
    """Return the messages of one bundle."""
    first = message(place(5, time), level)
    return [structs.replace(first, number=at, index=at) for at in range(count)]


@pytest.mark.parametrize("seed", range(50))
def test_messages_of_a_bundle_are_handled_together_as_one_by_one(seed: int) -> None:
    """Whatever is dropped, proven and given meanwhile."""
    rng = Random(seed)
    together, singly = begun(stable=True), begun(stable=True)
    lines = together, singly
    time = 10
    for _ in range(40):
        time += 1
        match rng.randrange(4):
            case 0:
                for line in lines:
                    feed(line, mark(place(5, time)))
            case 1:
                passed = Position(place(5, 0).view, time - rng.randrange(4), 0, 0, rng.randrange(5))
                for line in lines:
                    line.drop_upto(passed)
            case _:
                level = rng.choice((AGREED, AGREED, FIFO))
                messages = bundle(time, rng.randrange(1, 6), level)
                together.handle_run(messages)
                feed(singly, *messages)
        assert together._bytes == singly._bytes
        assert together._latest == singly._latest
        if not rng.randrange(3):
            given = [[each for q in line.pop() for each in q.events] for line in lines]
            assert given[0] == given[1]


def test_a_proof_inside_of_a_bundle_lets_go_what_is_before_it() -> None:
    line = begun(stable=True)
    messages = bundle(11, 4)
    line.handle_run(messages)
    line._prove(place_of(messages[1]) or place(5, 0))
    assert [each for queued in line.pop() for each in queued.events][-2:] == messages[:2]
    line._prove(place(5, 12))
    assert [list(queued.events) for queued in line.pop()] == [messages[2:]]
    assert line._bytes == 0


def test_runs_are_bundles_and_keep_the_order() -> None:
    view = joined(place(5, 13))
    unreliable = structs.replace(message(place(5, 15)), bundle=None)
    parts: list[list[Any]] = [
        bundle(11, 3),
        bundle(12, 1),
        [view],
        bundle(14, 2),
        [unreliable],
        [unreliable],
    ]
    assert list(runs_of([event for part in parts for event in part])) == parts
