"""What a connection that resumes passes on, what it holds, and what it fetches."""

from typing import Any

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import (
    Cause,
    DaemonView,
    GroupView,
    MemberId,
    Message,
    Transition,
    Undeliverable,
)
from groupcomm.level import ServiceLevel
from groupcomm_client.events import Reconnected
from groupcomm_client.history.frames import (
    ARCHIVES,
    Find,
    Interval,
    More,
    Offer,
    Read,
    decode_untrusted,
    encode,
)
from groupcomm_client.history.given import CaughtUp, Gap
from groupcomm_client.history.resumption import ALONE_S, NUMBER_BITS, Resumption
from tests.groupcomm_client.history.pieces import piece_of

ME, BOB, NEXT = MemberId("#me#a", 1), MemberId("#bob#b", 2), MemberId("#me#b", 3)
ARCHIVE = MemberId("#archive#b", 1)
AGREED, FIFO = ServiceLevel.AGREED, ServiceLevel.FIFO


def at(time: int, counter: int = 5) -> Position:
    return Position(ViewId(counter, "a", 7), time, 0, 0, 0)


def daemons(counter: int, majority: bool | None = True) -> DaemonView:
    return DaemonView(id=at(0, counter).view, daemons=("a", "b"), majority=majority)


def message(
    place: Position, *groups: str, level: ServiceLevel = AGREED, data: bytes = b"x"
) -> Message:
    return Message(BOB, place.time, groups or ("g",), level, 0, data, place)


def view(place: Position, group: str = "g", me: MemberId = ME, cause: Cause = Cause.JOIN) -> Any:
    members = (BOB, me) if cause is Cause.JOIN else (BOB,)
    return GroupView(
        group=group, id=place, members=members, cause=cause, changed=(me,), vs_set=(), own=True
    )


FIRST = 1 << NUMBER_BITS
RECONNECTED = Reconnected(member=NEXT, why="x", last=None, in_doubt=0)


class Resumed:
    """A resumption; what it gives and sends."""

    def __init__(self, groups: Any = None) -> None:
        self.resumption = Resumption(ME, groups, daemons(5))
        self.joined = ["g", "h"]
        self.now = 0.0

    def give(self, *events: Any) -> list[Any]:
        self.resumption.handle_all(events, self.joined, self.now)
        return self.given()

    def given(self) -> list[Any]:
        found = list(self.resumption.given)
        self.resumption.given.clear()
        self.resumption.taken(self.now)
        return found

    def sent(self) -> list[Any]:
        found = []
        while (action := self.resumption.next_action()) is not None:
            found.append(decode_untrusted(action.data))
            self.resumption.sent(action)
        return found

    def wake(self) -> list[Any]:
        assert self.resumption.deadline is not None
        self.now = self.resumption.deadline
        self.resumption.wake(self.now)
        return self.sent()

    def from_archive(self, frame: Any, to: MemberId = NEXT) -> list[Any]:
        data = encode(frame)
        return self.give(Message(ARCHIVE, 1, (to.name,), FIFO, 0, data, at(1, 6)))

    def offer(self, number: int, *intervals: Interval) -> list[Any]:
        long_ms = 3_600_000  # archives that are away are not waited for any more
        return self.from_archive(Offer(number, True, intervals, None, long_ms))


def begun() -> Resumed:
    resumed = Resumed()
    assert resumed.give(view(at(10))) == [view(at(10))]
    assert resumed.give(message(at(20))) == [message(at(20))]
    return resumed


def test_without_groups_everything_is_passed_on() -> None:
    resumed = Resumed()
    events = [daemons(5), message(at(1)), message(at(2), ME.name), Transition(daemons(5).id, ())]
    assert resumed.give(*events) == events
    assert resumed.resumption.deadline is None


def test_what_was_missed_comes_behind_reconnected_in_order_and_once() -> None:
    resumed = begun()
    assert resumed.give(RECONNECTED) == [RECONNECTED]
    assert resumed.wake() == [Find(FIRST + 1, ("g",))]
    live = [daemons(5), view(at(40), me=NEXT), message(at(50))]
    assert resumed.give(*live) == []
    resumed.offer(FIRST + 1, (at(0), at(60)))
    (read,) = resumed.sent()
    assert (read.groups, read.after) == (("g",), at(20))
    missed = [message(at(20)), message(at(30))]
    own = view(at(40), me=NEXT)
    piece = piece_of([*missed[1:], own], read.number, 0, at(20), at(45))
    given = resumed.from_archive(piece)
    assert [type(each) for each in given] == [Message, GroupView, CaughtUp, Message]
    assert [each for each in given if isinstance(each, Message)] == [missed[1], message(at(50))]
    assert resumed.give(message(at(60))) == [message(at(60))]


