"""Replies: what waits for a client because of its own frames.

A client that asks, or does what it may not, and does not read what it is told would fill its
daemon's memory with answers. So a session whose client has not taken its replies is not listened
to: one answer, and some refusals, may wait.
"""

from collections import deque
from typing import Final

MOST_REPLIES: Final = 256
"""Refusals that may wait."""


class Replies:
    """Places of replies in what a session has to write: bytes since its begin, behind each.

    Attributes:
        asked: a question has come, and its answer has not been taken yet.
    """

    __slots__ = ("_answer", "_ends", "_forgotten", "asked")

    def __init__(self) -> None:
        self.asked = self._forgotten = False
        self._answer: int | None = None
        self._ends: deque[int] = deque()

    def add(self, end: int) -> None:
        """A refusal waits, up to this place."""
        self._ends.append(end)

    def answer(self, end: int) -> None:
        """The answer waits, up to this place."""
        self._answer = end

    def are_due(self, taken: int) -> bool:
        """Return whether the client has to take replies first, now that it has taken so much."""
        if self._forgotten:
            return False
        if self._answer is not None and self._answer <= taken:
            self._answer, self.asked = None, False
        ends = self._ends
        while ends and ends[0] <= taken:
            ends.popleft()
        return self.asked or len(ends) >= MOST_REPLIES

    def forget(self) -> None:
        """Nobody reads them any more: none is due from now on."""
        self._forgotten = True
