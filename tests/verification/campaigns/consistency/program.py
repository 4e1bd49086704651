"""A program that uses shared objects at one daemon, and prints what it does.

Objects are registers and lists of a replicated state machine, a lock, and a queue of jobs.

Each operation is a line of JSON at its begin, ``{"n": 7, "begin": ...}``, and one at its end,
``{"n": 7, "end": ...}``. From the line ``stop`` on it begins no more, reads all objects once, and
prints ``{"finished": true}``; jobs go on being done.
"""

import argparse
import itertools
import os
import random
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from groupcomm.errors import GroupCommError
from groupcomm.events import DaemonView, MemberId
from groupcomm.host.trace_file import now_us
from groupcomm.level import ServiceLevel
from groupcomm_client import Connection, ConnectOptions, connect
from groupcomm_client.coordination import OutcomeUnknown, Replicated, join_mutex, replicate

REGISTERS: Final = ("r0", "r1")
LISTS: Final = ("l0", "l1", "l2")
AT_ONCE: Final = 2
"""The operations on replicated objects that a program has under way."""

PAUSE_S: Final = 0.1
HOLD_S: Final = 0.02
RETRY_S: Final = 0.1


class Objects:
    """The state machine: registers and lists."""

    def __init__(self) -> None:
        self.registers: dict[str, Any] = {}
        self.lists: dict[str, list[str]] = {}

    def apply(self, command: bytes, sender: MemberId) -> Any:
        """Apply a command; return its result, for a transaction on lists one for each act."""
        match msgspec.msgpack.decode(command):
            case ["register", key, ["read"]]:
                return self.registers.get(key)
            case ["register", key, ["write", value]]:
                self.registers[key] = value
                return None
            case ["register", key, ["cas", old, new]]:
                done = self.registers.get(key) == old
                if done:
                    self.registers[key] = new
                return done
            case ["list", _, acts]:
                return [self._act(*act) for act in acts]
            case _:
                return None

    def _act(self, what: str, key: str, value: str = "") -> list[str] | None:
        if what == "append":
            self.lists.setdefault(key, []).append(value)
            return None
        return list(self.lists.get(key, ()))

    def members_changed(self, members: tuple[MemberId, ...]) -> None:
        """Do nothing: objects belong to no member."""

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode([self.registers, self.lists])

    def restore(self, state: bytes) -> None:
        self.registers, self.lists = msgspec.msgpack.decode(state)


