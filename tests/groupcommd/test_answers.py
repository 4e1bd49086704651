"""Answers are made once for who asks the same, in pieces, and in a small share of the time."""

import json
from collections.abc import Iterator

from groupcomm.engine import ClientBytes, ClientGone
from groupcomm.events import Answer
from groupcomm.session.frames import encode_query
from groupcommd.operators.answers import (
    PIECE_ROWS,
    PIECES,
    TURN_S,
    QuestionQueue,
    encode_in_pieces,
    in_pieces,
)
from tests.groupcomm.engine.clients import Clients

MOST_SHARE = 0.1


class Asked:
    """A daemon alone, and programs that ask.

    Attributes:
        made: the questions for which an answer was put together, with whose they were.
        takes_s: the time to make a piece.
        pieces: the pieces of each.
    """

    def __init__(self, takes_s: float = 0.0) -> None:
        self.clients = Clients()
        self.made: list[tuple[str, str]] = []
        self.takes_s = takes_s
        self.pieces = 1
        self.now = 0.0
        self._principals: dict[int, str] = {}
        self.answers = QuestionQueue(self._answer, self._principals.get, lambda: self.now)

    def _answer(self, question: str, principal: str) -> Iterator[bytes]:
        self.made.append((question, principal))
        for _ in range(self.pieces):
            self.now += self.takes_s
            yield f"{question} for {principal}".encode()

    def ask(self, question: str, principal: str = "unix:ann", count: int = 1) -> list[int]:
        """Return sessions that ask, one for each question."""
        numbers = []
        for _ in range(count):
            at = len(self.clients.sessions)
            numbers.append(self.clients.connect(f"u{at}", principal=principal))
        for number in numbers:
            self._principals[number] = principal
            self.clients.step(ClientBytes(number, encode_query(question)))
        return numbers

    def serve(self, now: float) -> None:
        """A turn, as of a service."""
        questions, self.clients.questions = self.clients.questions, []
        if questions:
            self.answers.ask(questions, now)
        if self.answers.due <= now:
            self.clients.step(*self.answers.answer(now))

    def go_on(self) -> None:
        """Turns until nothing is to be answered."""
        while self.answers.due < float("inf"):
            self.now = max(self.now, self.answers.due)
            self.serve(self.now)

    def end(self, number: int) -> None:
        """A session ends."""
        del self._principals[number]
        self.clients.step(ClientGone(number))

    def told(self, number: int) -> list[bytes]:
        """The answers of a session."""
        return [event.data for event in self.clients.heard(number) if isinstance(event, Answer)]


def test_equal_questions_of_a_turn_have_one_answer() -> None:
    asked = Asked()
    ann, bob = asked.ask("status", count=5), asked.ask("status", "unix:bob", count=5)
    other = asked.ask("groups")
    asked.serve(0.0)
    assert asked.made == [
        ("status", "unix:ann"),
        ("status", "unix:bob"),
        ("groups", "unix:ann"),
    ]
    assert [asked.told(number) for number in ann] == [[b"status for unix:ann"]] * 5
    assert [asked.told(number) for number in bob] == [[b"status for unix:bob"]] * 5
    assert asked.told(other[0]) == [b"groups for unix:ann"]


def test_the_next_turn_puts_together_another_one() -> None:
    asked = Asked()
    for _ in range(2):
        asked.ask("status")
        asked.serve(asked.now)
    assert len(asked.made) == 2


def test_what_does_something_is_done_each_time() -> None:
    asked = Asked()
    asked.ask("keys promote 2", count=2)
    asked.serve(0.0)
    assert len(asked.made) == 2


def test_answers_take_their_share_of_the_time_and_no_more() -> None:
    asked = Asked(takes_s=3 * TURN_S)
    for number in range(40):
        asked.ask(f"members g{number}")
    last = turns = 0.0
    while asked.answers.due <= 100.0 or not turns:
        turns += 1
        last = asked.now
        asked.serve(asked.now)
        assert len(asked.made) == turns, "one in a turn, as each takes long"
        asked.now = max(asked.now, min(asked.answers.due, 1000.0))
    assert turns == 40
    assert 39 * asked.takes_s / last <= 1.01 * MOST_SHARE


def test_short_answers_share_a_turn() -> None:
    asked = Asked(takes_s=TURN_S / 10)
    for number in range(8):
        asked.ask(f"members g{number}")
    asked.serve(0.0)
    assert len(asked.made) == 8


def test_who_has_gone_is_not_answered() -> None:
    asked = Asked()
    (number,) = asked.ask("status")
    asked.end(number)
    asked.serve(0.0)
    assert asked.made == []
    assert asked.answers.due == float("inf")


def test_a_long_answer_is_made_in_pieces_and_is_not_for_who_asks_later() -> None:
    asked = Asked(takes_s=TURN_S * 1.01)
    asked.pieces = 9
    first = asked.ask("status", count=2)
    asked.serve(0.0)
    assert asked.now == PIECES * asked.takes_s, "so much in a turn"
    (later,) = asked.ask("status")
    asked.go_on()
    assert asked.made == [("status", "unix:ann")] * 2
    assert [asked.told(each) for each in (*first, later)] == [[b"status for unix:ann" * 9]] * 3


def test_an_answer_is_finished_for_those_who_are_left() -> None:
    asked = Asked(takes_s=TURN_S * 1.01)
    asked.pieces = PIECES
    gone, left = asked.ask("status", count=2)
    asked.serve(0.0)
    asked.end(gone)
    asked.go_on()
    assert asked.told(left) == [b"status for unix:ann" * PIECES]


def test_pieces_are_one_object_of_json() -> None:
    rows = list(range(2 * PIECE_ROWS + 1))
    for count in (0, 1, PIECE_ROWS, len(rows)):
        some = rows[:count]
        as_object = ({str(n): n for n in piece if n % 2} for piece in in_pieces(some))
        tables = {"odd": ("{}", as_object), "all": ("[]", in_pieces(some)), "none": ("[]", [])}
        pieces = list(encode_in_pieces({"name": "j\u00f6rg"}, tables))
        assert json.loads(b"".join(pieces)) == {
            "name": "j\u00f6rg",
            "odd": {str(n): n for n in some if n % 2},
            "all": some,
            "none": [],
        }
        assert max(piece.count(b",") for piece in pieces) <= PIECE_ROWS
    assert b"".join(encode_in_pieces({}, {"all": ("{}", [])})) == b'{"all": {}}'
