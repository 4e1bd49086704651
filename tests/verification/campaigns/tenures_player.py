"""What the programs of the campaign of tenures have in common: lines of JSON, and sessions.

A program never gives up: a session that has ended is followed by another one, that of the
connection or that of a new one.
"""

import argparse
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

from groupcomm.errors import SessionError
from groupcomm_client.connection import Connection
from tests.groupcomm_client.kinds import Kind

GROUP: Final = "campaign"
WRITE_S: Final = 0.003
RETRY_S: Final = 0.05


def tell(**what: object) -> None:
    os.write(1, json.dumps({**what, "at": time.monotonic_ns()}).encode() + b"\n")


class Player:
    """One program.

    Attributes:
        options: its command line.
        number: counts what it does, through all its sessions.
        stopping: set when it is to begin nothing more.
        ending: set when it is to end.
    """

    def __init__(self, kind: Kind, options: argparse.Namespace) -> None:
        self._kind = kind
        self.options = options
        self.number = 0
        self.stopping = threading.Event()
        self.ending = threading.Event()

    def next_name(self) -> str:
        """Return a name that no program has used."""
        self.number += 1
        return f"{self.options.name}.{self.number}"

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for one part of coordination alone."""
        options = self.options
        async with self._kind.connect(options.address, reconnect=options.reconnect) as found:
            yield found.wrapped.awaited if hasattr(found, "wrapped") else found

    async def run(self, play: "Play") -> None:
        """Play until it is stopped, in one session after the other."""
        while not self.stopping.is_set():
            try:
                await play(self)
            except* SessionError as group:  # of each connection
                tell(ended=str(group.exceptions[0]))
                time.sleep(RETRY_S)

    async def until_ending(self, connection: Connection, **last: object) -> None:
        """Say the last word, and stay for the others' sake."""
        tell(**last)
        while not self.ending.is_set():
            await connection.loop.sleep(WRITE_S)


Play: TypeAlias = Callable[[Player], Awaitable[None]]


def membership(connection: Connection, group: str = GROUP) -> str | None:
    """Return the session by which a program is a member of a group; None if it is none."""
    session = connection.present_session()
    is_member = session.protocol.is_open and group in session.groups
    return str(session.member) if is_member else None
