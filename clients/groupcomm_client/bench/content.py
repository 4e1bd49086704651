"""What the messages of a sender hold: all distinct, quick to make, and quick to check.

A sender's messages are windows of one block of random bytes, each a byte farther on. So both sides
make the same bytes from a seed, and a message that is wrong shows which one it is instead.
"""

from collections.abc import Sequence
from random import Random
from struct import Struct
from typing import Final

DISTINCT: Final = 1 << 23
"""Messages of a sender until the first comes again."""

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
        self._count = DISTINCT if size < 100_000 else 1 << 16
        self._block = Random(seed).randbytes(self._count + size)

    def many(self, first: int, count: int) -> list[bytes]:
        """Messages number `first` and those after it."""
        block, size = self._block, self._size
        start = first % self._count
        if start + count > self._count:
            here = self._count - start
            return self.many(first, here) + self.many(first + here, count - here)
        return [block[at : at + size] for at in range(start, start + count)]

    def number(self, data: bytes, expected: int) -> int | None:
        """Which message this is, the one nearest to `expected`; None if it is none of them."""
        place = self._block.find(data[:_PREFIX])
        if place < 0 or place >= self._count or self.many(place, 1)[0] != data:
            return None
        turns = round((expected - place) / self._count)
        return place + turns * self._count


class Account:
    """What a receiver has got of one sender.

    Attributes:
        got: how many messages.
        expected: number of the next one.
        duplicated, misordered, wrong: messages that came twice, too late, or that nobody sent.
        skipped: numbers that were passed over and have not come.
    """

    def __init__(self, content: Content) -> None:
        self._content = content
        self.got = self.expected = 0
        self.duplicated = self.misordered = self.wrong = 0
        self.skipped: set[int] = set()

    def take(self, messages: Sequence[bytes]) -> None:
        """Check what has come, in its order."""
        self.got += len(messages)
        if messages == self._content.many(self.expected, len(messages)):
            self.expected += len(messages)
            return
        for data in messages:
            self._take_one(data)

    def _take_one(self, data: bytes) -> None:
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

    def lost(self, sent: int) -> int:
        """How many of so many sent messages have not come."""
        return len(self.skipped) + max(0, sent - self.expected)


def timed(now_ns: int, number: int, size: int) -> bytes:
    """A message that carries the time."""
    return _TIME.pack(now_ns, number).ljust(size, b".")


def read_timed(data: bytes) -> tuple[int, int]:
    """The time and the number in it."""
    now_ns, number = _TIME.unpack_from(data)
    return now_ns, number
