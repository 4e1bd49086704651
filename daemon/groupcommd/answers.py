"""Answers: what programs ask this daemon about itself is put together now and then, and told all.

A session has one question at a time (groupcomm/session/outbox.py). Equal ones of one turn have one
answer, and all of them together may have a small share of the daemon's time: who asks waits, nobody
else does.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from typing import Final

from groupcomm.engine import QuestionAnswered

SHARE: Final = 0.1
"""Of the time, for putting answers together."""

TURN_S: Final = 0.001
"""Of one turn, for the same; one answer is put together whatever it takes."""

COMMANDS: Final = "keys "
"""What begins so does something, and does it each time."""

Answer = Callable[[str, str], bytes]
"""Answers a question of a principal."""


class Answers:
    """Questions that wait.

    Args:
        answer: puts an answer together.
        principal_of: says whose a connection is; None if it has ended.
        clock: seconds, to measure what answers take.

    Attributes:
        due: when the next answer may be put together; inf if nobody waits.
    """

    def __init__(
        self,
        answer: Answer,
        principal_of: Callable[[int], str | None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._answer = answer
        self._principal_of = principal_of
        self._clock = clock
        self._waiting: deque[tuple[int, str]] = deque()
        self._free_at = 0.0  # so much time have answers taken already
        self.due = inf

    def ask(self, questions: Iterable[tuple[int, str]], now: float) -> None:
        """Queue questions of connections."""
        self._waiting += questions
        self.due = max(now, self._free_at)

    def answer(self, now: float) -> list[QuestionAnswered]:
        """Answer the oldest questions, as far as this turn may."""
        began = self._clock()
        told: dict[tuple[str, str], bytes] = {}
        found: list[QuestionAnswered] = []
        while self._waiting and self._clock() - began <= TURN_S:
            connection, question = self._waiting.popleft()
            principal = self._principal_of(connection)
            if principal is not None:
                asked = question, principal
                if asked not in told or question.startswith(COMMANDS):
                    told[asked] = self._answer(*asked)
                found.append(QuestionAnswered(connection, told[asked]))
        self._free_at = now + (self._clock() - began) / SHARE
        self.due = self._free_at if self._waiting else inf
        return found
