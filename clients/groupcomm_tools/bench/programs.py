"""Programs that the benchmark starts as processes: senders, receivers and idle ones.

A sender prints {"ready"}, and {"sent", "timed"} once it is told to stop. A receiver checks every
message; it prints {"ready"}, and its results once all senders have ended, or once its input says
so. An idle program holds many sessions in many groups; it prints {"ready"} once all have joined,
and ends with its input.
"""

import gc
import json
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Final

import cattrs
import trio

from groupcomm.events import MemberId, Message
from groupcomm_client import connect
from groupcomm_client.connection import Connection
from groupcomm_client.events import Received
from groupcomm_tools.bench.content import Content, Receipts, read_timed, timed
from groupcomm_tools.bench.plan import GROUP, PROBES_PER_S, Plan

DATA, TIMED, END = 0, 1, 2
"""Types of messages."""

CHUNK_BYTES: Final = 512 * 1024
TICK_S: Final = 0.001
"""A sender with a rate sends what is due, then sleeps for this long."""
"""Bytes passed to the library at once."""


class Sender:
    """One sender.

    Args:
        plan: parameters of the run.
        index: its number among the senders.
    """

    def __init__(self, plan: Plan, index: int) -> None:
        self._plan = plan
        self._content = Content(index, plan.size)
        self._chunk = max(1, CHUNK_BYTES // plan.size)
        self._sent = self._timed = 0
        self._stop = trio.Event()

    async def run(self, address: str) -> None:
        """Connect; send from the first line of the input to the second; print the amount sent."""
        plan = self._plan
        async with connect(address) as connection:
            print(json.dumps({"ready": connection.name}), flush=True)
            lines = trio.wrap_file(sys.stdin)
            await lines.readline()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, connection)
                await lines.readline()
                self._stop.set()
            await connection.multicast(GROUP, b"", level=plan.level, type=END)
            print(json.dumps({"sent": self._sent, "timed": self._timed}), flush=True)
            await lines.readline()  # the program has received all messages

    async def _send(self, connection: Connection) -> None:
        if self._plan.is_timed:
            await self._send_timed(connection)
        elif self._plan.rate:
            await self._send_at(connection, self._plan.rate / self._plan.senders)
        else:
            await self._send_all(connection, lambda: self._chunk)

    async def _send_timed(self, connection: Connection) -> None:
        period_s, due = self._plan.senders / self._plan.rate, trio.current_time()
        while not self._stop.is_set():
            await self._probe(connection)
            due += period_s
            await trio.sleep_until(due)

    async def _send_at(self, connection: Connection, rate: float) -> None:
        began = trio.current_time()

        def owed() -> int:
            return int((trio.current_time() - began) * rate) - self._sent

        await self._send_all(connection, owed)

    async def _send_all(self, connection: Connection, owed: Callable[[], int]) -> None:
        """Send as many messages as are owed, and a message with the time now and then."""
        next_probe = 0.0
        while not self._stop.is_set():
            if time.monotonic() >= next_probe:
                next_probe = time.monotonic() + 1 / PROBES_PER_S
                await self._probe(connection)
            count = max(0, min(owed(), self._chunk))
            messages = self._content.many(self._sent, count)
            if self._plan.bundling:
                await connection.multicast_many(GROUP, messages, level=self._plan.level)
            else:
                for data in messages:
                    await connection.multicast(GROUP, data, level=self._plan.level)
            self._sent += count
            if count < self._chunk:
                await trio.sleep(TICK_S)

    async def _probe(self, connection: Connection) -> None:
        data = timed(time.monotonic_ns(), self._timed, self._plan.size)
        self._timed += 1
        await connection.multicast(GROUP, data, level=self._plan.level, type=TIMED)


# ---- receivers ----


