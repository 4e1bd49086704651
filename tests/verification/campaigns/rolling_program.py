"""A program of a rolling upgrade: sends and receives, and moves from daemon to daemon.

It runs under the Python of any release, so it imports nothing of the tests. It ends when its input
does, and prints what it has sent and received, as one line of JSON. If a call of the library does
not return for CALL_S, it ends with status 1 and says which one.
"""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

from groupcomm.level import ServiceLevel
from groupcomm_client import Connection, ConnectOptions, Message, Reconnected, connect

GROUP = "load"
LEVELS = tuple(level for level in ServiceLevel if level is not ServiceLevel.UNRELIABLE)
CALL_S = 20.0
"""A call that takes longer hangs: a move takes a second or two."""

REST_S = 2.0
"""The time in which everything that was sent is received."""


class Hangs(Exception):
    """A call has not returned; the text names it."""


@contextmanager
def bounded(call: str) -> Iterator[None]:
    """Raise Hangs if the block takes longer than CALL_S."""
    with trio.move_on_after(CALL_S) as scope:
        yield
    if scope.cancelled_caught:
        raise Hangs(f"after {CALL_S:g} s this call has not returned: {call}")


class Program:
    """One program.

    Attributes:
        sent: the number of messages sent, by level.
        segments: for each sender and level the numbers received, in a list for each stay at a
            daemon.
        moves: the number of times that it moved.
        in_doubt: the number of messages in doubt after changes of the daemon.
        silent_s: the longest time between two messages while all send.
    """

    def __init__(self, user: str, rate: float) -> None:
        self._user = user
        self._rate = rate
        self._over = False
        self.sent = {level.name: 0 for level in LEVELS}
        self.segments: dict[str, list[list[int]]] = {}
        self.moves = self.in_doubt = self._stay = 0
        self.silent_s = 0.0
        self._heard_at: float | None = None

    async def run(self, addresses: str, trace: str) -> None:
        """Send and receive until the input ends, then receive what is still on its way."""
        options = ConnectOptions(trace=Path(trace))
        async with (
            connect(addresses, user=self._user, reconnect=True, options=options) as connection,
            trio.open_nursery() as nursery,
        ):
            with bounded("join"):
                await connection.join(GROUP)
            nursery.start_soon(self._receive, connection)
            nursery.start_soon(self._wait_for_end)
            print("ready", flush=True)
            turn = 0
            while not self._over:
                level = LEVELS[turn % len(LEVELS)]
                turn += 1
                number = self.sent[level.name]
                data = f"{self._user} {level.name} {number}".encode()
                with bounded(f"multicast of {data.decode()}"):
                    await connection.multicast(GROUP, data, level=level)
                self.sent[level.name] = number + 1
                await trio.sleep(1 / self._rate)
            await trio.sleep(REST_S)
            nursery.cancel_scope.cancel()

    async def _wait_for_end(self) -> None:
        await trio.lowlevel.wait_readable(sys.stdin.fileno())  # nothing comes but the end
        self._over = True

    async def _receive(self, connection: Connection) -> None:
        async for event in connection:
            if isinstance(event, Message):
                user, level, number = event.data.decode().split()
                stays = self.segments.setdefault(f"{user} {level}", [])
                while len(stays) <= self._stay:
                    stays.append([])
                stays[self._stay].append(int(number))
                self._note_silence()
            elif isinstance(event, Reconnected):
                self._stay += 1
                self.moves += event.moved
                self.in_doubt += event.in_doubt

    def _note_silence(self) -> None:
        now = time.monotonic()
        if self._heard_at is not None and not self._over:
            self.silent_s = max(self.silent_s, now - self._heard_at)
        self._heard_at = now


def main() -> None:
    """Run with the arguments: addresses, user, rate, folder of traces."""
    addresses, user, rate, trace = sys.argv[1:5]
    program = Program(user, float(rate))
    trio.run(program.run, addresses, trace)
    found = {
        "sent": program.sent,
        "segments": program.segments,
        "moves": program.moves,
        "in_doubt": program.in_doubt,
        "silent_s": round(program.silent_s, 3),
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
