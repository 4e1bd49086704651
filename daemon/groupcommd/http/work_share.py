"""The share of a processor that HTTP may take.

All work for HTTP is done in pieces, one at a time and in the order in which they were wanted. After
a piece HTTP rests until it has taken SHARE of the time; a short burst is let through. So a client
that asks too much waits, and neither the ring nor other programs do. Only time on a processor
counts, as waiting for a processor takes nothing from others.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

import trio

SHARE: Final = 0.1
"""The share of the time that HTTP may take."""

BURST_S: Final = 0.002
"""Work that is done without a rest after a quiet time."""


class WorkShare:
    """An async context manager around each piece of work, which must not wait for anything.

    Args:
        clock: returns seconds, to measure the time of a piece.

    Attributes:
        used_s: the time that all pieces have taken, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._turn = trio.Lock()  # first come, first served
        self._paid_at = 0.0  # when earlier work has been rested for
        self._began = 0.0
        self.used_s = 0.0

    async def __aenter__(self) -> Self:
        await self._turn.acquire()
        try:
            wait_s = self._paid_at - BURST_S / SHARE - trio.current_time()
            if wait_s > 0:
                await trio.sleep(wait_s)
        except BaseException:
            self._turn.release()
            raise
        self._began = self._clock()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pay(self._clock() - self._began)
        self._turn.release()

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """Do a piece of work at once, before all that waits; the others wait the longer for it."""
        began = self._clock()
        try:
            yield
        finally:
            self._pay(self._clock() - began)

    def _pay(self, took_s: float) -> None:
        self.used_s += took_s
        self._paid_at = max(self._paid_at, trio.current_time()) + took_s / SHARE
