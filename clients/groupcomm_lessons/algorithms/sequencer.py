"""Sequencer: all send to one process, which numbers the messages and broadcasts them.

Source: M. F. Kaashoek, A. S. Tanenbaum, "Group Communication in the Amoeba Distributed Operating
System", ICDCS 1991 (the PB method); X. Defago, A. Schiper, P. Urban, "Total Order Broadcast and
Multicast Algorithms", ACM Computing Surveys 36(4), 2004, section on fixed sequencers.

Rule: the sequencer is the first member by name. It gives each message the next number; every
    process, the sender too, delivers in the order of the numbers, without gaps. A message costs one
    packet to the sequencer and one to each other member; the sequencer is a bottleneck and a single
    point of failure.

`Sequencer` numbers messages as they come: a total order and no other, because two messages of a
sender may change places on their way to it, and the first may have caused the second. Nothing else
can go wrong: a process delivers a message only when it has its number. So `SenderSequencer`, which
lets a message wait until all earlier ones of its sender have their numbers, keeps all three orders
over any channels, and so does `Sequencer` over channels that keep their order.
"""

from collections.abc import Iterable

from groupcomm_lessons.algorithms.numbered import Numbered
from groupcomm_lessons.algorithms.process import Message, Name, Order, Packet, Process, Step


class Sequencer(Process):
    """A process with a sequencer; a packet to it has no stamp, one from it a number.

    A process that is not a destination gets the number alone, as there must be no gaps.
    """

    claims = frozenset({Order.TOTAL})

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self.sequencer = self.members[0]
        self._numbered = Numbered(me)
        self._last = 0  # the last number that was given; only the sequencer uses it

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Process.send`."""
        message = self._message(data, destinations)
        if self.me == self.sequencer:
            return self._on_submitted(message)
        return Step((Packet(self.me, self.sequencer, message, None),))

    def receive(self, packet: Packet) -> Step:
        """Number a message that was sent to the sequencer; deliver those that have their
        numbers."""
        if packet.stamp is None:
            assert packet.message is not None
            return self._on_submitted(packet.message)
        return Step(deliveries=self._numbered.add(packet.stamp, packet.message))

    def _on_submitted(self, message: Message) -> Step:
        """Number a message that has come to the sequencer, or wait."""
        return self._number(message)

    def _number(self, message: Message) -> Step:
        self._last += 1
        packets: list[Packet] = []
        for name in self.members:
            content = message if name in message.destinations else None
            packets += self._fan_out(content, self._last, [name])
        return Step(tuple(packets), self._numbered.add(self._last, message))

    @property
    def waiting(self) -> tuple[Message, ...]:
        """Return the waiting messages; own ones only at the sequencer. See `Process.waiting`."""
        return self._numbered.waiting


class SenderSequencer(Sequencer):
    """A process whose sequencer keeps the order of each sender."""

    claims = frozenset(Order)

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._counted = dict.fromkeys(self.members, 0)  # numbered messages of each sender
        self._early: dict[tuple[Name, int], Message] = {}

    def _on_submitted(self, message: Message) -> Step:
        sender = message.sender
        self._early[sender, message.number] = message
        packets: tuple[Packet, ...] = ()
        deliveries: tuple[Message, ...] = ()
        while following := self._early.pop((sender, self._counted[sender] + 1), None):
            self._counted[sender] += 1
            step = self._number(following)
            packets, deliveries = packets + step.packets, deliveries + step.deliveries
        return Step(packets, deliveries)

    @property
    def waiting(self) -> tuple[Message, ...]:
        """Return the waiting messages, also those without numbers; see `Process.waiting`."""
        return self._numbered.waiting + tuple(self._early.values())
