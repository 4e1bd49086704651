"""The interface of every algorithm: a process that sends, receives and delivers.

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
"""The name of a process; unique in its group."""


class Order(enum.Enum):
    """An order of delivery that an algorithm may claim.

    Each order concerns every two messages and every process that delivers both.
    """

    FIFO = "fifo"  # two messages of one sender: in the order of their sending
    CAUSAL = "causal"  # two messages of which one may have caused the other: the cause first
    TOTAL = "total"  # any two messages: the same one first at all processes


class Message(NamedTuple):
    """A message of a user.

    Attributes:
        sender: the process that sent it.
        number: its number at its sender, from 1; with `sender` it names the message.
        destinations: the processes that are to deliver it, the sender too, if it is among them.
        data: the user's data.
    """

    sender: Name
    number: int
    destinations: tuple[Name, ...]
    data: bytes

    @property
    def id(self) -> MessageId:
        """Return the sender and the number."""
        return self.sender, self.number

    def __str__(self) -> str:
        return f"{self.sender}{self.number}"


class Packet(NamedTuple):
    """A packet that the network carries to one process.

    Attributes:
        source, destination: the sending and the receiving process.
        message: the user's message that it carries; None if it carries none.
        stamp: the algorithm's part: numbers, names, and tuples, lists, dicts and vector clocks of
            these.
    """

    source: Name
    destination: Name
    message: Message | None
    stamp: Any

    @property
    def stamp_bytes(self) -> int:
        """Return the length of the stamp on a wire; see `size_of`."""
        return size_of(self.stamp)


class Step(NamedTuple):
    """The results of one call.

    Attributes:
        packets: packets for the network.
        deliveries: messages to deliver to the user now.
    """

    packets: tuple[Packet, ...] = ()
    deliveries: tuple[Message, ...] = ()


class Process(ABC):
    """One process of a group.

    Attributes:
        claims: the orders that it keeps, whatever the network does.
        needs_fifo: whether packets from one process to another must come as they were sent.
        me: the name of the process.
        members: the members of the group, itself among them, sorted.
    """

    claims: ClassVar[frozenset[Order]] = frozenset()
    needs_fifo: ClassVar[bool] = False

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        self.me = me
        self.members = tuple(sorted({me, *members}))
        self._sent = 0
        self._trace = SILENT

    def watch(self, trace: StepTrace) -> None:
        """Record the steps that are visible from inside only; see `traced` for the others."""
        self._trace = trace

    @abstractmethod
    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """Send a message.

        Args:
            data: the user's data.
            destinations: members; None for all of them, the only choice for broadcasts.

        Raises:
            LocalProtocolError: a destination is not a member, or the algorithm cannot send to it.
        """

    @abstractmethod
    def receive(self, packet: Packet) -> Step:
        """Process a packet that the network has brought; each packet comes once."""

    @property
    @abstractmethod
    def waiting(self) -> tuple[Message, ...]:
        """Return the messages for this process, own ones too, that may not be delivered yet.

        A message that its sender may not even send yet is among them, whatever its destinations.
        """

    def awaited(self, message: Message) -> tuple[MessageId, ...]:
        """Return the messages that a waiting message waits for, as far as its stamp names them."""
        return ()

    def says(self, packet: Packet) -> str:
        """Return a word for a packet without a message that a trace is to show; "" for none."""
        return ""

    def _message(self, data: bytes, destinations: Iterable[Name] | None) -> Message:
        """Return the next message."""
        to = self.members if destinations is None else tuple(sorted(set(destinations)))
        strangers = [name for name in to if name not in self.members]
        if strangers or not to:
            raise LocalProtocolError(
                f"cannot send to {', '.join(strangers) or 'nobody'}: members are "
                f"{', '.join(self.members)}"
            )
        self._sent += 1
        self._trace.counted(self._sent)
        return Message(self.me, self._sent, to, data)

    def _fan_out(
        self, message: Message | None, stamp: Any, to: Iterable[Name]
    ) -> tuple[Packet, ...]:
        """Return a packet for each of these processes except this one."""
        return tuple(Packet(self.me, name, message, stamp) for name in to if name != self.me)


def size_of(stamp: Any) -> int:
    """Return the bytes of a stamp: 8 for a number, a name's length and 1, a collection's parts.

    Raises:
        TypeError: the stamp has a part of another type.
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
        case _:
            raise TypeError(f"a stamp with a {type(stamp).__name__} has no length on a wire")


def _size_of_item(key: Any, value: Any) -> int:
    """Return the bytes of a key and a value; values of a long history repeat the same names."""
    if type(value) is tuple and set(map(type, value)) == {str}:
        return _size_of_fixed(key) + _size_of_fixed(value)
    return size_of(key) + size_of(value)


@lru_cache(maxsize=4096)
def _size_of_fixed(part: Any) -> int:
    return size_of(part)
