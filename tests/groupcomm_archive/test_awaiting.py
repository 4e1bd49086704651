"""Who waits until an archive holds a place, and the record of its folder."""

from pathlib import Path

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_archive import awaiting
from groupcomm_archive.archive import Archive
from groupcomm_archive.awaiting import Disk
from groupcomm_archive.disk_record import NAME, open_record
from groupcomm_client.history.frames import AwaitKept, Kept, decode_untrusted, encode
from groupcomm_client.history.subscriber import Send
from groupcomm_log.errors import LogError

ME, ANN, BOB = MemberId("#me#a", 1), MemberId("#ann#a", 2), MemberId("#bob#b", 3)
DISK = Disk(b"d", 3)


def place(time: int) -> Position:
    return Position(ViewId(5, "a", 7), time, 0, 0, 0)


def archive(first: int = 10, last: int = 20) -> Archive:
    return Archive(ME, ("g",), [(place(first), place(last))], disk=DISK)


def ask(
    asked: Archive, at: int, *, sender: MemberId = ANN, number: int = 1, now: float = 0
) -> None:
    question = encode(AwaitKept(number, ("g",), place(at)))
    asked.handle(Message(sender, 1, ("h",), ServiceLevel.FIFO, 0, question, None), now)


def answers(asked: Archive) -> list[tuple[str, int]]:
    found = []
    for action in asked.pop_actions():
        assert isinstance(action, Send)
        kept = decode_untrusted(action.data)
        assert isinstance(kept, Kept)
        assert (kept.disk, kept.archives) == (b"d", 3)
        found.append((action.to, kept.number))
    return found


def test_a_place_is_kept_once_everything_up_to_it_is_on_the_disk() -> None:
    asked = archive()
    ask(asked, 20)
    ask(asked, 22, number=2)
    ask(asked, 21, sender=BOB)
    assert answers(asked) == [("#ann#a", 1)]
    asked.stored(place(21), 1.0)
    assert answers(asked) == [("#bob#b", 1)]
    asked.stored(place(30), 2.0)
    assert answers(asked) == [("#ann#a", 2)]


def test_a_place_before_what_is_held_or_in_a_gap_is_never_said_to_be_kept() -> None:
    asked = archive()
    asked.begin_interval(place(40))
    for at in (10, 30, 40):
        ask(asked, at)
    asked.stored(place(50), 1.0)
    assert answers(asked) == []
    ask(asked, 41)
    assert answers(asked) == [("#ann#a", 1)]


def test_groups_that_are_not_recorded_get_no_answer() -> None:
    asked = archive()
    question = encode(AwaitKept(1, ("g", "other"), place(15)))
    asked.handle(Message(ANN, 1, ("h",), ServiceLevel.FIFO, 0, question, None), 0)
    assert answers(asked) == []


def test_a_question_that_is_repeated_waits_once() -> None:
    asked = archive()
    for _ in range(3):
        ask(asked, 21)
    asked.stored(place(21), 1.0)
    assert answers(asked) == [("#ann#a", 1)]
    ask(asked, 21)
    assert answers(asked) == [("#ann#a", 1)], "the first answer may have been lost"


def test_questions_are_bounded_in_number_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaiting, "MOST", 2)
    asked = archive()
    for number in range(3):
        ask(asked, 25, number=number)
    asked.stored(place(25), 1.0)
    assert answers(asked) == [("#ann#a", 0), ("#ann#a", 1)]
    ask(asked, 35, now=10.0)
    ask(asked, 36, now=60.0, number=2)
    asked.wake(70.0)
    ask(asked, 37, now=70.0, number=3)
    asked.stored(place(40), 71.0)
    assert answers(asked) == [("#ann#a", 2), ("#ann#a", 3)]


def test_a_folder_keeps_its_name_and_what_it_was_told(tmp_path: Path) -> None:
    first = open_record(tmp_path, None)
    assert first.archives == 0
    told = open_record(tmp_path, 3)
    assert (told.name, told.archives) == (first.name, 3)
    assert open_record(tmp_path, None) == told
    assert open_record(tmp_path, 5).archives == 5
    (tmp_path / NAME).write_text("{")
    with pytest.raises(LogError, match=r"damaged.*counts as another disk"):
        open_record(tmp_path, None)
