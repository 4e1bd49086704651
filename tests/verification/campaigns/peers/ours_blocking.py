"""Programs of ours without an event loop: threads that wait in calls."""

import time
from collections.abc import Coroutine, Sequence
from typing import Any, Self

from groupcomm.events import Message
from groupcomm_client.blocking import BlockingConnection, open_connection
from groupcomm_client.thread_loop import run
from groupcomm_tools.bench.plan import GROUP, Plan
from tests.verification.campaigns.peers.peer import Client


class BlockingOurs(Client):
    """A blocking connection of groupcomm."""

    def __init__(self, connection: BlockingConnection, plan: Plan) -> None:
        self._connection = connection
        self._plan = plan

    @staticmethod
    def run(main: Coroutine[Any, Any, None]) -> None:
        run(main)

    @staticmethod
    async def sleep(seconds: float) -> None:
        time.sleep(seconds)

    @classmethod
    async def open(cls, address: str, plan: Plan, *, sends: bool) -> Self:
        connection = open_connection(address)
        if not sends:
            connection.join(GROUP)
        return cls(connection, plan)

    async def send(self, messages: Sequence[bytes]) -> None:
        for data in messages:
            self._connection.multicast(GROUP, data, level=self._plan.level)

    async def receive(self) -> list[bytes]:
        events = self._connection.receive_batch()
        return [event.data for event in events if type(event) is Message]


CLIENT = BlockingOurs
