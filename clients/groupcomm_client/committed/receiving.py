"""Receiving batches from a connection of any kind."""

from collections.abc import Iterable
from typing import Any, Protocol, Self

from groupcomm.errors import SessionEnded
from groupcomm.session.codes import Code
from groupcomm_client.committed.stream import CommittedStream, Given
from groupcomm_client.conversation import Received
from groupcomm_client.patience import move_on_after
from groupcomm_client.sessions import Reconnected


class Receiver(Protocol):
    """A connection of trio or asyncio, for one session or staying."""

    async def receive(self) -> Received | Reconnected:
        """The next event."""


class BlockingReceiver(Protocol):
    """A blocking connection, for one session or staying."""

    def receive(self) -> Received | Reconnected | None:
        """The next event."""


class Committed:
    """Receives from a connection of trio or asyncio; made by `committed`."""

    def __init__(self, connection: Receiver, stream: CommittedStream) -> None:
        self._connection = connection
        self._stream = stream

    @property
    def state(self) -> dict[str, Any]:
        """What has been given, for JSON: saved with what was made of the batches, and given to
        `committed` after a restart, it has each of them come once.
        """
        return self._stream.state

    async def receive(self) -> Given:
        """The next event, or batch; safe to cancel.

        Raises:
            SessionEnded: nothing follows; its code is 0 after an orderly end.
        """
        while True:
            given = self._stream.take(await self._connection.receive())
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
        self, connection: BlockingReceiver, groups: Iterable[str], state: Any = None
    ) -> None:
        self._connection = connection
        self._stream = CommittedStream(groups, state)

    @property
    def state(self) -> dict[str, Any]:
        """See `Committed.state`."""
        return self._stream.state

    def receive(self, timeout_s: float | None = None) -> Given | None:
        """The next event, or batch; None if none comes in time.

        Raises:
            SessionEnded: nothing follows; its code is 0 after an orderly end.
        """
        with move_on_after(float("inf") if timeout_s is None else timeout_s):
            while True:
                event = self._connection.receive()
                given = None if event is None else self._stream.take(event)
                if given is not None:
                    return given
        return None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Given:
        try:
            given = self.receive()
        except SessionEnded as error:
            if error.code == Code.OK:
                raise StopIteration from None
            raise
        assert given is not None, "it waits without end"
        return given


def committed(connection: Receiver, groups: Iterable[str], state: Any = None) -> Committed:
    """Receive the batches of publishers, each once, and whole.

    Args:
        connection: of trio or asyncio, for one session or staying, that receives nowhere else.
        groups: of which it is a member. A batch is given when all of its rows for these have come.
        state: as `Committed.state` was; None to begin with what comes.

    Raises:
        ConfigError: that is no state.
    """
    return Committed(connection, CommittedStream(groups, state))