class Receiver:
    """One receiver, from its start to its figures.

    Args:
        plan: parameters of the run.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._indices: dict[str, int] = {}
        self._accounts = [Receipts(Content(index, plan.size)) for index in range(plan.senders)]
        self._known: dict[MemberId, int] = {}
        self._timed = [0] * plan.senders  # the number of the next timed message of each sender
        self._wrong_timed = 0
        self._delays: list[tuple[int, int]] = []  # time of arrival, and delay, ns
        self._counts: list[tuple[int, int]] = []  # time, and number of messages so far
        self._order = 0
        self._ended = 0

    def expect(self, senders: list[str]) -> None:
        """Note the private names of the senders, in the order of their numbers."""
        self._indices = {name: index for index, name in enumerate(senders)}

    def check(self, batch: list[Received]) -> None:
        """Check events in the order in which they came."""
        now = time.monotonic_ns()
        messages = [event for event in batch if type(event) is Message]
        done = 0
        for at, other in [(at, m) for at, m in enumerate(messages) if m.type != DATA]:
            self._check_data(messages[done:at])
            done = at + 1
            if other.type == TIMED:
                self._check_timed(self._index(other.sender), other.data, now)
            elif other.type == END:
                self._ended += 1
        self._check_data(messages[done:])
        self._counts.append((now, sum(account.got for account in self._accounts)))

    def _check_data(self, messages: list[Message]) -> None:
        senders = {message.sender for message in messages}
        for sender in senders:
            index = self._index(sender)
            if len(senders) == 1:
                self._accounts[index].check([message.data for message in messages])
                self._order = zlib.crc32(bytes((index,)) * len(messages), self._order)
                return
            self._accounts[index].check([m.data for m in messages if m.sender == sender])
        order = bytes([self._known[message.sender] for message in messages])
        self._order = zlib.crc32(order, self._order)

    def _index(self, sender: MemberId) -> int:
        """Return the number of a sender."""
        if sender not in self._known:
            self._known[sender] = self._indices[sender.name]
        return self._known[sender]

    def _check_timed(self, index: int, data: bytes, now: int) -> None:
        sent_at, number = read_timed(data)
        self._delays.append((now, now - sent_at))
        self._wrong_timed += number != self._timed[index]
        self._timed[index] = number + 1

    @property
    def has_ended(self) -> bool:
        """Return whether all senders have said that they send no more."""
        return self._ended == len(self._accounts)

    def report(self) -> dict[str, Any]:
        """Return everything that was received, for the figures."""
        return {
            "accounts": [
                account.report(timed)
                for account, timed in zip(self._accounts, self._timed, strict=True)
            ],
            "wrong_timed": self._wrong_timed,
            "order": self._order,
            "counts": self._thinned(),
            "delays": self._delays,
        }

    def _thinned(self) -> list[tuple[int, int]]:
        """Return the counts, at most a few hundred for each second."""
        kept: list[tuple[int, int]] = []
        for at, count in self._counts:
            if not kept or at - kept[-1][0] > 2_000_000 or at == self._counts[-1][0]:
                kept.append((at, count))
        return kept


async def _receive(connection: Connection, receiver: Receiver) -> None:
    while not receiver.has_ended:
        receiver.check(await connection.receive_batch())


async def _receive_all(address: str, plan: Plan) -> None:
    receiver = Receiver(plan)
    async with connect(address) as connection, connection.group(GROUP):
        print(json.dumps({"ready": connection.name}), flush=True)
        lines = trio.wrap_file(sys.stdin)
        receiver.expect(json.loads(await lines.readline()))
        gc.freeze()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_finish, nursery.cancel_scope)
            await _receive(connection, receiver)
            nursery.cancel_scope.cancel()
        print(json.dumps(receiver.report()), flush=True)


async def _finish(scope: trio.CancelScope) -> None:
    """Wait for a line or the end of the input; messages that have not come by then are lost."""
    await trio.lowlevel.wait_readable(sys.stdin.fileno())
    scope.cancel()


# ---- idle programs ----


_AT_ONCE: Final = 50
"""Sessions that connect or join at a time."""


async def _connect(stack: AsyncExitStack, address: str, made: list[Connection]) -> None:
    made.append(await stack.enter_async_context(connect(address)))


async def _join(connection: Connection, groups: range) -> None:
    for number in groups:
        await connection.join(f"idle-{number}")
        await connection.receive_batch()


async def _idle(addresses: list[str], sessions: int, groups: int) -> None:
    async with AsyncExitStack() as stack:
        made: list[Connection] = []
        for begin in range(0, sessions, _AT_ONCE):
            async with trio.open_nursery() as nursery:
                for index in range(begin, min(begin + _AT_ONCE, sessions)):
                    place = addresses[index % len(addresses)]
                    nursery.start_soon(_connect, stack, place, made)
        for begin in range(0, sessions, _AT_ONCE):
            async with trio.open_nursery() as nursery:
                for index in range(begin, min(begin + _AT_ONCE, sessions)):
                    nursery.start_soon(_join, made[index], range(index, groups, sessions))
        print(json.dumps({"ready": True}), flush=True)
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


def main() -> int:
    """Run one of them; PLAN and ADDRESSES are JSON.

    ::

        send ADDRESS INDEX PLAN
        receive ADDRESS PLAN
        idle ADDRESSES SESSIONS GROUPS
    """
    _, role, address, *words = sys.argv
    if role == "idle":
        trio.run(_idle, json.loads(address), int(words[0]), int(words[1]))
        return 0
    plan = cattrs.structure(json.loads(words[-1]), Plan)
    if role == "send":
        trio.run(Sender(plan, int(words[0])).run, address)
    else:
        trio.run(_receive_all, address, plan)
    return 0


if __name__ == "__main__":
    sys.exit(main())
