"""Relays with the same hops as ours and no protocol: the rates of trio and sockets alone."""

from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory
from typing import Any, Self

import trio

from groupcomm_tools.bench.bare import (
    HOST,
    READ_BYTES,
    UDP_BUFFER_BYTES,
    connect_relay,
    relay_command,
)
from groupcomm_tools.bench.plan import Plan
from groupcomm_tools.local_cluster import free_ports
from tests.verification.campaigns.peers.launching import Programs, open_server
from tests.verification.campaigns.peers.peer import LISTEN_S, Client, Peer, Servers


class BareClient(Client):
    """Messages one after the other on a unix socket: all have the same size."""

    window_bytes = UDP_BUFFER_BYTES // 2  # the system would lose more bytes

    def __init__(self, connection: socket, size: int) -> None:
        self._connection = connection
        self._size = size
        self._rest = b""

    @staticmethod
    def run(main: Coroutine[Any, Any, None]) -> None:
        async def start() -> None:
            await main

        trio.run(start)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await trio.sleep(seconds)

    @classmethod
    async def open(cls, address: str, plan: Plan, *, sends: bool) -> Self:
        connection = connect_relay(address)
        connection.setblocking(sends)
        return cls(connection, plan.size)

    async def send(self, messages: Sequence[bytes]) -> None:
        self._connection.sendall(b"".join(messages))

    async def receive(self) -> list[bytes]:
        with trio.move_on_after(LISTEN_S):
            await trio.lowlevel.wait_readable(self._connection)
            data = self._rest + self._connection.recv(READ_BYTES)
            size = self._size
            whole = len(data) - len(data) % size
            self._rest = data[whole:]
            return [data[at : at + size] for at in range(0, whole, size)]
        return []


CLIENT = BareClient


class BareRelays(Peer):
    """Start as many relays as there would be daemons."""

    name = "bare relay"
    sending = "many messages in one write"

    @asynccontextmanager
    async def open(self, plan: Plan) -> AsyncIterator[Servers]:
        ports = free_ports(HOST, plan.daemons)
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="groupcomm-")))
            paths = [folder / f"{index}.sock" for index in range(plan.daemons)]
            addresses = list(map(str, paths))
            pids = []
            for index, path in enumerate(paths):
                command = relay_command(addresses, ports, index)
                server = open_server(command, folder / "relay.log", path.exists)
                pids.append(await stack.enter_async_context(server))
            yield Servers(pids, Programs(__name__, addresses, folder))
