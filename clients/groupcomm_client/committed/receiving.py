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
"""The results of `receive`: batches in place of publishers' messages, and all other events."""


class CommittedStream:
    """A filter of events that holds back the rows of a batch until it is whole.

    Args:
        groups: the groups that the receiver is a member of.
        state: a value of `state`; None to begin anew.

    Raises:
        ConfigError: the state is invalid.
    """

    def __init__(self, groups: Iterable[str], state: Any = None) -> None:
        self._publications: Publications[Message] = Publications(groups, state)

    @property
    def state(self) -> dict[str, Any]:
        """Return the progress, for JSON."""
        return self._publications.state

    def accept(self, event: Received) -> Given | None:
        """Accept the next event; return the event that the program receives now, or None."""
        if not isinstance(event, Message) or not is_publisher(event.sender.name):
            return event
        return self._publications.accept(
            event.sender, event.number, event.groups, event.type, event.data, event
        )


class Committed:
    """A receiver of batches on a connection of trio or asyncio; made by `committed`."""

    def __init__(self, connection: Connection, stream: CommittedStream) -> None:
        self._connection = connection
        self._stream = stream

    @property
    def state(self) -> dict[str, Any]:
        """Return the progress, for JSON.

        A program that saves it together with the results of the batches, and passes it to
        `committed` after a restart, receives each batch once.
        """
        return self._stream.state

    async def receive(self, timeout_s: float | None = None) -> Given:
        """Return the next event, or batch; safe to cancel.

        Args:
            timeout_s: the longest wait in seconds; None for no limit.

        Raises:
            TimeoutError: no event has arrived in time.
            SessionEnded: no event follows; its code is 0 after an orderly end.
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
    """A receiver of batches on a blocking connection; ``BlockingCommitted(connection, groups)``.

    Args:
        connection: the connection, from which nothing else may receive.
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
        connection: a connection of trio or asyncio, from which nothing else may receive.
        groups: the groups that it is a member of. A batch is returned when all of its rows for
            these are there.
        state: a value of `Committed.state`; None to begin with the next message.

    Raises:
        ConfigError: the state is invalid.
    """
    return Committed(connection, CommittedStream(groups, state))
