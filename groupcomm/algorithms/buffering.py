"""What algorithms have in common that hold messages back until they are next.

A message that is received goes into a buffer. Then, as long as the buffer holds one that is next,
that one is taken out, counted and delivered: it may be what others waited for.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from groupcomm.algorithms.process import Message, Name, Packet, Process, Step
from groupcomm.errors import LocalProtocolError
from groupcomm.trace.steps import MessageId


class Received(NamedTuple):
    """A message and the stamp with which it came."""

    message: Message
    stamp: Any


class Buffering(Process):
    """A process that knows of a message whether it is next, and counts those that it delivers."""

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._buffer: list[Received] = []

    def receive(self, packet: Packet) -> Step:
        """Buffer it, and deliver what is next now."""
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
        """What must be delivered before a message, as far as its stamp names it."""
        return ()

    @abstractmethod
    def _is_next(self, received: Received) -> bool:
        """Whether a message may be delivered now."""

    @abstractmethod
    def _count(self, received: Received) -> None:
        """Note that a message of another process is delivered."""

    def _pop_next(self) -> Iterator[Message]:
        while (received := next(filter(self._is_next, self._buffer), None)) is not None:
            self._buffer.remove(received)
            self._count(received)
            yield received.message

    def _broadcast(self, data: bytes, destinations: Iterable[Name] | None) -> Message:
        """The next message, of an algorithm that sends to all or not at all.

        Raises:
            LocalProtocolError: it is not for all members.
        """
        if destinations is not None and set(destinations) != set(self.members):
            raise LocalProtocolError(
                f"{type(self).__name__} knows broadcasts only: leave destinations out, or take"
                " SchiperEggliSandoz or MessageHistory"
            )
        return self._message(data, None)
