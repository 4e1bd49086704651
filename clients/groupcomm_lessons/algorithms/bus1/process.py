"""bus1 as a process with a network: every operation on a queue is a packet.

Each process has its queue, and a multicast does its steps (see `multicast`) by packets to the
destinations' queues, itself among them if it is one: a block, which brings the message along and
is answered with the clock; then the stamp, which is answered, too; then the order to queue it. So
a message costs five packets a destination, and two and a half round trips.

A process that sends again before that ticks its sendings in their order, and waits for no more: its
blocks for the first are all there by then, so all effects of the second stand behind them.
The orders are kept whatever the network does; packets of one channel may overtake each other.

Side channels are another matter: `send` returns before the message is anywhere. Only a peer that
waited for the end, as in `multicast`, could claim order across them. Without side channels there
would be no need to synchronise all queues before queueing at one, because all causes come through
queues that are ahead.
"""

from collections.abc import Iterable, Sequence

from groupcomm_lessons.algorithms.bus1.queue import Block, Queue, Stamp
from groupcomm_lessons.algorithms.process import Message, Name, Order, Packet, Process, Step

BLOCK, BLOCKED, SYNCHRONISE, SYNCHRONISED, QUEUE = range(5)
"""The kinds of packets; a packet's stamp is (kind, sender's index, message's number, value)."""


class _Sending:
    """A message that this process sends, with the answers that have come and the missing ones."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.awaited = set(message.destinations)
        self.highest = 0
        self.stamp: Stamp | None = None


class Bus1(Process):
    """A peer of the bus."""

    claims = frozenset({Order.FIFO, Order.CAUSAL, Order.TOTAL})

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._queue: Queue[Message] = Queue(self.members.index(me))
        self._blocks: dict[tuple[int, int], tuple[Message, Block[Message]]] = {}
        self._sendings: dict[int, _Sending] = {}
        self._queued: list[Message] = []

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Process.send`."""
        sending = _Sending(self._message(data, destinations))
        self._sendings[sending.message.number] = sending
        return Step(self._ask(sending, BLOCK))

    def _ask(self, sending: _Sending, what: int) -> tuple[Packet, ...]:
        """Ask every destination's queue for an operation."""
        message = sending.message
        value = 0 if sending.stamp is None else sending.stamp.value
        stamp = what, self._queue.id, message.number, value
        carried = message if what == BLOCK else None
        sending.awaited = set(message.destinations)
        return tuple(Packet(self.me, name, carried, stamp) for name in message.destinations)

    def receive(self, packet: Packet) -> Step:
        """Carry out a packet's operation on this process's queue, or count an answer."""
        what, sender, number, value = packet.stamp
        if what in (BLOCKED, SYNCHRONISED):
            return Step(tuple(self._answered(packet.source, number, value)))
        if what == BLOCK:
            assert packet.message is not None
            block = self._queue.block()
            self._blocks[sender, number] = packet.message, block
            return self._answer(packet, BLOCKED, block.at)
        if what == SYNCHRONISE:
            return self._answer(packet, SYNCHRONISED, self._queue.synchronise(value))
        message, lifted = self._blocks.pop((sender, number))
        self._queue.put(Stamp(value, sender), message, lifted)
        self._queued.append(message)
        return Step(deliveries=self._pop_all())

    def _answer(self, packet: Packet, what: int, value: int) -> Step:
        _, sender, number, _ = packet.stamp
        return Step((Packet(self.me, packet.source, None, (what, sender, number, value)),))

    def _answered(self, source: Name, number: int, value: int) -> Sequence[Packet]:
        sending = self._sendings[number]
        sending.awaited.remove(source)
        if sending.stamp is None:
            sending.highest = max(sending.highest, value)
            return self._tick()
        if sending.awaited:
            return ()
        del self._sendings[number]
        return self._ask(sending, QUEUE)

    def _tick(self) -> list[Packet]:
        """Stamp all messages whose blocks are there, up to the first one whose blocks are not."""
        packets: list[Packet] = []
        for sending in self._sendings.values():
            if sending.stamp is None:
                if sending.awaited:
                    break
                self._queue.synchronise(sending.highest)
                sending.stamp = Stamp(self._queue.tick(), self._queue.id)
                packets += self._ask(sending, SYNCHRONISE)
        return packets

    def _pop_all(self) -> tuple[Message, ...]:
        taken = tuple(message for _, message in iter(self._queue.pop, None))
        for message in taken:
            self._queued.remove(message)
        return taken

    @property
    def waiting(self) -> tuple[Message, ...]:
        """Return the messages that are blocked, or queued behind a block."""
        return (*(message for message, _ in self._blocks.values()), *self._queued)
