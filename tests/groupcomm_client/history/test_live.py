"""Which live events are on the line, as docs/history.md has it."""

import pytest
from msgspec import structs

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message, Transition
from groupcomm.level import ServiceLevel
from groupcomm_client.events import Received, Reconnected
from groupcomm_client.history import live
from groupcomm_client.history.live import MARK, LiveLine

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
    return [(at.view.counter, at.time) for at, _, counts in line.pop() if counts]


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
    line = LiveLine(ME, ("g",), None, stable=True, queue_bytes=4 * (live.EVENT_BYTES + 1))
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
    assert [event.level for _, event, _ in line.pop() if isinstance(event, Message)] == [
        AGREED,
        FIFO,
    ]


def test_events_that_were_read_are_skipped() -> None:
    line = begun()
    feed(line, *(message(place(5, time)) for time in (11, 12, 13)))
    line.drop_upto(place(5, 12))
    assert times(line) == [(5, 13)]
