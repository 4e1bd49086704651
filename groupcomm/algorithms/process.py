"""What every algorithm is: a process that sends, receives and delivers.

A process does no I/O. `send` and `receive` return a `Step`: packets for the network, and messages
that may now be delivered, in this order.
"""

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from groupcomm.clocks.vector import VectorClock
from groupcomm.errors import LocalProtocolError
from groupcomm.trace.steps import SILENT, MessageId, StepTrace

Name = str
"""Of a process; unique in its group."""


class Order(enum.Enum):
    """What an algorithm may claim of the order in which messages are delivered.

    Each is said of every two messages and every process that delivers both.
    """

    FIFO = "fifo"  # two of one sender: as they were sent
    CAUSAL = "causal"  # one may have caused the other: the cause first
    TOTAL = "total"  # any two: the same one first at all processes


class Message(NamedTuple):
    """What a user sends.

    Attributes:
        sender: who sent it.
        number: its place in its sender's count, from 1; with `sender` it names the message.
        destinations: who is to deliver it, the sender, too, if it is among them.
        data: the user's.
    """

    sender: Name
    number: int
    destinations: tuple[Name, ...]
    data: bytes

    @property
    def id(self) -> MessageId:
        """Sender and number."""
        return self.sender, self.number

    def __str__(self) -> str:
        return f"{self.sender}{self.number}"


class Packet(NamedTuple):
    """What the network carries to one process.

    Attributes:
        source, destination: from whom, to whom.
        message: the user's message that it carries; None if it carries none.
        stamp: what the algorithm adds: numbers, names, and tuples, lists, dicts and vector clocks
            of these.
    """

    source: Name
    destination: Name
    message: Message | None
    stamp: Any

    @property
    def stamp_bytes(self) -> int:
        """Length of the stamp on a wire; see `size_of`."""
        return size_of(self.stamp)


class Step(NamedTuple):
    """What comes of one call.

    Attributes:
        packets: to hand to the network.
        deliveries: messages that the user may be given now.
    """

    packets: tuple[Packet, ...] = ()
    deliveries: tuple[Message, ...] = ()


class Process(ABC):
    """One process of a group.

    Attributes:
        claims: the orders that it keeps, whatever the network does.
        needs_fifo: whether packets from one process to another must come as they were sent.
        me: its name.
        members: of the group, itself among them, sorted.
    """

    claims: ClassVar[frozenset[Order]] = frozenset()
    needs_fifo: ClassVar[bool] = False

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        self.me = me
        self.members = tuple(sorted({me, *members}))
        self._sent = 0
        self._trace = SILENT

    def watch(self, trace: StepTrace) -> None:
        """Have the steps recorded that are seen from inside only; see `traced` for the others."""
        self._trace = trace

    @abstractmethod
    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """Send a message.

        Args:
            data: the user's.
            destinations: members; None: all of them. An algorithm for broadcasts takes no others.

        Raises:
            LocalProtocolError: a destination is no member, or the algorithm cannot do it.
        """

    @abstractmethod
    def receive(self, packet: Packet) -> Step:
        """Take a packet that the network has brought; each comes once."""

    @property
    @abstractmethod
    def waiting(self) -> tuple[Message, ...]:
        """Messages for this process, sent or received by it, that may not be delivered yet.

        One that its sender may not even pass on yet is among them, whoever it is for.
        """

    def awaited(self, message: Message) -> tuple[MessageId, ...]:
        """What a message that waits here waits for, as far as its stamp names it."""
        return ()

    def says(self, packet: Packet) -> str:
        """A word for a packet without a message that a trace is to show; "" if it is not."""
        return ""

    def _message(self, data: bytes, destinations: Iterable[Name] | None) -> Message:
        """The next message."""
        to = self.members if destinations is None else tuple(sorted(set(destinations)))
        strangers = [name for name in to if name not in self.members]
        if strangers or not to:
            raise LocalProtocolError(
                f"{', '.join(strangers) or 'nobody'} cannot be sent to; members are"
                f" {', '.join(self.members)}"
            )
        self._sent += 1
        self._trace.counted(self._sent)
        return Message(self.me, self._sent, to, data)

    def _fan_out(
        self, message: Message | None, stamp: Any, to: Iterable[Name]
    ) -> tuple[Packet, ...]:
        """A packet for each of these but the process itself."""
        return tuple(Packet(self.me, name, message, stamp) for name in to if name != self.me)


def size_of(stamp: Any) -> int:
    """Bytes of a stamp: 8 of a number, a name's length and 1, of a collection that of its parts.

    Raises:
        TypeError: it is none of these.
    """
    match stamp:
        case None:
            return 0
        case int():
            return 8
        case str():
            return 1 + len(stamp.encode())
        case Mapping() | VectorClock():
            return sum(_size_of_item(key, value) for key, value in stamp.items())
        case list() | tuple() | set() | frozenset():
            return sum(map(size_of, stamp))
    raise TypeError(f"a stamp with a {type(stamp).__name__} has no length on a wire")


def _size_of_item(key: Any, value: Any) -> int:
    """Of a key and a value; a long history has the same names in each of its values."""
    if type(value) is tuple and set(map(type, value)) == {str}:
        return _size_of_fixed(key) + _size_of_fixed(value)
    return size_of(key) + size_of(value)


@lru_cache(maxsize=4096)
def _size_of_fixed(part: Any) -> int:
    return size_of(part)
