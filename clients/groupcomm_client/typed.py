"""Messages that are values of a type: msgspec structs, attrs classes, dataclasses, as JSON.

::

    class Reading(msgspec.Struct):
        sensor: str
        degrees: float

    readings = connection.typed(Reading)
    await readings.multicast("hall", Reading("north", 21.5))
    async for message in readings.messages():
        print(message.sender, message.value.degrees)

Messages are bytes all the same: whoever knows the type can read them, and a program may send and
receive others beside them. What a receiver cannot read ends nothing: only `TypedMessage.value` of
that message raises. The format is that of msgspec: https://jcristharif.com/msgspec/supported-types
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from types import UnionType
from typing import Any, Final, Generic, TypeVar, get_origin

import attrs
import msgspec

from groupcomm.errors import GroupCommError, LocalProtocolError
from groupcomm.events import MemberId, Message, Ordered
from groupcomm.level import ServiceLevel
from groupcomm_client.basic_connection import BasicConnection, Destinations
from groupcomm_client.events import Received
from groupcomm_client.thread_loop import run as complete
from groupcomm_client.undecodable import UNDECODABLE
from groupcomm_client.waiting import Waiting, calls, waits

__all__ = ["BlockingTyped", "Typed", "TypedMessage", "WrongValue"]

T = TypeVar("T")

_ENCODER: Final = msgspec.json.Encoder()


class WrongValue(GroupCommError):
    """A message is no value of the type that its receiver expects."""


@attrs.frozen
class TypedMessage(Generic[T]):
    """A message whose data are a value.

    Attributes:
        message: the message as it came.
    """

    message: Message
    _decoder: "msgspec.json.Decoder[T]" = attrs.field(repr=False, eq=False)

    @property
    def sender(self) -> MemberId:
        """Return who has sent it."""
        return self.message.sender

    @property
    def value(self) -> T:
        """Return the value.

        Raises:
            WrongValue: the data are none of that type.
        """
        try:
            return self._decoder.decode(self.message.data)
        except UNDECODABLE as error:
            raise WrongValue(
                f"the message of {self.sender.name} is no {self._decoder.type!r}: {error}"
            ) from None


class Typed(Generic[T]):
    """The calls of a connection for values of one type; made by `Connection.typed`."""

    def __init__(self, connection: BasicConnection, model: Any) -> None:
        """Send and receive by a connection.

        Raises:
            LocalProtocolError: the type has no form in JSON.
        """
        self._connection = connection
        try:
            self._decoder = msgspec.json.Decoder(model)
        except TypeError as error:
            raise LocalProtocolError(f"{model!r} is no type of messages: {error}") from None
        origin = None if isinstance(model, UnionType) else get_origin(model)
        self._kinds = origin or model  # of list[int]: list

    def encode(self, value: T) -> bytes:
        """Return the data of a value.

        Raises:
            LocalProtocolError: it, or a part of it, is not of the type, or has no form in JSON.
        """
        if not isinstance(value, self._kinds):
            raise LocalProtocolError(
                f"a message is of type {type(value).__name__}; write {self._decoder.type!r}, or"
                " send bytes by the connection itself"
            )
        try:
            data = _ENCODER.encode(value)
            self._decoder.decode(data)  # what no receiver could read is a mistake here
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise LocalProtocolError(
                f"this {type(value).__name__} cannot be sent as JSON, or not be read: {error}"
            ) from None
        return data

    def read(self, event: Received) -> "Received | TypedMessage[T]":
        """Return an event that was received in another way, with a value if it is a message.

        So a subscription has values, too.
        """
        return TypedMessage(event, self._decoder) if isinstance(event, Message) else event

    async def multicast(
        self,
        groups: Destinations,
        value: T,
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
    ) -> None:
        """Send a value; see `Connection.multicast`."""
        data = self.encode(value)
        await self._connection.multicast(
            groups, data, level=level, type=type, self_discard=self_discard
        )

    async def multicast_ordered(
        self,
        groups: Destinations,
        value: T,
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        type: int = 0,
        self_discard: bool = False,
    ) -> Ordered:
        """Send a value and return its place; see `Connection.multicast_ordered`."""
        data = self.encode(value)
        return await self._connection.multicast_ordered(
            groups, data, level=level, type=type, self_discard=self_discard
        )

    async def receive(self, timeout_s: float | None = None) -> Received | TypedMessage[T]:
        """Return the next event, a message with its value; see `Connection.receive`."""
        return self.read(await self._connection.receive(timeout_s))

    async def messages(self) -> AsyncGenerator[TypedMessage[T], None]:
        """Iterate over the messages until the connection ends, skipping other events."""
        async for message in self._connection.messages():
            yield TypedMessage(message, self._decoder)


class BlockingTyped(Waiting[Typed[T]], Generic[T]):
    """The same for threads; made by `BlockingConnection.typed`."""

    multicast = waits(Typed[T].multicast)
    multicast_ordered = waits(Typed[T].multicast_ordered)
    read = calls(Typed[T].read)
    receive = waits(Typed[T].receive)

    def messages(self) -> Iterator[TypedMessage[T]]:
        """Iterate over the messages until the connection ends, skipping other events."""
        coming = self.awaited.messages()
        with suppress(StopAsyncIteration):
            while True:
                yield complete(anext(coming))
