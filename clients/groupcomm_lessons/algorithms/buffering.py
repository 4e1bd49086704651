"""The base of algorithms that hold messages back until they are next.

A received message is put into a buffer. Then, as long as the buffer holds a message that is next,
that message is removed, counted and delivered: others may have waited for it.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from groupcomm.errors import LocalProtocolError
from groupcomm.trace.steps import MessageId
from groupcomm_lessons.algorithms.process import Message, Name, Packet, Process, Step


class Received(NamedTuple):
    """A message and the stamp with which it came."""

    message: Message
    stamp: Any


class Buffering(Process):
    """A process that knows whether a message is next, and counts the delivered ones."""

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._buffer: list[Received] = []

    def receive(self, packet: Packet) -> Step:
        """Buffer a message, and deliver the messages that are next now."""
        assert packet.message is not None
        self._buffer.append(Received(packet.message, packet.stamp))
        return Step(deliveries=tuple(self._pop_next()))

    @property
    def waiting(self) -> tuple[Message, ...]:
        """See `Process.waiting`."""
        return tuple(received.message for received in self._buffer)

    def awaited(self, message: Message) -> tuple[MessageId, ...]:
        """See `Process.awaited`."""
        return tuple(
            each
            for received in self._buffer
            if received.message == message
            for each in self._missing(received)
        )

    def _missing(self, received: Received) -> Iterable[MessageId]:
        """Return the messages that must be delivered before a message, if its stamp names them."""
        return ()

    @abstractmethod
    def _is_next(self, received: Received) -> bool:
        """Return whether a message may be delivered now."""

    @abstractmethod
    def _count(self, received: Received) -> None:
        """Note that a message of another process is delivered."""

    def _pop_next(self) -> Iterator[Message]:
        while (received := next(filter(self._is_next, self._buffer), None)) is not None:
            self._buffer.remove(received)
            self._count(received)
            yield received.message

    def _broadcast(self, data: bytes, destinations: Iterable[Name] | None) -> Message:
        """Return the next message of an algorithm that only broadcasts.

        Raises:
            LocalProtocolError: the message is not for all members.
        """
        if destinations is not None and set(destinations) != set(self.members):
            raise LocalProtocolError(
                f"{type(self).__name__} can only broadcast: leave destinations out, or "
                "use SchiperEggliSandoz or MessageHistory"
            )
        return self._message(data, None)
