"""Receiving batches from a connection of any kind."""

from collections.abc import Iterable
from typing import Any, Self

from groupcomm.errors import Code, SessionEnded
from groupcomm.events import Message
from groupcomm_client.blocking import BlockingConnection
from groupcomm_client.committed.markers import is_publisher
from groupcomm_client.committed.publications import Batch, Incomplete, Publications
from groupcomm_client.connection import Connection
from groupcomm_client.events import Received
from groupcomm_client.thread_loop import run

Given = Received | Batch[Message] | Incomplete
"""Batches in place of the messages of publishers; all else as it comes."""


class CommittedStream:
    """Holds the rows of a batch back until it is whole.

    Args:
        groups: of which the receiver is a member.
        state: as `state` gave it; None to begin anew.

    Raises:
        ConfigError: that is no state.
    """

    def __init__(self, groups: Iterable[str], state: Any = None) -> None:
        self._publications: Publications[Message] = Publications(groups, state)

    @property
    def state(self) -> dict[str, Any]:
        """What has been given, for JSON."""
        return self._publications.state

    def accept(self, event: Received) -> Given | None:
        """Take the next event; None: nothing is to be given now."""
        if not isinstance(event, Message) or not is_publisher(event.sender.name):
            return event
        return self._publications.accept(
            event.sender, event.number, event.groups, event.type, event.data, event
        )


class Committed:
    """Receives from a connection of trio or asyncio; made by `committed`."""

    def __init__(self, connection: Connection, stream: CommittedStream) -> None:
        self._connection = connection
        self._stream = stream

    @property
    def state(self) -> dict[str, Any]:
        """What was given, for JSON.

        A program saves it with what it made of the batches, and gives it to `committed` after a
        restart: then each batch is received once.
        """
        return self._stream.state

    async def receive(self, timeout_s: float | None = None) -> Given:
        """Return the next event, or batch; safe to cancel.

        Args:
            timeout_s: how long to wait for it; None: without end.

        Raises:
            TimeoutError: none has arrived in time.
            SessionEnded: nothing follows; its code is 0 after an orderly end.
        """
        if timeout_s is not None:
            return await self._connection.in_time(timeout_s, self.receive)
        while True:
            given = self._stream.accept(await self._connection.receive())
            if given is not None:
                return given

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Given:
        try:
            return await self.receive()
        except SessionEnded as error:
            if error.code == Code.OK:
                raise StopAsyncIteration from None
            raise


class BlockingCommitted:
    """The same for a blocking connection: ``BlockingCommitted(connection, ["alarms"])``.

    Args:
        connection: that receives nowhere else.
        groups, state: see `committed`.
    """

    def __init__(
        self, connection: BlockingConnection, groups: Iterable[str], state: Any = None
    ) -> None:
        self._committed = committed(connection.awaited, groups, state)

    @property
    def state(self) -> dict[str, Any]:
        """See `Committed.state`."""
        return self._committed.state

    def receive(self, timeout_s: float | None = None) -> Given:
        """Return the next event, or batch; see `Committed.receive`."""
        return run(self._committed.receive(timeout_s))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Given:
        try:
            return self.receive()
        except SessionEnded as error:
            if error.code == Code.OK:
                raise StopIteration from None
            raise


def committed(connection: Connection, groups: Iterable[str], state: Any = None) -> Committed:
    """Receive the batches of publishers, each once, and whole.

    Args:
        connection: of trio or asyncio, that receives nowhere else.
        groups: of which it is a member. A batch is given when all of its rows for these are there.
        state: as `Committed.state` was; None to begin with what arrives next.

    Raises:
        ConfigError: that is no state.
    """
    return Committed(connection, CommittedStream(groups, state))
