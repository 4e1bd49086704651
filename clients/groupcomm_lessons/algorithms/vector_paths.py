"""Concurrent messages as paths that part and join: a vector and a buffer for the end of each.

A message follows a path if the vector of the path's end is below its own. It is put into the buffer
of the first path that it follows. If it follows several, its sender had delivered the ends of all
of them, and it joins them into one; so does every message that is sent here.

`VectorTree` is the path tree as its source describes it: a message that follows no path makes a
copy of the stamp and a new buffer, and is delivered at once, flagged as concurrent, even if a cause
of it is missing. So nothing is lost, but a message may come before its cause.

`VectorPaths` is an extension that keeps causal order: such a message opens a path, and waits there
for its causes on all paths. The new path starts with a copy of the vector as far as the message has
it, where the two parted. Deliveries and their times are those of `vector`; the paths add the
knowledge of the concurrency: messages at the ends of two paths are concurrent.
"""

from collections.abc import Iterable
from typing import Final

import attrs

from groupcomm.clocks.vector import Relation, VectorClock
from groupcomm_lessons.algorithms.buffering import Received
from groupcomm_lessons.algorithms.process import Message, Name, Order, Packet, Step
from groupcomm_lessons.algorithms.vector import Vector

_BEYOND: Final = Relation.AFTER, Relation.CONCURRENT


@attrs.define
class Path:
    """A path from the first message to a last one.

    Attributes:
        clock: the stamp of its last message, or of the place where it is to part from the others.
        buffer: the messages that follow it and are not next.
    """

    clock: VectorClock[Name]
    buffer: list[Received] = attrs.field(factory=list)

    def leads_to(self, stamp: VectorClock[Name]) -> bool:
        """Return whether a message with this stamp follows."""
        return self.clock.compare(stamp) is Relation.BEFORE


class VectorPaths(Vector):
    """A process that keeps all paths.

    Attributes:
        paths: at least one path, the oldest first.
    """

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self.paths = [Path(VectorClock(self.members))]

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """Send a message, which follows all messages delivered here; see `Vector.send`."""
        step = super().send(data, destinations)
        self._append(self._clock.copy())
        return step

    def receive(self, packet: Packet) -> Step:
        """Put a message where it follows; deliver the messages that are next on any path now."""
        assert packet.message is not None
        received = Received(packet.message, packet.stamp)
        following = [path for path in self.paths if path.leads_to(received.stamp)]
        path = following[0] if following else self._open(received)
        path.buffer.append(received)
        delivered = []
        while (found := self._next_on_any_path()) is not None:
            delivered.append(found.message)
            self._count(found)
            self._append(found.stamp)
        return Step(deliveries=tuple(delivered))

    @property
    def waiting(self) -> tuple[Message, ...]:
        """See `Process.waiting`."""
        return tuple(received.message for path in self.paths for received in path.buffer)

    def _open(self, received: Received) -> Path:
        parted = VectorClock[Name]()
        for name, count in self._clock.items():
            parted.add(name, min(count, received.stamp[name]))
        self.paths.append(Path(parted))
        self._trace.concurrent(received.message.id)
        self._trace.copied(received.message.id, len(self.paths))
        return self.paths[-1]

    def _next_on_any_path(self) -> Received | None:
        for path in self.paths:
            for received in path.buffer:
                if self._is_next(received):
                    path.buffer.remove(received)
                    return received
        return None

    def _append(self, stamp: VectorClock[Name]) -> None:
        """Note a delivery: paths that lead to the message end with it now, as one."""
        before = [path for path in self.paths if path.leads_to(stamp)]
        joined = Path(stamp, [received for path in before for received in path.buffer])
        self.paths = [path for path in self.paths if path not in before]
        self.paths.append(joined)


class VectorTree(VectorPaths):
    """A process with the path tree: it delivers messages that follow no path at once.

    Attributes:
        flagged: messages that were delivered as concurrent, in the order of their delivery.
    """

    claims = frozenset[Order]()

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self.flagged: list[Message] = []

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """Send a message, and deliver waiting ones that are concurrent with it; see
        `Vector.send`."""
        step = Vector.send(self, data, destinations)
        beside = self._end_with(self._clock.copy())
        return Step(step.packets, (*step.deliveries, *self._arrive(beside)))

    def receive(self, packet: Packet) -> Step:
        """Buffer a message on a path, or deliver it at once; then deliver the next ones."""
        assert packet.message is not None
        delivered = self._arrive([Received(packet.message, packet.stamp)])
        while (found := self._next_on_any_path()) is not None:
            delivered += self._deliver(found)
        return Step(deliveries=tuple(delivered))

    def _arrive(self, arrived: Iterable[Received]) -> list[Message]:
        """Put messages where they belong; return those that are delivered at once."""
        delivered = []
        for received in arrived:
            path = next((path for path in self.paths if path.leads_to(received.stamp)), None)
            if path is not None:
                path.buffer.append(received)
            else:
                self._flag(received.message)
                delivered += self._deliver(received)
        return delivered

    def _deliver(self, received: Received) -> list[Message]:
        """Deliver a message, and concurrent ones that waited for others; return them all."""
        self._clock.merge(received.stamp)
        return [received.message, *self._arrive(self._end_with(received.stamp))]

    def _flag(self, message: Message) -> None:
        self.flagged.append(message)
        self._trace.concurrent(message.id)
        self._trace.copied(message.id, len(self.paths) + 1)

    def _end_with(self, stamp: VectorClock[Name]) -> list[Received]:
        """End paths with a stamp; return the buffered messages on them that do not follow it."""
        self._append(stamp)
        end = self.paths[-1]
        beside = [received for received in end.buffer if not end.leads_to(received.stamp)]
        end.buffer = [received for received in end.buffer if end.leads_to(received.stamp)]
        return beside

    def _is_next(self, received: Received) -> bool:
        """Return whether a message is next, or a late cause of a delivered effect."""
        return super()._is_next(received) or received.stamp.compare(self._clock) not in _BEYOND
