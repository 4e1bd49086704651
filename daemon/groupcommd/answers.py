"""Answers: what programs ask this daemon about itself is put together now and then, and told all.

A session has one question at a time (groupcomm/session/replies.py). Equal ones of one turn have one
answer, and all of them together may have a small share of the daemon's time: who asks waits, nobody
else does.
"""

import time
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final

from groupcomm.core.desk import Desk

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
        desk: has the sessions.
        answer: puts an answer together.
        clock: seconds, to measure what that takes.

    Attributes:
        due: when the next answer may be put together; inf if nobody waits.
    """

    def __init__(
        self, desk: Desk, answer: Answer, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._desk = desk
        self._answer = answer
        self._clock = clock
        self._waiting: deque[tuple[int, str]] = deque()
        self._free_at = 0.0  # so much time have answers taken already
        self.due = inf

    def serve(self, now: float) -> None:
        """Answer what was asked, as far as this turn may."""
        desk = self._desk
        if desk.queries:
            self._waiting += desk.queries
            desk.queries.clear()
        if self._waiting and now >= self._free_at:
            self._free_at = now + self._serve() / SHARE
        self.due = self._free_at if self._waiting else inf

    def _serve(self) -> float:
        """Answer the oldest questions; the seconds that took."""
        desk, began = self._desk, self._clock()
        told: dict[tuple[str, str], bytes] = {}
        while self._waiting and self._clock() - began <= TURN_S:
            connection, question = self._waiting.popleft()
            if connection in desk.sessions:
                asked = question, desk.principal_of(connection)
                if asked not in told or question.startswith(COMMANDS):
                    told[asked] = self._answer(*asked)
                desk.answer(connection, told[asked])
        return self._clock() - began
