"""A program's side of a cursor: it finds it, and keeps one acknowledgement in flight."""

from typing import Any

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import LocalProtocolError
from groupcomm.events import MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_client.events import Reconnected
from groupcomm_client.history import EARLIEST, Cursor
from groupcomm_client.history.cursor_client import (
    RETRY_S,
    SILENT_S,
    CursorClient,
    CursorState,
)
from groupcomm_client.history.cursors import CursorAnswer, CursorEntry, FindCursor, PutCursor
from groupcomm_client.history.frames import ARCHIVES, decode_untrusted, encode

VIEW = ViewId(3, "a", 1)
ME = MemberId("#me#a", 3)
ANN, BOB = MemberId("#ann#a", 1), MemberId("#bob#b", 1)
BOTH = (ANN, BOB)


def at(time: int) -> Position:
    return Position(VIEW, time, 0, 0, 0)


def entry(time: int | None, generation: int = 0) -> CursorEntry:
    return CursorEntry("c", ("g",), generation, None if time is None else at(time))


class Played:
    """A client, and what it sends."""

    def __init__(self) -> None:
        self.client = CursorClient(ME, "c", ("g",), 9, now=0.0)
        self.client.wake(0.0)

    def answer(
        self,
        archive: MemberId,
        found: CursorEntry | None,
        now: float = 0.0,
        archives: tuple[MemberId, ...] = BOTH,
        **options: Any,
    ) -> None:
        frame = CursorAnswer(options.pop("number", 9), archives, found, **options)
        to = (self.client._me.name,)
        self.client.handle(Message(archive, 1, to, ServiceLevel.FIFO, 0, encode(frame), at(0)), now)

    def sent(self) -> list[Any]:
        actions = self.client.pop_actions()
        assert {action.to for action in actions} <= {ARCHIVES}
        return [decode_untrusted(action.data) for action in actions]

    def found(self, time: int | None) -> "Played":
        for archive in BOTH:
            self.answer(archive, None if time is None else entry(time))
        assert self.client.state is CursorState.FOUND
        self.sent()
        return self


def test_the_highest_of_all_archives_counts() -> None:
    played = Played()
    assert played.sent() == [FindCursor(9, "c", ("g",))]
    played.answer(ANN, entry(3))
    assert played.client.position is None
    played.answer(BOB, entry(7))
    assert played.client.state is CursorState.FOUND
    assert played.client.position == at(7)


def test_answers_to_others_count_nothing() -> None:
    played = Played()
    played.answer(ANN, entry(3), archives=(ANN,), number=8)
    assert played.client.state is CursorState.FINDING


def test_one_acknowledgement_is_in_flight_and_the_latest_is_next() -> None:
    played = Played().found(None)
    for time in (1, 2, 3):
        played.client.acknowledge(at(time), 0.0)
    assert played.sent() == [PutCursor(9, entry(1))]
    played.answer(ANN, entry(1))
    assert not played.client.has_acknowledged(at(1))
    played.answer(BOB, entry(1))
    assert played.client.has_acknowledged(at(1))
    assert played.sent() == [PutCursor(9, entry(3))]
    for archive in BOTH:
        played.answer(archive, entry(5))
    assert played.client.has_acknowledged(at(3)), "another program is further"
    assert played.sent() == []
    assert played.client.deadline is None


def test_an_acknowledgement_of_an_earlier_place_sends_nothing() -> None:
    played = Played().found(7)
    played.client.acknowledge(at(6), 0.0)
    assert played.sent() == []
    assert played.client.has_acknowledged(at(6))


def test_a_request_is_repeated_ever_more_rarely_until_an_archive_answers() -> None:
    played = Played()
    times: list[float] = []
    while len(times) < 6:
        now = played.client.deadline
        assert now is not None
        played.client.wake(now)
        times.append(now)
    assert times == [RETRY_S * each for each in (1, 3, 7, 15, 31, 47)]
    assert played.client.alone_since == 0.0
    played.answer(ANN, None, times[-1])
    assert played.client.alone_since is None
    played.client.wake(times[-1] + SILENT_S - 0.1)
    assert played.client.state is CursorState.FINDING, "the other one may answer, too"
    played.client.wake(times[-1] + SILENT_S)
    assert played.client.state is CursorState.FOUND


def test_an_archive_that_is_silent_is_waited_for_once() -> None:
    played = Played().found(None)
    played.client.acknowledge(at(1), 0.0)
    played.answer(ANN, entry(1), 0.1)
    played.client.wake(SILENT_S)
    assert not played.client.has_acknowledged(at(1))
    played.client.wake(SILENT_S + 0.1)
    assert played.client.has_acknowledged(at(1))
    played.client.acknowledge(at(2), SILENT_S)
    played.answer(ANN, entry(2), SILENT_S)
    assert played.client.has_acknowledged(at(2)), "not again"
    played.answer(BOB, entry(2), SILENT_S)
    played.client.acknowledge(at(3), SILENT_S)
    played.answer(ANN, entry(3), SILENT_S)
    assert not played.client.has_acknowledged(at(3)), "it has answered"


def test_a_lost_archive_is_not_in_the_answer_to_the_next_request() -> None:
    played = Played().found(None)
    played.client.acknowledge(at(1), 0.0)
    played.answer(ANN, entry(1))
    played.client.wake(RETRY_S)
    assert played.sent() == [PutCursor(9, entry(1))] * 2
    played.answer(ANN, entry(1), RETRY_S, (ANN,))
    assert played.client.has_acknowledged(at(1))


def test_a_cursor_that_somebody_has_moved_is_lost_to_this_program() -> None:
    played = Played().found(5)
    played.client.acknowledge(at(6), 0.0)
    played.answer(ANN, entry(2, generation=1))
    assert played.client.state is CursorState.REFUSED
    assert "moved or removed" in played.client.refusal
    assert "subscribe again" in played.client.refusal
    played.answer(ANN, entry(6))
    played.client.acknowledge(at(7), 0.0)
    assert len(played.sent()) == 1
    assert played.client.deadline is None


def test_a_removed_cursor_is_made_anew() -> None:
    played = Played()
    for archive in BOTH:
        played.answer(archive, entry(None, generation=4))
    assert played.client.position is None
    played.client.acknowledge(at(1), 0.0)
    assert played.sent()[-1] == PutCursor(9, entry(1, generation=4))


def test_a_refusal_says_why() -> None:
    played = Played()
    played.answer(ANN, None, refusal="it belongs to others")
    assert played.client.state is CursorState.REFUSED
    assert played.client.refusal == "it belongs to others"


def test_the_next_session_asks_again() -> None:
    played = Played().found(None)
    played.client.acknowledge(at(1), 0.0)
    new = MemberId("#me#b", 5)
    played.client.handle(Reconnected(member=new, why="x", last=None, in_doubt=0), 0.1)
    played.client.wake(0.1)
    assert played.sent() == [PutCursor(9, entry(1))] * 2
    for archive in BOTH:
        played.answer(archive, entry(1), 0.1)
    assert played.client.has_acknowledged(at(1))


def test_a_cursor_has_a_name_and_begins_with_the_first_event() -> None:
    assert Cursor("bills").first is EARLIEST
    with pytest.raises(LocalProtocolError, match="cursor name"):
        Cursor("")
