"""Contents of a sender's messages: all distinct, quick to make, and quick to check.

The messages of a sender follow each other on a ring of random bytes, whose length is a prime
number; so each begins at a different place until every place has been used. Both sides make the
same ring from a seed. One cut makes many messages, one comparison checks them, and the content of a
wrong message shows which message it is.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from struct import Struct
from typing import Final

DISTINCT: Final = 8_388_593
"""Messages of a sender until the first content is repeated; a prime number."""

DISTINCT_LARGE: Final = 65_521
"""The same count for messages that are longer than this."""

_TIME: Final = Struct("!QQ")
_PREFIX: Final = 16


class Content:
    """The messages of one sender.

    Args:
        seed: the sender's number.
        size: bytes of each, 16 at least.
    """

    def __init__(self, seed: int, size: int) -> None:
        self._size = size
        few = size > DISTINCT_LARGE and size % DISTINCT_LARGE
        self._count = DISTINCT_LARGE if few else DISTINCT
        self._inverse = pow(size, -1, self._count)
        random = Random(seed).randbytes(self._count)
        self._ring = (random * (1 + -(-size // self._count)))[: self._count + size]

    def many(self, first: int, count: int) -> list[bytes]:
        """Return `count` messages, from number `first` on."""
        made: list[bytes] = []
        while len(made) < count:
            place, run = self._run(first + len(made), count - len(made))
            made += _cutter(self._size, run).unpack_from(self._ring, place)
        return made

    def is_next(self, messages: Sequence[bytes], first: int) -> bool:
        """Return whether these are the messages from number `first` on."""
        if set(map(len, messages)) != {self._size}:
            return False
        done = 0
        while done < len(messages):
            place, run = self._run(first + done, len(messages) - done)
            there = self._ring[place : place + run * self._size]
            if b"".join(messages[done : done + run]) != there:
                return False
            done += run
        return True

    def _run(self, first: int, count: int) -> tuple[int, int]:
        """Return the start of a message, and the number of messages before the ring ends."""
        place = first * self._size % self._count
        room = self._count + self._size - place
        return place, min(count, room // self._size)

    def number(self, data: bytes, expected: int) -> int | None:
        """Return the number of this message, the one nearest to `expected`; None if it is
        unknown.
        """
        place = self._ring.find(data[:_PREFIX])
        if not 0 <= place < self._count:
            return None
        first = place * self._inverse % self._count
        if self.many(first, 1) != [data]:
            return None
        return first + round((expected - first) / self._count) * self._count


@lru_cache(maxsize=4)
def _cutter(size: int, count: int) -> Struct:
    return Struct(f"{size}s" * count)


class Receipts:
    """The messages that a receiver has received from one sender.

    Attributes:
        got: number of messages.
        expected: number of the next message.
        duplicated, misordered, wrong: counts of messages that came twice, too late, or that nobody
            sent.
        skipped: numbers that were skipped and have not come since.
    """

    def __init__(self, content: Content) -> None:
        self._content = content
        self.got = self.expected = 0
        self.duplicated = self.misordered = self.wrong = 0
        self.skipped: set[int] = set()

    def check(self, messages: Sequence[bytes]) -> None:
        """Check messages in the order in which they came."""
        self.got += len(messages)
        if self._content.is_next(messages, self.expected):
            self.expected += len(messages)
            return
        for data in messages:
            self._check_one(data)

    def _check_one(self, data: bytes) -> None:
        number = self._content.number(data, self.expected)
        if number is None:
            self.wrong += 1
        elif number >= self.expected:
            self.skipped.update(range(self.expected, number))
            self.expected = number + 1
        elif number in self.skipped:
            self.skipped.remove(number)
            self.misordered += 1
        else:
            self.duplicated += 1

    def report(self, timed: int) -> dict[str, int]:
        """Return all counts for the figures; `timed` counts the messages that carried the time."""
        return {
            "got": self.got,
            "expected": self.expected,
            "skipped": len(self.skipped),
            "duplicated": self.duplicated,
            "misordered": self.misordered,
            "wrong": self.wrong,
            "timed": timed,
        }


def lost_of(report: Mapping[str, int], sent: int) -> int:
    """Return the number of sent messages that have not come, according to a report."""
    return report["skipped"] + max(0, sent - report["expected"])


def timed(now_ns: int, number: int, size: int) -> bytes:
    """Return a message that carries the time."""
    return _TIME.pack(now_ns, number).ljust(size, b".")


def read_timed(data: bytes) -> tuple[int, int]:
    """Return the time and the number that a message carries."""
    now_ns, number = _TIME.unpack_from(data)
    return now_ns, number
