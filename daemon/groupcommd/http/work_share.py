"""The share of a processor that HTTP may take.

All work for HTTP is done in pieces, one at a time; turns.py has their order. After a piece HTTP
rests until it has taken SHARE of the time; a short burst is let through. So a client that asks too
much waits, and neither the ring nor other programs do. Only time on a processor counts, as waiting
for a processor takes nothing from others.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Self

import trio

from groupcommd.http.turns import Asker, Peer, Turns

SHARE: Final = 0.1
"""The share of the time that HTTP may take."""

BURST_S: Final = 0.002
"""Work that is done without a rest after a quiet time."""


class ShareOfAsker:
    """The share of time as one asker uses it: an async context manager, one piece at a time."""

    def __init__(self, share: "WorkShare", asker: Asker) -> None:
        self._share = share
        self._asker = asker

    async def __aenter__(self) -> Self:
        await self._share.begin(self._asker)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._share.end()


class WorkShare(ShareOfAsker):
    """An async context manager around each piece of work, which must not wait for anything.

    The pieces of the server itself use it as it is, those of a connection by `of`.

    Args:
        clock: returns seconds, to measure the time of a piece.
        burst_s: work that is done without a rest after a quiet time, in seconds.

    Attributes:
        used_s: the time that all pieces have taken, in seconds.
    """

    def __init__(
        self, clock: Callable[[], float] = time.thread_time, burst_s: float = BURST_S
    ) -> None:
        super().__init__(self, Asker(Peer()))
        self._clock = clock
        self._burst_s = burst_s
        self._turns = Turns()
        self._is_busy = False  # with a piece of work, or with a rest before one
        self._paid_at = 0.0  # when earlier work has been rested for
        self._began = 0.0
        self.used_s = 0.0

    def of(self, asker: Asker) -> ShareOfAsker:
        """Return the same context manager for the pieces of work of a connection."""
        return ShareOfAsker(self, asker)

    async def begin(self, asker: Asker) -> None:
        """Wait for the turn of an asker, and until earlier work has been rested for."""
        await self._await_turn(asker)
        try:
            wait_s = self._paid_at - self._burst_s / SHARE - trio.current_time()
            if wait_s > 0:
                await trio.sleep(wait_s)
        except BaseException:
            self._call_next()
            raise
        self._began = self._clock()

    def end(self) -> None:
        """End a piece of work that was begun."""
        self._pay(self._clock() - self._began)
        self._call_next()

    async def _await_turn(self, asker: Asker) -> None:
        await trio.lowlevel.checkpoint()
        if not self._is_busy:
            self._is_busy = True
            self._turns.note(asker)
            return
        ticket = self._turns.add(asker)
        try:
            await ticket.called.wait()
        except BaseException:
            ticket.is_void = True
            if ticket.called.is_set():
                self._call_next()
            raise

    def _call_next(self) -> None:
        ticket = self._turns.next()
        self._is_busy = ticket is not None
        if ticket is not None:
            ticket.called.set()

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
