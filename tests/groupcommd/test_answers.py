"""Answers are made once a turn, and in a small share of the time."""

from groupcomm.engine import ClientBytes, ClientGone
from groupcomm.events import Answer
from groupcomm.session.frames import encode_query
from groupcommd.operators.status import TURN_S, QuestionQueue
from tests.groupcomm.engine.clients import Clients

MOST_SHARE = 0.1


class Asked:
    """A daemon alone, and programs that ask.

    Attributes:
        made: the questions for which an answer was put together, with whose they were.
        takes_s: the time to make one.
    """

    def __init__(self, takes_s: float = 0.0) -> None:
        self.clients = Clients()
        self.made: list[tuple[str, str]] = []
        self.takes_s = takes_s
        self.now = 0.0
        self._principals: dict[int, str] = {}
        self.answers = QuestionQueue(self._answer, self._principals.get, lambda: self.now)

    def _answer(self, question: str, principal: str) -> bytes:
        self.now += self.takes_s
        self.made.append((question, principal))
        return f"{question} for {principal}".encode()

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
