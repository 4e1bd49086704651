"""Redis' publish and subscribe: a server in C, and its blocking client with its parser in C."""

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


class RedisClient(Client):
    """Connected by the unix socket."""

    def __init__(self, connection: Any, subscription: Any) -> None:
        self._connection = connection
        self._subscription = subscription

    @classmethod
    async def open(cls, address: str, plan: Plan, *, sends: bool) -> Self:
        import redis  # noqa: PLC0415 - only its own programs need it

        connection = redis.Redis(unix_socket_path=address)
        subscription = connection.pubsub()
        if not sends:
            subscription.subscribe(GROUP)
            while subscription.get_message(timeout=LISTEN_S) is None:
                pass  # its first message reports the subscription
        return cls(connection, subscription)

    async def send(self, messages: Sequence[bytes]) -> None:
        if len(messages) == 1:
            self._connection.publish(GROUP, messages[0])
            return
        with self._connection.pipeline(transaction=False) as pipeline:
            for data in messages:
                pipeline.publish(GROUP, data)
            pipeline.execute()

    async def receive(self) -> list[bytes]:
        message = self._subscription.get_message(timeout=LISTEN_S)
        return [message["data"]] if message else []


CLIENT = RedisClient


class Redis(Peer):
    """One server that writes nothing to disk."""

    name = family = "redis"
    sending = "pipeline of publish"

    def missing(self) -> str:
        return not_installed(packages_of(redis_server="redis-server"), ["redis", "hiredis"])

    @asynccontextmanager
    async def open(self, plan: Plan) -> AsyncIterator[Servers]:
        with TemporaryDirectory(prefix="groupcomm-") as name:
            path = Path(name) / "redis.sock"
            command = ["redis-server", "--port", "0", "--unixsocket", str(path)]
            command += ["--save", "", "--dir", name]
            log = path.with_name("server.log")
            async with open_server(command, log, path.exists) as pid:
                yield Servers([pid], Programs(__name__, [str(path)], path.parent))
