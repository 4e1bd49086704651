"""A sender of the benchmark, a process of its own; it does what its input says.

Prints {"ready"}, and {"sent", "timed"} once it has been told to stop.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Final

import cattrs
import trio

from groupcomm_client.connecting import connect
from groupcomm_client.connection import Connection
from groupcomm_tools.bench.content import Content, timed
from groupcomm_tools.bench.plan import GROUP, PROBES_PER_S, Plan

DATA, TIMED, END = 0, 1, 2
"""Types of messages."""

CHUNK_BYTES: Final = 512 * 1024
"""So much is given to the library at once."""


class Sender:
    """One sender.

    Args:
        plan: of the run.
        index: its number among the senders.
    """

    def __init__(self, plan: Plan, index: int) -> None:
        self._plan = plan
        self._content = Content(index, plan.size)
        self._chunk = max(1, CHUNK_BYTES // plan.size)
        self._sent = self._timed = 0
        self._stop = trio.Event()

    async def run(self, address: str) -> None:
        """Connect, send from the first line of the input to the second, and tell what was sent."""
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
            await lines.readline()  # all has been received

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
        """Send as many as are owed, and a message with the time now and then."""
        next_probe = 0.0
        while not self._stop.is_set():
            if time.monotonic() >= next_probe:
                next_probe = time.monotonic() + 1 / PROBES_PER_S
                await self._probe(connection)
            count = min(owed(), self._chunk)
            if count <= 0:
                await trio.sleep(0.001)
                continue
            messages = self._content.many(self._sent, count)
            if self._plan.bundling:
                await connection.multicast_many(GROUP, messages, level=self._plan.level)
            else:
                for data in messages:
                    await connection.multicast(GROUP, data, level=self._plan.level)
            self._sent += count

    async def _probe(self, connection: Connection) -> None:
        data = timed(time.monotonic_ns(), self._timed, self._plan.size)
        self._timed += 1
        await connection.multicast(GROUP, data, level=self._plan.level, type=TIMED)


def main() -> int:
    """Run with ADDRESS INDEX PLAN, the last one as JSON."""
    _, address, index, plan = sys.argv
    trio.run(Sender(cattrs.structure(json.loads(plan), Plan), int(index)).run, address)
    return 0


if __name__ == "__main__":
    sys.exit(main())
