"""NATS: a server in Go, and its client for asyncio; no order among senders."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from groupcomm_tools.bench.plan import GROUP, Plan
from tests.verification.campaigns.peers.launching import (
    Programs,
    not_installed,
    open_server,
    packages_of,
)
from tests.verification.campaigns.peers.peer import LISTEN_S, Client, Peer, Servers


class NatsClient(Client):
    """Connected by TCP: its server has no unix sockets."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._batch: list[bytes] = []
        self._come = asyncio.Event()

    @classmethod
    async def open(cls, address: str, plan: Plan, *, sends: bool) -> Self:
        import nats  # noqa: PLC0415 - only its own programs need it

        client = cls(await nats.connect(address))
        if not sends:
            await client._connection.subscribe(GROUP, cb=client._on_message)
        await client._connection.flush()
        return client

    async def send(self, messages: Sequence[bytes]) -> None:
        publish = self._connection.publish
        for data in messages:
            await publish(GROUP, data)
        await asyncio.sleep(0)  # the writing task gets its turn

    async def receive(self) -> list[bytes]:
        if not self._batch:
            self._come.clear()
            try:
                async with asyncio.timeout(LISTEN_S):
                    await self._come.wait()
            except TimeoutError:
                return []
        batch, self._batch = self._batch, []
        return batch

    async def _on_message(self, message: Any) -> None:
        self._batch.append(message.data)
        self._come.set()


CLIENT = NatsClient


class Nats(Peer):
    """One server, with its defaults."""

    name = family = "nats"
    sending = "one awaited publish per message, written together by its client"

    def missing(self) -> str:
        return not_installed(packages_of(nats_server="nats-server"), ["nats"])

    @asynccontextmanager
    async def open(self, plan: Plan) -> AsyncIterator[Servers]:
        with TemporaryDirectory(prefix="groupcomm-") as name:
            folder = Path(name)
            command = ["nats-server", "--addr", "127.0.0.1", "--port", "-1"]
            command += ["--ports_file_dir", name]
            log = folder / "server.log"
            async with open_server(command, log, lambda: bool(_addresses(folder))) as pid:
                yield Servers([pid], Programs(__name__, _addresses(folder), folder))


def _addresses(folder: Path) -> list[str]:
    """Return the address at which the server listens, once it has written that."""
    text = "".join(path.read_text() for path in folder.glob("*.ports"))
    return list(json.loads(text)["nats"]) if text.endswith("}") else []
