"""The cursors of archives: what is held, when it is answered, and how archives come together."""

from typing import Any

import msgspec
import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_archive import cursors
from groupcomm_archive.cursors import ArchivedCursors, StoreCursors
from groupcomm_client.history.cursors import (
    CursorAnswer,
    CursorEntry,
    CursorExchange,
    CursorList,
    FindCursor,
    ListCursors,
    PutCursor,
)
from groupcomm_client.history.frames import ARCHIVES, Frame, decode_untrusted, encode
from groupcomm_client.history.subscriber import Send

VIEW = ViewId(3, "a", 1)
ANN, BOB = MemberId("#ann#a", 1), MemberId("#bob#b", 1)
PROGRAM = MemberId("#p#a", 7)
ORDERS = ("orders",)
LATE = Position(VIEW, 1_000_000, 0, 0, 0)


def at(time: int) -> Position:
    return Position(VIEW, time, 0, 0, 0)


def entry(time: int | None, *, generation: int = 0, groups: tuple[str, ...] = ORDERS) -> Any:
    return CursorEntry("c", groups, generation, None if time is None else at(time), PROGRAM.name)


def view(
    time: int,
    members: tuple[MemberId, ...],
    together: tuple[MemberId, ...],
    cause: Cause = Cause.JOIN,
) -> GroupView:
    return GroupView(
        group=ARCHIVES,
        id=at(time),
        members=members,
        cause=cause,
        changed=(),
        vs_set=together,
        own=False,
    )


def message(frame: Frame, sender: MemberId = PROGRAM, place: Position = LATE) -> Message:
    return Message(sender, 1, (ARCHIVES,), ServiceLevel.SAFE, 0, encode(frame), place)


def sent(archive: ArchivedCursors, *, is_stored: bool = True) -> list[tuple[str, Any]]:
    """What it sends, to whom; what it writes is on the disk at once."""
    found = []
    while actions := archive.pop_actions():
        for action in actions:
            if isinstance(action, Send):
                found.append((action.to, decode_untrusted(action.data)))
            elif is_stored:
                archive.stored()
    return found


def alone(*entries: CursorEntry) -> ArchivedCursors:
    archive = ArchivedCursors(ANN, entries)
    archive.handle(view(1, (ANN,), (ANN,)))
    sent(archive)
    return archive


def test_an_acknowledgement_is_answered_once_it_is_on_the_disk() -> None:
    archive = alone()
    archive.handle(message(PutCursor(5, entry(10))))
    assert archive.pop_actions() == [StoreCursors((entry(10),))]
    archive.stored()
    (answer,) = sent(archive)
    assert answer == (PROGRAM.name, CursorAnswer(5, (ANN,), entry(10)))


def test_acknowledgements_that_come_while_the_disk_writes_are_written_together() -> None:
    archive = alone()
    for time in (10, 11, 12):
        archive.handle(message(PutCursor(time, entry(time))))
    (write,) = archive.pop_actions()
    assert write == StoreCursors((entry(10),))
    archive.stored()
    answer, write = archive.pop_actions()
    assert isinstance(answer, Send)
    assert write == StoreCursors((entry(12),))
    archive.stored()
    assert [frame.number for _, frame in sent(archive)] == [11, 12]


def test_a_cursor_only_goes_forward() -> None:
    archive = alone(entry(20))
    archive.handle(message(PutCursor(1, entry(10))))
    assert archive.entries["c"].position == at(20)
    archive.handle(message(PutCursor(1, entry(10, generation=1))))
    assert archive.entries["c"].position == at(10), "it was moved by hand"
    archive.handle(message(PutCursor(1, entry(30))))
    assert archive.entries["c"].position == at(10), "a program that does not know of that"


def test_a_removed_cursor_does_not_come_back_by_an_old_acknowledgement() -> None:
    archive = alone(entry(20))
    archive.handle(message(PutCursor(1, entry(None, generation=1))))
    archive.handle(message(PutCursor(1, entry(30))))
    assert archive.entries["c"].position is None
    archive.handle(message(PutCursor(1, entry(5, generation=1, groups=("other",)))))
    assert archive.entries["c"].position == at(5), "it was made anew"


def test_other_groups_are_refused() -> None:
    archive = alone(entry(20))
    archive.handle(message(PutCursor(1, entry(30, groups=("trades",)))))
    archive.handle(message(FindCursor(1, "c", ("trades",))))
    for _, answer in sent(archive):
        assert answer.refusal.startswith("cursor c belongs to orders, not trades")
        assert "groupcomm history cursors remove" in answer.refusal
    assert archive.entries["c"] == entry(20)


def test_too_many_cursors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursors, "MOST_CURSORS", 1)
    monkeypatch.setattr(cursors, "MOST_REMOVED", 1)
    archive = alone(entry(20))
    second = msgspec.structs.replace(entry(10), name="d")
    archive.handle(message(PutCursor(1, second)))
    assert "no more are kept" in sent(archive)[0][1].refusal
    archive.handle(message(PutCursor(1, entry(None, generation=1))))
    archive.handle(message(PutCursor(1, second)))
    assert not sent(archive)[-1][1].refusal
    assert archive.entries.keys() == {"c", "d"}
    removed = msgspec.structs.replace(entry(None, generation=1), name="d")
    archive.handle(message(PutCursor(1, removed)))
    assert archive.entries.keys() == {"d"}, "the oldest removals are forgotten"


