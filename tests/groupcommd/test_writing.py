"""The core's output for a client is written, also while its socket accepts no more."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from typing import cast

import trio

from groupcomm.engine import DaemonCore, Input, Output
from groupcomm.wire.packet import Raw
from groupcommd.programs.connections import Connections
from groupcommd.programs.listeners import Listener

MUCH = 4 * 1024 * 1024


class Core:
    """A core with output for one client, for whom all senders wait until it has read.

    Attributes:
        output: the output that the client has not got.
        deadline: at once when there is none any more.
    """

    def __init__(self) -> None:
        self.output = b""
        self.deadline = inf
        self.turns = 0

    def next_connection(self) -> int:
        return 1

    def why_name_taken(self, _user: str) -> str:
        return ""

    def pop_output(self, connection: int, limit: int) -> list[Raw]:
        data, self.output = self.output[:limit], self.output[limit:]
        if not data:
            self.deadline = 0.0
        return [data] if data else []


class Plant:
    """The connections of one core, and one program."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.core = Core()
        self.clients = Connections(cast(DaemonCore, self.core), nursery, self._turn)

    def _turn(self) -> None:
        """Take a step: what waited for the client comes now."""
        inputs: list[Input] = self.clients.inputs.copy()
        self.clients.inputs.clear()
        if self.core.deadline <= trio.current_time():
            self.core.deadline = inf
            self.core.turns += 1
            self.tell(b"more")
        assert len(inputs) <= 1

    def tell(self, data: bytes) -> None:
        """The core has more for the client."""
        self.core.output += data
        output = Output([])
        output.ready = [1]
        self.clients.carry_out(output)


async def identify_all(accepted: socket.socket) -> str:
    """Call everybody the same."""
    return "unix:x"


@asynccontextmanager
async def plant() -> AsyncIterator[tuple[Plant, trio.SocketStream]]:
    """A program is connected."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        listener = Listener(listening, 1, identify_all)
        async with trio.open_nursery() as nursery:
            made = Plant(nursery)
            nursery.start_soon(made.clients.listen, listener)
            async with await trio.open_tcp_stream(*listening.getsockname()) as program:
                while not len(made.clients):
                    await trio.sleep(0.001)
                yield made, program
            nursery.cancel_scope.cancel()


async def test_what_comes_while_the_last_of_it_is_written_is_written_too() -> None:
    async with plant() as (made, program):
        made.tell(bytes(MUCH))
        received = b""
        with trio.move_on_after(3):
            while not received.endswith(b"more"):
                received += await program.receive_some()
        assert made.core.turns == 1
        assert len(received) == MUCH + len(b"more")
