"""Concurrent messages as paths that part and join: a vector and a buffer for the end of each.

An extension of `vector` by the choice that loses nothing: a message that follows none of the paths
opens one of its own. A message follows a path if the vector of the path's end is below its own. If
it follows several, its sender had delivered the ends of all of them, and it joins them into one; so
does every message that is sent here. A message that must wait does so in the buffer of a path that
it follows, or of the one that it opens: that starts with a copy of the vector as far as the message
has it, where the two parted.

What is delivered, and when, is as with `vector`: a message waits for its causes on all paths. What
the paths add is to know what is concurrent now: messages at the ends of two paths are.
"""

from collections.abc import Iterable

import attrs

from groupcomm.algorithms.buffering import Received
from groupcomm.algorithms.process import Message, Name, Packet, Step
from groupcomm.algorithms.vector import Vector
from groupcomm.clocks.vector import Relation, VectorClock


@attrs.define
class Path:
    """One way from the first message to a last one.

    Attributes:
        clock: the stamp of its last message, or where it is to part from the others.
        buffer: what follows it and is not next.
    """

    clock: VectorClock[Name]
    buffer: list[Received] = attrs.field(factory=list)

    def leads_to(self, stamp: VectorClock[Name]) -> bool:
        """Whether a message with this stamp follows."""
        return self.clock.compare(stamp) is Relation.BEFORE


class VectorPaths(Vector):
    """Keeps all paths.

    Attributes:
        paths: one at least; the oldest first.
    """

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self.paths = [Path(VectorClock(self.members))]

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Vector.send`; a message sent here follows all that was delivered here."""
        step = super().send(data, destinations)
        self._append(self._clock.copy())
        return step

    def receive(self, packet: Packet) -> Step:
        """Put it where it follows; deliver what is next on any path now."""
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
        """A message is delivered: paths that lead to it end with it now, as one."""
        before = [path for path in self.paths if path.leads_to(stamp)]
        joined = Path(stamp, [received for path in before for received in path.buffer])
        self.paths = [path for path in self.paths if path not in before]
        self.paths.append(joined)
