"""A program that plays one part of coordination again and again, under any loop.

Prints lines of JSON. A line of input has it stop, and the end of its input has it end. While it
holds a mutex or leads it writes into a database outside the cluster, with its token: the database
refuses older ones.
"""

import argparse
import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from groupcomm.errors import GroupCommError
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
from tests.groupcomm_client.kinds import KINDS
from tests.verification.campaigns.tenures_player import GROUP, WRITE_S, Play, Player, tell
from tests.verification.campaigns.tenures_requests import ask_and_serve
from tests.verification.campaigns.tenures_resource import use_and_keep
from tests.verification.campaigns.tenures_work import give_and_work

STAY_S: Final = 0.03
END_S: Final = 1.5
PROGRAMS: Final = 3


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


async def hold(player: Player) -> None:
    async with player.connection() as connection, join_mutex(connection, GROUP) as mutex:
        await _tenures(player, connection, lambda: mutex, lambda: (mutex.token, mutex.holds))


async def lead(player: Player) -> None:
    async with (
        player.connection() as connection,
        stand(connection, GROUP, candidates=PROGRAMS) as election,
    ):
        await _tenures(
            player,
            connection,
            election.leading,
            lambda: (election.term, election.leads),
        )


async def _tenures(
    player: Player, connection: Connection, enter: Any, token: Callable[[], tuple[int, bool]]
) -> None:
    database = Database(player.options.database)
    while not player.stopping.is_set():
        try:
            async with enter():
                await _stay(player, connection, database, token)
            tell(out=token()[0])
            await connection.loop.sleep(WRITE_S)  # others get their turn
        except (MutexLost, LeadershipLost):
            tell(lost=True)


async def _stay(
    player: Player,
    connection: Connection,
    database: Database,
    state: Callable[[], tuple[int, bool]],
) -> None:
    token, _ = state()
    tell(entered=token)
    end = time.monotonic() + STAY_S
    while time.monotonic() < end and not player.stopping.is_set():
        _, believes = state()
        if not database.write(token, str(os.getpid())):
            tell(refused=token, believed=believes)
        await connection.loop.sleep(WRITE_S)
    tell(last=token)


async def be_a_replica(player: Player) -> None:
    ledger = Ledger()
    async with (
        player.connection() as connection,
        replicate(connection, GROUP, ledger, replicas=PROGRAMS) as replica,
    ):
        while not player.stopping.is_set():
            key = player.next_name()
            try:
                await replica.submit(json.dumps([key, 1]).encode())
                tell(acknowledged=key)
            except OutcomeUnknown:
                tell(unknown=key)
            await connection.loop.sleep(WRITE_S)
        await connection.loop.sleep(END_S)  # the others have stopped by then, too
        await replica.until_current()
        contents = {k: v for k, v in ledger.numbers.items() if k != "members"}
        await player.until_ending(connection, stopped=True, contents=contents)


PLAYS: Final[dict[str, Play]] = {
    "mutex": hold,
    "election": lead,
    "replica": be_a_replica,
    "requests": ask_and_serve,
    "work": give_and_work,
    "resource": use_and_keep,
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--part", choices=PLAYS, required=True)
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
        kind.run(lambda _: player.run(PLAYS[options.part]))
    except GroupCommError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