class Program:
    """All sessions of this process."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._rng = random.Random(options.seed)
        self._numbers = itertools.count(1)
        self._values = itertools.count(1)
        self._stop = trio.Event()
        self._works = trio.Event()  # a worker is there
        self._finished = False

    async def run(self) -> None:
        """Live until the input ends."""
        async with trio.open_nursery() as nursery:
            for live in (self._replicate, self._lock, self._work, self._send):
                nursery.start_soon(self._again_and_again, live)
            while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
                if line.strip() == "stop":
                    self._stop.set()
            nursery.cancel_scope.cancel()

    async def _again_and_again(self, live: Callable[[Connection], Awaitable[None]]) -> None:
        """Live through sessions, a new one after each that ends with its daemon."""
        options = ConnectOptions(trace=self._options.trace)
        while True:
            try:
                async with connect(self._options.address, options=options) as connection:
                    await live(connection)
            except* GroupCommError:
                await trio.sleep(RETRY_S)

    # ---- operations ----

    def _tell(self, **what: Any) -> None:
        os.write(1, msgspec.json.encode(what) + b"\n")

    def _begin(self, kind: str, act: Any, key: str = "") -> int:
        number = next(self._numbers)
        begun = {"object": kind, "act": act, "key": key, "call": now_us()}
        self._tell(n=number, begin={"process": self._options.name, **begun})
        return number

    def _end(self, number: int, outcome: str, result: Any = None) -> None:
        self._tell(n=number, end={"end": now_us(), "outcome": outcome, "result": result})

    def _value(self) -> str:
        return f"{self._options.name}.{next(self._values)}"

    # ---- registers and lists ----

    async def _replicate(self, connection: Connection) -> None:
        async with (
            replicate(connection, "objects", Objects(), replicas=self._options.replicas) as replica,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(replica.driver.until, lambda: False)  # ends with the session
            for _ in range(AT_ONCE):
                nursery.start_soon(self._use, replica)
            await self._stop.wait()
            await self._finish(replica)
            await trio.sleep_forever()

    async def _use(self, replica: Replicated) -> None:
        while not self._stop.is_set():
            await trio.sleep(self._rng.uniform(0.0, 2 * PAUSE_S))
            if replica.is_current and not self._stop.is_set():
                kind, key, act = self._draw()
                await self._submit(replica, kind, key, act)

    def _draw(self) -> tuple[str, str, Any]:
        rng = self._rng
        if rng.random() < 0.5:
            write = ["write", self._value()]
            return "register", rng.choice(REGISTERS), rng.choice((["read"], write))
        acts = []
        for key in rng.sample(LISTS, rng.choice((1, 2, 2))):
            acts.append(["read", key] if rng.random() < 0.5 else ["append", key, self._value()])
        return "list", "", acts

    async def _submit(self, replica: Replicated, kind: str, key: str, act: Any) -> Any:
        number = self._begin(kind, act, key)
        try:
            result = await replica.submit(msgspec.msgpack.encode([kind, key, act]))
        except OutcomeUnknown:
            self._end(number, "unknown")
            return None
        self._end(number, "ok", result)
        if kind == "register" and act == ["read"] and self._rng.random() < 0.5:
            await self._submit(replica, kind, key, ["cas", result, self._value()])
        return result

    async def _finish(self, replica: Replicated) -> None:
        """Read everything once, so that what was lost is missed."""
        if not self._finished:
            await replica.until_current()
            for key in REGISTERS:
                await self._submit(replica, "register", key, ["read"])
            await self._submit(replica, "list", "", [["read", key] for key in LISTS])
            self._finished = True
        self._tell(finished=True)

    # ---- the lock ----

    async def _lock(self, connection: Connection) -> None:
        async with join_mutex(connection, "lock", programs=self._options.replicas) as mutex:
            while not self._stop.is_set():
                await trio.sleep(self._rng.uniform(0.0, 4 * PAUSE_S))
                async with mutex:
                    number = self._begin("lock", ["hold"])
                    await trio.sleep(HOLD_S)
                    self._end(number, "ok")
            await trio.sleep_forever()

    # ---- the queue ----

    async def _work(self, connection: Connection) -> None:
        async with connection.work("jobs", name="set", deadline_s=30.0) as worker:
            self._works.set()
            async for job in worker:
                async with job:
                    self._end(self._begin("queue", ["do", bytes(job.data).decode()]), "ok")

    async def _send(self, connection: Connection) -> None:
        view: list[DaemonView] = []

        async def listen() -> None:
            while True:
                events: Sequence[Any] = await connection.receive_batch()
                view.extend(event for event in events if isinstance(event, DaemonView))

        await self._works.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            while not self._stop.is_set():
                await trio.sleep(self._rng.uniform(0.0, 2 * PAUSE_S))
                before, job = view[-1:], self._value()
                number = self._begin("queue", ["send", job])
                await connection.multicast_ordered("jobs", job.encode(), level=ServiceLevel.SAFE)
                majority = bool(before and before[0].majority and view[-1:] == before)
                self._end(number, "ok" if majority else "unknown")
            await trio.sleep_forever()


def main() -> None:
    """Run one program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--replicas", type=int, required=True, help="the programs in all")
    parser.add_argument("--trace", type=Path, required=True)
    trio.run(Program(parser.parse_args()).run)


if __name__ == "__main__":
    main()
