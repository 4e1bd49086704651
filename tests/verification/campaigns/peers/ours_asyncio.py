"""Programs of ours under asyncio."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

from groupcomm.events import Message
from groupcomm_client import Connection, aio
from groupcomm_tools.bench.plan import GROUP, Plan
from tests.verification.campaigns.peers.peer import Client


class AsyncioOurs(Client):
    """A connection of groupcomm under asyncio; it ends with its process."""

    def __init__(self, stack: AsyncExitStack, connection: Connection, plan: Plan) -> None:
        self._stack = stack
        self._connection = connection
        self._plan = plan

    @classmethod
    async def open(cls, address: str, plan: Plan, *, sends: bool) -> Self:
        stack = AsyncExitStack()
        connection = await stack.enter_async_context(aio.connect(address))
        if not sends:
            await connection.join(GROUP)
        return cls(stack, connection, plan)

    async def send(self, messages: Sequence[bytes]) -> None:
        for data in messages:
            await self._connection.multicast(GROUP, data, level=self._plan.level)

    async def receive(self) -> list[bytes]:
        events = await self._connection.receive_batch()
        return [event.data for event in events if type(event) is Message]


CLIENT = AsyncioOurs
