"""The places of causality: the program, the infrastructure, a filter; and their costs.

python -m examples.ordering.places --messages 3000 --rounds 5
"""

import json
import statistics
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

import attrs
import trio

from examples.common.command import new_parser
from groupcomm.clocks.vector import VectorClock
from groupcomm.events import GroupView, Message
from groupcomm.level import ServiceLevel
from groupcomm_client import ConnectOptions, connect, run
from groupcomm_client.connection import Connection
from groupcomm_client.filters import causal
from groupcomm_tools.local_cluster import LocalCluster

DAEMONS: Final = ("alfa", "bravo", "charlie")
GROUP: Final = "places"
DATA: Final = bytes(100)
PLACES: Final = ("nowhere", "program", "infrastructure", "filter")
"""The places; nowhere means FIFO messages as they come."""


class Causal:
    """Causal order in a program that knows all participants: vectors over FIFO messages.

    If a participant joins, leaves or fails, it waits for ever: only a filter or a daemon handles
    views.
    """

    def __init__(self, me: int, programs: int) -> None:
        self._me = me
        self._clock = VectorClock(range(programs))
        self._stamp = struct.Struct(f"!B{programs}I")
        self._buffer: list[tuple[int, VectorClock[int], bytes]] = []

    def stamped(self, data: bytes) -> bytes:
        """Return a message to send."""
        self._clock.tick(self._me)
        return self._stamp.pack(self._me, *(count for _, count in self._clock.items())) + data

    def received(self, data: bytes) -> list[bytes]:
        """Accept a message; return the messages that may be used now."""
        sender, *counts = self._stamp.unpack_from(data)
        stamp: VectorClock[int] = VectorClock()
        for name, count in enumerate(counts):
            stamp.add(name, count)
        self._buffer.append((sender, stamp, data[self._stamp.size :]))
        found = []
        while (place := self._next()) is not None:
            sender, _, content = self._buffer.pop(place)
            self._clock.tick(sender)
            found.append(content)
        return found

    def _next(self) -> int | None:
        places = enumerate(self._buffer)
        return next((at for at, (p, v, _) in places if self._clock.deliverable(v, p)), None)


@attrs.define
class Program:
    """One of the programs that send.

    Attributes:
        connection: its session.
        causal: keeps the order, if the program does so.
        got: the number of messages of others that it could use.
    """

    connection: Connection
    causal: Causal | None
    got: int = 0

    async def send(self, count: int, level: ServiceLevel) -> None:
        """Send messages, some at a time: messages that came meanwhile are in their stamps."""
        for first in range(0, count, 10):
            some = range(min(10, count - first))
            messages = [self.causal.stamped(DATA) if self.causal else DATA for _ in some]
            await self.connection.multicast_many(GROUP, messages, level=level, self_discard=True)
            await trio.lowlevel.checkpoint()

    async def receive(self, count: int) -> None:
        """Receive this number of messages."""
        while self.got < count:
            for event in await self.connection.receive_batch():
                if isinstance(event, Message):
                    self.got += 1 if self.causal is None else len(self.causal.received(event.data))


async def measure(place: str, messages: int) -> float:
    """Return the messages a second of each program while all send; three programs at three
    daemons."""
    level = ServiceLevel.CAUSAL if place == "infrastructure" else ServiceLevel.FIFO
    filters = [causal] if place == "filter" else []
    async with LocalCluster(DAEMONS) as cluster, AsyncExitStack() as stack:
        await cluster.settle(DAEMONS)
        programs = []
        for number, daemon in enumerate(DAEMONS):
            connection = await stack.enter_async_context(
                connect(str(cluster[daemon].unix), options=ConnectOptions(filters=filters))
            )
            own = Causal(number, len(DAEMONS)) if place == "program" else None
            programs.append(Program(connection, own))
        for program in programs:
            await program.connection.join(GROUP)
        for program in programs:
            await _all_there(program.connection)
        started = time.monotonic()
        async with trio.open_nursery() as nursery:
            for program in programs:
                nursery.start_soon(program.send, messages, level)
                nursery.start_soon(program.receive, messages * (len(programs) - 1))
        return messages * (len(programs) - 1) / (time.monotonic() - started)


async def _all_there(connection: Connection) -> None:
    """Wait for the view with all programs."""
    async for event in connection:
        if isinstance(event, GroupView) and len(event.members) == len(DAEMONS):
            return


async def compare(messages: int, rounds: int) -> list[dict[str, object]]:
    """Run all places in turn, several times; return medians and ratios to no causality."""
    rates: dict[str, list[float]] = {place: [] for place in PLACES}
    for number in range(rounds):
        for place in PLACES:
            rates[place].append(await measure(place, messages))
            print(f"round {number + 1}: {place} {rates[place][-1]:,.0f}/s", file=sys.stderr)
    return [
        {
            "place": place,
            "messages_per_s": round(statistics.median(found)),
            "ratio": round(
                statistics.median(
                    rate / plain for rate, plain in zip(found, rates[PLACES[0]], strict=True)
                ),
                3,
            ),
        }
        for place, found in rates.items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the results."""
    parser = new_parser("ordering.places", __doc__)
    parser.add_argument("--messages", type=int, default=3000, metavar="N", help="of each (3000)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="all in turn (5)")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args(arguments)
    if min(options.messages, options.rounds) < 1:
        parser.error("--messages and --rounds must be at least 1")
    found = run(compare, options.messages, options.rounds)
    if options.json:
        print(json.dumps(found))
    else:
        for row in found:
            print(f"{row['place']:16} {row['messages_per_s']:>9,}/s  {row['ratio']:>6}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
