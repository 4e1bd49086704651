"""Receiving batches from a connection or a subscription of any kind."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from groupcomm.clocks.stamp import Position
from groupcomm.errors import Code, SessionEnded
from groupcomm.events import Message
from groupcomm_client.blocking import BlockingConnection
from groupcomm_client.committed.markers import is_publisher
from groupcomm_client.committed.publications import Batch, Incomplete, Publications
from groupcomm_client.connection import Connection
from groupcomm_client.history.given import Given as Event
from groupcomm_client.history.places import just_before
from groupcomm_client.waiting import Events, shows, waits

if TYPE_CHECKING:
    from groupcomm_client.history.blocking import BlockingSubscription
    from groupcomm_client.history.subscription import Subscription

Given: TypeAlias = Event | Batch[Message] | Incomplete
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

    @property
    def first_open(self) -> Position | None:
        """Return the place of the first message of the batches that are not whole; None if none."""
        places = [message.position for message in self._publications.open]
        return min((place for place in places if place is not None), default=None)

    def accept(self, event: Event) -> Given | None:
        """Accept the next event; return the event that the program receives now, or None."""
        if not isinstance(event, Message) or not is_publisher(event.sender.name):
            return event
        return self._publications.accept(
            event.sender, event.number, event.groups, event.type, event.data, event
        )


class Committed:
    """A receiver of batches on a connection of trio or asyncio; made by `committed`."""

    def __init__(self, source: "Connection | Subscription", stream: CommittedStream) -> None:
        self._source = source
        self._stream = stream

    @property
    def state(self) -> dict[str, Any]:
        """Return the progress, for JSON.

        A program that saves it together with the results of the batches, and passes it to
        `committed` after a restart, receives each batch once.
        """
        return self._stream.state

    @property
    def position(self) -> Position | None:
        """Return where the next subscription must begin that goes on with `state`.

        That is before the first message of the batches that are not whole. None before the first
        event, and without a subscription.
        """
        if isinstance(self._source, Connection):
            return None
        first, position = self._stream.first_open, self._source.position
        return position if first is None or position is None else min(position, just_before(first))

    async def receive(self, timeout_s: float | None = None) -> Given:
        """Return the next event, or batch; safe to cancel.

        Args:
            timeout_s: the longest wait in seconds; None for no limit.

        Raises:
            TimeoutError: no event has arrived in time.
            SessionEnded: no event follows; its code is 0 after an orderly end.
        """
        if timeout_s is not None:
            return await self._source.in_time(timeout_s, self.receive)
        while True:
            given = self._stream.accept(await self._source.receive())
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


class BlockingCommitted(Events[Committed, Given]):
    """A receiver of batches on a blocking connection; ``BlockingCommitted(connection, groups)``.

    Args:
        source: the connection or the subscription, from which nothing else may receive.
        groups, state: see `committed`.
    """

    state = shows(Committed.state)
    position = shows(Committed.position)
    receive = waits(Committed.receive)

    def __init__(
        self,
        source: "BlockingConnection | BlockingSubscription",
        groups: Iterable[str],
        state: Any = None,
    ) -> None:
        super().__init__(committed(source.awaited, groups, state))


def committed(
    source: "Connection | Subscription", groups: Iterable[str], state: Any = None
) -> Committed:
    """Receive the batches of publishers, each once, and whole.

    Args:
        source: a connection of trio or asyncio, or a subscription on one, which begins in the past;
            nothing else may receive from it.
        groups: the groups that it is a member of. A batch is returned when all of its rows for
            these are there.
        state: a value of `Committed.state`; None to begin with the next message.

    Raises:
        ConfigError: the state is invalid.
    """
    return Committed(source, CommittedStream(groups, state))
