"""Answers to questions of programs, made in pieces.

There may be thousands of programs and a hundred thousand groups, so an answer is made some rows at
a time, and between its pieces the daemon does its work. All answers together may take a small share
of its time: programs that ask wait, and no other program does.
"""

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from math import inf
from typing import Any, Final, TypeAlias, TypeVar

from groupcomm.engine import QuestionAnswered

PIECE_ROWS: Final = 100
"""The rows of a piece: half a millisecond with the longest ones."""

PIECES: Final = 2
"""The pieces that are made at a time; if there are fewer, the answer is whole."""

SHARE: Final = 0.1
"""The share of the time that answers may take."""

TURN_S: Final = 0.001
"""The time that answers of one turn may take; some pieces are made however long they take."""

COMMANDS: Final = ("keys ", "daemons ", "drain ")
"""Questions that begin with these are commands, and are carried out each time."""

Table: TypeAlias = tuple[str, Iterable[Collection[Any]]]
"""The brackets of a long list or object of JSON, and its parts: lists or objects with some rows."""

AnswerFunction = Callable[[str, str], Iterator[bytes]]
"""Returns the pieces of the answer to a question of a principal."""

_T = TypeVar("_T")


def encode(found: object) -> bytes:
    """Return the JSON of plain values."""
    return json.dumps(found, ensure_ascii=False).encode()


def in_pieces(rows: Iterable[_T], size: int = PIECE_ROWS) -> Iterator[list[_T]]:
    """Yield `size` of the rows at a time."""
    left = iter(rows)
    while piece := list(islice(left, size)):
        yield piece


def encode_in_pieces(found: Mapping[str, Any], tables: Mapping[str, Table]) -> Iterator[bytes]:
    """Yield the JSON of an object with these values, then with long lists and objects.

    Args:
        found: short values.
        tables: the long ones, by name; the parts of each are made when their turn comes.
    """
    yield encode(found)[:-1]
    comma = b", " if found else b""
    for name, (brackets, parts) in tables.items():
        before = comma + encode(name) + b": " + brackets[:1].encode()
        for part in parts:
            if inner := encode(part)[1:-1]:
                yield before + inner
                before = comma = b", "
        yield (b"" if before == b", " else before) + brackets[1:].encode()
        comma = b", "
    yield b"}"


class QuestionQueue:
    """A queue of questions.

    A session has one question at a time (groupcomm/session/outbox.py). Equal questions of a
    principal that wait when their answer begins get the same one.

    Args:
        answer: returns the pieces of the answer to a question.
        principal_of: returns the principal of a connection; None if it has ended.
        clock: seconds, to measure the time that answers take.

    Attributes:
        due: the time at which the next piece may be made; inf if no question waits.
    """

    def __init__(
        self,
        answer: AnswerFunction,
        principal_of: Callable[[int], str | None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._answer = answer
        self._principal_of = principal_of
        self._clock = clock
        # By question, principal, and for commands the connection: who asks.
        self._waiting: dict[tuple[str, str, int], list[int]] = {}
        self._begun: tuple[list[int], Iterator[bytes], list[bytes]] | None = None  # who, rest, made
        self._free_at = 0.0  # earlier answers have used the time until then
        self.due = inf

    def ask(self, questions: Iterable[tuple[int, str]], now: float) -> None:
        """Queue questions of connections."""
        for connection, question in questions:
            only = connection if question.startswith(COMMANDS) else 0
            key = question, self._principal_of(connection) or "", only
            self._waiting.setdefault(key, []).append(connection)
        self.due = max(now, self._free_at)

    def answer(self, now: float) -> list[QuestionAnswered]:
        """Go on with the oldest questions, as far as the time of this turn allows."""
        began = self._clock()
        found: list[QuestionAnswered] = []
        while (self._begun or self._begin()) and self._clock() - began <= TURN_S:
            assert self._begun is not None
            askers, rest, made = self._begun
            some = list(islice(rest, PIECES))
            made += some
            if len(some) < PIECES:
                whole, self._begun = b"".join(made), None
                found += [QuestionAnswered(each, whole) for each in self._left(askers)]
        self._free_at = now + (self._clock() - began) / SHARE
        self.due = self._free_at if self._begun or self._waiting else inf
        return found

    def _begin(self) -> bool:
        """Begin with the oldest question that somebody waits for; return whether there is one."""
        while self._waiting:
            key = next(iter(self._waiting))
            askers = self._left(self._waiting.pop(key))
            if askers:
                question, principal, _ = key
                self._begun = askers, self._answer(question, principal), []
                return True
        return False

    def _left(self, askers: Iterable[int]) -> list[int]:
        return [each for each in askers if self._principal_of(each) is not None]
