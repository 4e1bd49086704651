"""A program that holds a mutex, leads, or is a replica, again and again, under any loop.

While it holds or leads it writes into a database outside the cluster, with its token: the database
refuses older ones. It never gives up: a session that has ended is followed by another one, that of
the connection or that of a new one. Prints lines of JSON. A line of input has it stop, and the end
of its input has it end.
"""

import argparse
import json
import os
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from groupcomm.errors import GroupCommError, SessionError
from groupcomm_client.connection import Connection
from groupcomm_client.coordination import (
    LeadershipLost,
    MutexLost,
    OutcomeUnknown,
    join_mutex,
    replicate,
    stand,
)
from tests.groupcomm_client.coordination.ledger import Ledger
from tests.groupcomm_client.kinds import KINDS, Kind

PARTS: Final = ("mutex", "election", "replica")
STAY_S: Final = 0.03
WRITE_S: Final = 0.003
RETRY_S: Final = 0.05
END_S: Final = 1.5
PROGRAMS: Final = 3


def tell(**what: object) -> None:
    os.write(1, json.dumps({**what, "at": time.monotonic_ns()}).encode() + b"\n")


class Database:
    """A resource that knows nothing of the cluster, and refuses older tokens than it has seen."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=60, isolation_level=None)

    def write(self, token: int, who: str) -> bool:
        """Write a row unless a later holder has; return whether it is written."""
        text = f"{token:032x}"
        done = self._connection.execute(
            "INSERT INTO writes (token, who) SELECT ?, ?"
            " WHERE ? >= (SELECT coalesce(max(token), '') FROM writes)",
            (text, who, text),
        )
        return done.rowcount == 1


class Player:
    """One program."""

    def __init__(self, kind: Kind, options: argparse.Namespace) -> None:
        self._kind = kind
        self._options = options
        self._database: Database | None = None
        self._number = 0
        self.stopping = threading.Event()
        self.ending = threading.Event()

    async def run(self, _kind: Kind) -> None:
        self._database = Database(self._options.database)
        while not self.stopping.is_set():
            try:
                await self._one_connection()
            except SessionError as error:
                tell(ended=str(error))
                time.sleep(RETRY_S)

    async def _one_connection(self) -> None:
        options = self._options
        async with self._kind.connect(options.address, reconnect=options.reconnect) as found:
            wrapped = hasattr(found, "wrapped")
            connection: Connection = found.wrapped.awaited if wrapped else found
            match options.part:
                case "mutex":
                    async with join_mutex(connection, "campaign") as mutex:
                        await self._tenures(connection, mutex, lambda: mutex, lambda: mutex.token)
                case "election":
                    async with stand(connection, "campaign", candidates=PROGRAMS) as election:
                        await self._tenures(
                            connection, election, election.leading, lambda: election.term
                        )
                case "replica":
                    await self._replicate(connection)

    async def _tenures(self, connection: Connection, part: Any, enter: Any, token: Any) -> None:
        while not self.stopping.is_set():
            try:
                async with enter():
                    await self._stay(connection, part, token())
                tell(out=token())
                await connection.loop.sleep(WRITE_S)  # others get their turn
            except (MutexLost, LeadershipLost):
                tell(lost=True)

    async def _stay(self, connection: Connection, part: Any, token: int) -> None:
        assert self._database is not None
        tell(entered=token)
        end = time.monotonic() + STAY_S
        while time.monotonic() < end and not self.stopping.is_set():
            believes = part.holds if self._options.part == "mutex" else part.leads
            if not self._database.write(token, str(os.getpid())):
                tell(refused=token, believed=believes)
            await connection.loop.sleep(WRITE_S)
        tell(last=token)

    async def _replicate(self, connection: Connection) -> None:
        ledger = Ledger()
        async with replicate(connection, "campaign", ledger, replicas=PROGRAMS) as replica:
            while not self.stopping.is_set():
                self._number += 1
                key = f"{self._options.name}.{self._number}"
                try:
                    await replica.submit(json.dumps([key, 1]).encode())
                    tell(acknowledged=key)
                except OutcomeUnknown:
                    tell(unknown=key)
                await connection.loop.sleep(WRITE_S)
            await connection.loop.sleep(END_S)  # the others have stopped by then, too
            await replica.until_current()
            tell(contents={k: v for k, v in ledger.numbers.items() if k != "members"})
            while not self.ending.is_set():
                await connection.loop.sleep(WRITE_S)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--loop", choices=[kind.name for kind in KINDS], required=True)
    parser.add_argument("--reconnect", action="store_true")
    parser.add_argument("--name", default="")
    options = parser.parse_args()
    (kind,) = (kind for kind in KINDS if kind.name == options.loop)
    player = Player(kind, options)

    def watch() -> None:
        sys.stdin.readline()
        player.stopping.set()
        sys.stdin.read()
        player.ending.set()
        time.sleep(END_S)
        os._exit(0)  # it may wait for its turn, which does not come any more

    threading.Thread(target=watch, daemon=True).start()
    try:
        kind.run(player.run)
    except GroupCommError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
