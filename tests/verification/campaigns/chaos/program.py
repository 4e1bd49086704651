"""One program of the chaos campaign: sessions at one daemon that send, join, leave and come back.

It prints on standard output, one JSON object a line, its sessions' beginnings and ends, their
views with the times, and the number of received messages. From the line ``stop`` on it only
listens.
"""

import argparse
import json
import math
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

from groupcomm.errors import GroupCommError
from groupcomm.events import DaemonView, GroupView, Message
from groupcomm.host.trace_file import now_us
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm_client import Connection, ConnectOptions, connect

GROUPS = ("red", "green", "blue")
ORDERED = (ServiceLevel.AGREED, ServiceLevel.SAFE)
BACKOFF_S = 0.05
TELL_S = 0.25
PAUSE_S = 0.02
LARGE_BYTES = 30_000


def tell(**what: Any) -> None:
    """One line for the campaign."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Program:
    """All sessions of this process."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.stopped = False
        self.heard = self.sent = 0

    async def run(self) -> None:
        """Live until the process is killed."""
        async with trio.open_nursery() as nursery:
            for index in range(self.options.sessions):
                nursery.start_soon(self._sessions, index)
            nursery.start_soon(self._obey)
            while True:
                await trio.sleep(TELL_S)
                tell(heard=self.heard, sent=self.sent)

    async def _obey(self) -> None:
        while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            self.stopped |= line.strip() == "stop"

    async def _sessions(self, index: int) -> None:
        """One session after the other, for ever."""
        number = 0
        while True:
            number += 1
            user = f"{self.options.name}.{index}.{number}"
            with lost_is_fine():
                await self._session(user)
            await trio.sleep(BACKOFF_S)

    async def _session(self, user: str) -> None:
        options = self.options
        async with connect(
            options.address, user=user, options=ConnectOptions(trace=options.trace)
        ) as connection:
            identity = str(connection.member)
            tell(open=identity)
            try:
                await Session(self, connection, random.Random(f"{options.seed} {user}")).live()
            finally:
                # The daemon's answer is still due: no disaster may kill this session as an open
                # one.
                tell(over=identity)


@contextmanager
def lost_is_fine() -> Iterator[None]:
    """Run sessions that end with their daemons; that is the purpose."""
    try:
        yield
    except* GroupCommError:
        pass


class Session:
    """Run one session until it wants another one, or loses its daemon."""

    def __init__(self, program: Program, connection: Connection, rng: random.Random) -> None:
        self._program = program
        self._connection = connection
        self._rng = rng
        self._others: list[str] = []

    async def live(self) -> None:
        """Send and listen; return to disconnect."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen)
            for group in self._rng.sample(GROUPS, 2):
                await self._connection.join(group)
            life_s = self._rng.uniform(4, 30)
            steady = self._program.options.steady
            await self._send(math.inf if steady else trio.current_time() + life_s)
            nursery.cancel_scope.cancel()

    async def _listen(self) -> None:
        identity = str(self._connection.member)
        while True:
            for event in await self._connection.receive_batch():
                if isinstance(event, Message):
                    self._program.heard += 1
                elif isinstance(event, DaemonView):
                    tell(session=identity, view=event.daemons, at=now_us())
                elif isinstance(event, GroupView):
                    names = [member.name for member in event.members]
                    self._others = names
                    tell(session=identity, group=event.group, members=names, at=now_us())

    async def _send(self, until: float) -> None:
        """Send the given number of messages a second, in flurries; without end once it is
        stopped."""
        rng, program = self._rng, self._program
        due = 0.0
        last = trio.current_time()
        while program.stopped or trio.current_time() < until:
            await trio.sleep(rng.uniform(0.5, 1.5) * PAUSE_S)
            now = trio.current_time()
            due = min(due + (now - last) * program.options.rate, 50.0)  # no flood after a pause
            last = now
            if program.stopped:
                due = 0.0
            while due >= 1.0:
                due -= await self._flurry(min(int(due), 8))
            if not (program.stopped or program.options.steady) and rng.random() < PAUSE_S / 3:
                await self._churn()

    async def _flurry(self, most: int) -> int:
        rng, connection = self._rng, self._connection
        level = rng.choice(LEVELS)
        groups: list[str] = rng.sample(GROUPS, rng.choice((1, 1, 2)))
        if self._others and rng.random() < 0.1:
            groups = [rng.choice(self._others)]
        if level in ORDERED and rng.random() < 0.05:
            with trio.move_on_after(0.5):
                await connection.multicast_ordered(groups, b"ordered", level=level)
            self._program.sent += 1
            return 1
        sizes = [rng.choice((10, 100, 1000)) for _ in range(most)]
        if rng.random() < 0.01:
            sizes[0] = LARGE_BYTES
        texts = [rng.randbytes(size) for size in sizes]
        discard = rng.random() < 0.1
        self._program.sent += await connection.multicast_many(
            groups, texts, level=level, type=rng.randrange(5), self_discard=discard
        )
        return most

    async def _churn(self) -> None:
        connection, group = self._connection, self._rng.choice(GROUPS)
        with trio.move_on_after(0.5):
            if group in connection.groups:
                await connection.leave(group)
            else:
                await connection.join(group)


def main() -> None:
    """Run one program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--sessions", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, help="of one session, a second")
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--steady", action="store_true", help="stay, in the same groups")
    trio.run(Program(parser.parse_args()).run)


if __name__ == "__main__":
    main()