def test_one_that_was_away_answers_only_once_it_has_what_the_others_have() -> None:
    archive = ArchivedCursors(BOB, [entry(5)])
    archive.handle(view(2, (ANN, BOB), (BOB,)))
    mine = CursorExchange(at(2), (BOB,), (entry(5),))
    assert sent(archive) == [(ARCHIVES, mine)]
    archive.handle(message(FindCursor(1, "c", ORDERS)))
    archive.handle(message(PutCursor(2, entry(8))))
    archive.handle(message(mine, BOB))
    assert sent(archive) == []
    assert not archive.is_current
    archive.handle(message(CursorExchange(at(2), (ANN,), (entry(9),)), ANN))
    found, put = sent(archive)
    assert found == (PROGRAM.name, CursorAnswer(1, (ANN, BOB), entry(9)))
    assert put == (PROGRAM.name, CursorAnswer(2, (ANN, BOB), entry(9)))


def test_those_that_stayed_together_send_once() -> None:
    cara = MemberId("#cara#c", 1)
    first, second = alone(), ArchivedCursors(BOB)
    for archive in (first, second):
        archive.handle(view(2, (ANN, BOB), (ANN,) if archive is first else (BOB,)))
    for frame, sender in ((f, s) for a, s in ((first, ANN), (second, BOB)) for _, f in sent(a)):
        for archive in (first, second):
            archive.handle(message(frame, sender))
    assert first.is_current
    assert second.is_current
    for archive in (first, second):
        archive.handle(view(3, (ANN, BOB, cara), (ANN, BOB)))
    assert sent(first) == [(ARCHIVES, CursorExchange(at(3), (ANN, BOB), ()))]
    assert sent(second) == []


def test_a_view_that_comes_during_an_exchange_begins_it_anew() -> None:
    """A request that waited is forgotten, as an archive that has come since does not have it."""
    archive = alone()
    archive.handle(view(2, (ANN, BOB), (ANN,)))
    archive.handle(message(PutCursor(1, entry(8))))
    cara = MemberId("#cara#c", 1)
    archive.handle(view(3, (ANN, BOB, cara), (ANN, BOB)))
    archive.handle(message(CursorExchange(at(2), (BOB,), (entry(3),)), BOB))
    assert not archive.is_current, "that was about the view before"
    archive.handle(message(CursorExchange(at(3), (BOB,), ()), BOB))
    archive.handle(message(CursorExchange(at(3), (cara,), ()), cara))
    archive.handle(message(CursorExchange(at(3), (ANN,), ()), ANN))
    assert archive.is_current
    assert archive.entries["c"] == entry(3)


def test_one_that_is_lost_during_an_exchange_is_not_waited_for() -> None:
    archive = alone()
    archive.handle(view(2, (ANN, BOB), (ANN,)))
    archive.handle(message(FindCursor(1, "c", ORDERS)))
    sent(archive)
    archive.handle(view(3, (ANN,), (ANN,), Cause.DISCONNECT))
    assert sent(archive) == [(PROGRAM.name, CursorAnswer(1, (ANN,), None))]


def test_one_that_has_not_got_what_a_part_holds_does_not_belong_to_it() -> None:
    """Seed 202 of the cursors: who was to send it left; the others waited for each other."""
    cara = MemberId("#cara#c", 1)
    archive = ArchivedCursors(cara, [entry(5)])
    archive.handle(view(2, (ANN, cara), (cara,)))
    for member in (ANN, cara):
        archive.handle(message(CursorExchange(at(2), (member,), ()), member))
    assert archive.is_current
    archive.handle(view(3, (ANN, cara, BOB), (ANN, cara)))
    archive.handle(message(CursorExchange(at(3), (BOB,), ()), BOB))
    sent(archive)
    assert not archive.is_current
    archive.handle(view(4, (BOB, cara), (BOB, cara), Cause.DISCONNECT))
    assert sent(archive) == [(ARCHIVES, CursorExchange(at(4), (cara,), (entry(5),)))]


def test_an_exchange_of_a_stranger_counts_nothing() -> None:
    archive = alone()
    archive.handle(view(2, (ANN, BOB), (ANN,)))
    archive.handle(message(CursorExchange(at(2), (BOB,), (entry(3),)), PROGRAM))
    assert not archive.is_current
    assert not archive.entries


def test_without_a_majority_nothing_is_answered() -> None:
    archive = alone()
    lost = DaemonView(id=VIEW, daemons=("a",), majority=False)
    archive.handle(lost)
    archive.handle(message(PutCursor(1, entry(3))))
    assert sent(archive) == []
    assert not archive.entries
    archive.handle(DaemonView(id=VIEW, daemons=("a", "b"), majority=True))
    archive.handle(message(PutCursor(1, entry(3))))
    assert sent(archive)
    assert sent(ArchivedCursors(ANN, (), lost)) == []


def test_a_list_has_all_of_them() -> None:
    archive = alone(entry(3))
    archive.handle(message(ListCursors(4)))
    assert sent(archive) == [(PROGRAM.name, CursorList(4, (ANN,), (entry(3),)))]


def test_entries_of_an_earlier_session_are_on_the_disk_before_an_answer() -> None:
    """The session may have ended before they were written."""
    archive = ArchivedCursors(ANN, [entry(3)])
    archive.handle(view(1, (ANN,), (ANN,)))
    archive.handle(message(FindCursor(1, "c", ORDERS)))
    assert sent(archive, is_stored=False) == []
    archive.stored()
    assert len(sent(archive)) == 1