def test_other_events_do_not_wait_for_what_is_fetched() -> None:
    resumed = begun()
    resumed.give(RECONNECTED)
    others = [
        message(at(50), "elsewhere"),
        message(at(51), NEXT.name),
        message(at(52), level=FIFO),
        Transition(daemons(5).id, ()),
        daemons(6, majority=False),
    ]
    assert resumed.give(*others) == others


def test_private_messages_that_only_look_like_those_of_archives_are_given() -> None:
    resumed = begun()
    junk = message(at(50), ME.name, data=encode(More(1, 1)) + b"?")
    assert resumed.give(junk) == [junk]


def test_an_archive_that_is_gone_is_no_event() -> None:
    resumed = begun()
    resumed.give(RECONNECTED)
    resumed.wake()
    resumed.offer(FIRST + 1, (at(0), at(60)))
    assert isinstance(resumed.sent()[0], Read)
    lost = Undeliverable(number=2, target=ARCHIVE.name, position=at(60))
    other = Undeliverable(number=2, target="#bob#b", position=at(60))
    assert resumed.give(lost, other) == [other]
    assert resumed.wake() == [Find(FIRST + 3, ("g",))]


def test_what_retention_has_removed_is_a_gap_with_its_bounds() -> None:
    resumed = begun()
    resumed.give(RECONNECTED, daemons(5), view(at(40), me=NEXT))
    resumed.wake()
    resumed.offer(FIRST + 1, (at(30), at(60)))
    resumed.wake()
    assert resumed.given() == [Gap(after=at(20), upto=at(30))]


def test_without_an_archive_live_events_follow_behind_a_gap() -> None:
    resumed = begun()
    own = view(at(40), me=NEXT)
    resumed.give(RECONNECTED, daemons(5), own, message(at(50)))
    found: list[Any] = []
    while not found:
        assert resumed.now < ALONE_S + 1
        resumed.wake()
        found = resumed.given()
    assert resumed.now == ALONE_S
    gap, caught_up, *rest = found
    assert isinstance(gap, Gap)
    assert gap.after == at(20)
    assert isinstance(caught_up, CaughtUp)
    assert rest == [own, message(at(50))]


def test_another_group_is_followed_from_its_join_on() -> None:
    resumed = begun()
    later = view(at(25), "h")
    assert resumed.give(later, message(at(26), "h")) == [later, message(at(26), "h")]
    resumed.give(RECONNECTED)
    assert resumed.wake() == [Find(FIRST + 1, ("g", "h"))]


def test_a_group_that_is_joined_while_others_catch_up_has_no_past() -> None:
    resumed = begun()
    resumed.give(RECONNECTED, daemons(5), view(at(40), me=NEXT))
    resumed.wake()
    resumed.give(view(at(45), "h", NEXT))
    assert resumed.wake() == [Find(FIRST + 2, ("g", "h"))]
    resumed.offer(FIRST + 2, (at(0), at(60)))
    (read,) = resumed.sent()
    missed = [message(at(30), "h"), message(at(31), "g"), message(at(32), "g", "h")]
    given = resumed.from_archive(piece_of(missed, read.number, 0, at(20), at(50)))
    assert [each for each in given if isinstance(each, Message)] == missed[1:]


def test_a_group_that_was_left_is_not_resumed() -> None:
    resumed = begun()
    resumed.give(view(at(25), "h"))
    left = view(at(30), "h", cause=Cause.LEAVE)
    assert resumed.give(left) == [left]
    resumed.give(RECONNECTED)
    assert resumed.wake() == [Find(FIRST + 1, ("g",))]
    resumed.give(daemons(5), view(at(40), me=NEXT), view(at(41), me=NEXT, cause=Cause.LEAVE))
    assert resumed.resumption.deadline is None


def test_a_group_that_the_next_session_may_not_join_is_not_waited_for() -> None:
    resumed = begun()
    resumed.give(view(at(25), "h"))
    resumed.joined = ["h"]
    resumed.give(RECONNECTED)
    assert resumed.wake() == [Find(FIRST + 1, ("h",))]


def test_only_chosen_groups_are_resumed() -> None:
    resumed = Resumed({"h"})
    assert len(resumed.give(view(at(10)), message(at(11)))) == 2
    assert resumed.resumption.deadline is None
    resumed.give(view(at(12), "h"))
    resumed.give(RECONNECTED)
    assert resumed.wake() == [Find(FIRST + 1, ("h",))]
    assert ARCHIVES == "groupcomm.history"


def test_what_a_majority_has_ordered_meanwhile_comes_after_a_partition() -> None:
    resumed = begun()
    minority = daemons(6, majority=False)
    assert resumed.give(Transition(at(0).view, ()), minority) == [
        *(Transition(at(0).view, ()), minority),
    ]
    assert resumed.give(message(at(5, 6))) == [], "it is not on the line"
    resumed.give(Transition(minority.id, ()), daemons(9))
    assert resumed.wake() == [Find(FIRST + 1, ("g",))]
