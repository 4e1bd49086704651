"""ZeroMQ's publish and subscribe: a library in C++ that connects programs without a server."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from groupcomm_tools.bench.plan import Plan
from tests.verification.campaigns.peers.launching import Programs, not_installed
from tests.verification.campaigns.peers.peer import LISTEN_S, Client, Peer, Servers


class ZeroMqClient(Client):
    """The sender's socket is bound, the receivers' ones are connected to it."""

    def __init__(self, socket: Any, again: type[Exception], no_wait: int) -> None:
        self._socket = socket
        self._again = again
        self._no_wait = no_wait

    @classmethod
    async def open(cls, address: str, plan: Plan, *, sends: bool) -> Self:
        import zmq  # noqa: PLC0415 - only its own programs need it

        # XPUB is a PUB that reports its subscribers.
        socket = zmq.Context().socket(zmq.XPUB if sends else zmq.SUB)
        socket.set_hwm(0)  # otherwise it drops messages; the sender keeps to its window
        if sends:
            socket.setsockopt(zmq.XPUB_VERBOSE, 1)  # report each receiver, not only the first
            socket.bind(address)
            for _ in range(plan.receivers):
                socket.recv()
        else:
            socket.subscribe(b"")
            socket.connect(address)
        return cls(socket, zmq.Again, zmq.NOBLOCK)

    async def send(self, messages: Sequence[bytes]) -> None:
        send = self._socket.send
        for data in messages:
            send(data)

    async def receive(self) -> list[bytes]:
        batch: list[bytes] = []
        if not self._socket.poll(LISTEN_S * 1000):
            return batch
        receive, no_wait = self._socket.recv, self._no_wait
        try:
            while len(batch) < 1024:
                batch.append(receive(no_wait))
        except self._again:
            pass
        return batch


CLIENT = ZeroMqClient


class ZeroMq(Peer):
    """No server; programs on a unix socket."""

    name = family = "zmq"
    sending = "one call per message, written together by its thread"

    def missing(self) -> str:
        return not_installed([], ["zmq"])

    @asynccontextmanager
    async def open(self, plan: Plan) -> AsyncIterator[Servers]:
        with TemporaryDirectory(prefix="groupcomm-") as name:
            address = f"ipc://{name}/publisher.sock"
            yield Servers([], Programs(__name__, [address], Path(name)))
