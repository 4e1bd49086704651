"""A bystander: a program that has nothing to do with a load, and how long its messages take."""

import struct
from collections.abc import Sequence
from contextlib import AsyncExitStack
from math import inf
from typing import Final

import attrs
import trio

from groupcomm.events import Message
from groupcomm_client import Connection, ConnectOptions, connect

EVERY_S: Final = 0.02
"""The time between two messages: each is alone."""

GROUP: Final = "lone"
PATIENT: Final = ConnectOptions(timeout_s=120.0, daemon_timeout_s=0.0)
"""It waits for a daemon that stands still, so that the delay is measured."""

LATEST_S: Final = 30.0
"""The time after the end of a load in which its last messages must come."""

_MESSAGE: Final = struct.Struct("!Qd")  # its number, and when it was due


@attrs.frozen(kw_only=True)
class Delays:
    """The delays of lone messages, from the time when each was due to its delivery, in ms.

    Attributes:
        messages: their number.
        p50, p95, p99, worst: quantiles over all receivers.
        silence: the longest time in which a receiver got nothing.
        missed: messages that did not come to a receiver, of all receivers together.
    """

    messages: int
    p50: float
    p95: float
    p99: float
    worst: float
    silence: float
    missed: int


class Bystander:
    """Members at some daemons, which send lone AGREED messages in turn, for ever."""

    def __init__(self) -> None:
        self._next = self._first = 0  # numbers of messages
        self._receivers = 0
        self._got: list[tuple[int, float]] = []  # the number of a message, and its delay
        self._began = self._silence_s = 0.0

    async def run(self, addresses: Sequence[str], *, task_status: trio.TaskStatus[None]) -> None:
        """Send and receive until the task is cancelled; started once all are members."""
        async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
            programs = []
            for address in addresses:
                program = await stack.enter_async_context(connect(address, options=PATIENT))
                await program.join(GROUP)
                programs.append(program)
                nursery.start_soon(self._receive, program)
            self._receivers = len(programs)
            task_status.started()
            begin = trio.current_time()
            while True:
                due = begin + self._next * EVERY_S
                await trio.sleep_until(due)
                data = _MESSAGE.pack(self._next, due)
                await programs[self._next % len(programs)].multicast(GROUP, data)
                self._next += 1

    async def _receive(self, program: Connection) -> None:
        heard_at = trio.current_time()
        while True:
            events = await program.receive_batch()
            now = trio.current_time()
            for event in events:
                if isinstance(event, Message):
                    number, due = _MESSAGE.unpack(event.data)
                    self._got.append((number, now - due))
                    self._silence_s = max(self._silence_s, now - max(heard_at, self._began))
                    heard_at = now

    def begin(self) -> None:
        """Measure the messages from now on."""
        self._first, self._began, self._silence_s = self._next, trio.current_time(), 0.0
        self._got.clear()

    async def end(self) -> Delays:
        """Return the delays since `begin`, once all messages until now have come."""
        sent = range(self._first, self._next)
        wanted, found = len(sent) * self._receivers, list[float]()
        with trio.move_on_after(LATEST_S):
            while len(found) < wanted:
                await trio.sleep(EVERY_S)
                found = sorted(1000 * delay for number, delay in self._got if number in sent)
        p50, p95, p99, worst = (
            round(found[min(len(found) - 1, int(share * len(found)))], 2) if found else inf
            for share in (0.5, 0.95, 0.99, 1.0)
        )
        return Delays(
            messages=len(sent),
            p50=p50,
            p95=p95,
            p99=p99,
            worst=worst,
            silence=round(1000 * self._silence_s, 1),
            missed=wanted - len(found),
        )
