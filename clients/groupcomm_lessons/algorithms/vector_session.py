"""Vector stamps in a group whose members come and go.

Source: K. Birman, A. Schiper, P. Stephenson, "Lightweight Causal and Atomic Group Multicast", ACM
TOCS 9(3), 1991, section 5; there a membership service tells everybody of a change at the same place
among the messages. Here each process may be told at a time of its own, and the rules are:

- A join adds a count of 0, a leave drops it. Counts of a member that has left are ignored in
  stamps, and its messages are dropped. Messages of a member whose join is not known yet wait for
  the join, and so do their possible effects.
- A session may be known before its members are: the first message waits until all have come.
- A latecomer starts with a copy of a sponsor's vector and of the messages that wait there. It has
  missed the messages that the vector counts, and need not wait for them. The sponsor passes on
  later messages of members that did not know of the latecomer.

These rules do not cover a leave with messages in flight: a membership service must settle which
members deliver one and which drop it. In this project that is the daemons' (docs/membership.md).
"""

from collections.abc import Iterable

import attrs

from groupcomm.clocks.vector import VectorClock
from groupcomm.errors import LocalProtocolError
from groupcomm_lessons.algorithms.buffering import Received
from groupcomm_lessons.algorithms.process import Name, Packet, Step
from groupcomm_lessons.algorithms.vector import Vector


@attrs.frozen
class Welcome:
    """The help of a sponsor for a latecomer.

    Attributes:
        clock: the messages that the latecomer need not wait for; its own count is 0.
        buffer: the messages that are not counted there, and may not be sent again.
        left: the former members.
    """

    clock: VectorClock[Name]
    buffer: tuple[Received, ...]
    left: frozenset[Name]


class VectorSession(Vector):
    """A vector process that is told of joins and leaves.

    Attributes:
        missing: members of the session that have not come yet; messages wait for them.
    """

    def __init__(
        self, me: Name, members: Iterable[Name] = (), *, expected: Iterable[Name] = ()
    ) -> None:
        super().__init__(me, members)
        self.missing = set(expected) - set(self.members)
        self._left: set[Name] = set()
        self._sponsored: set[Name] = set()
        self._held: list[bytes] = []

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """Send a message, which is held back while a member is missing; see `Vector.send`."""
        if self.missing and destinations is None:
            self._held.append(data)
            return Step()
        return super().send(data, destinations)

    def receive(self, packet: Packet) -> Step:
        """Process a message; pass it on to latecomers that lack it. See `Buffering.receive`."""
        assert packet.message is not None
        if packet.message.sender in self._left:
            return Step()
        to = self._sponsored - set(packet.message.destinations)
        step = super().receive(packet)
        return Step(self._fan_out(packet.message, packet.stamp, sorted(to)), step.deliveries)

    def join(self, name: Name) -> Step:
        """Add a member; send the messages that were held back if it was the last one missing.

        Raises:
            LocalProtocolError: it is a member, or was one; a member that comes again needs a new
                name.
        """
        if name in self._left:
            raise LocalProtocolError(f"{name} has left: come again by another name")
        self._clock.add(name)
        self._trace.added(name)
        self.members = tuple(sorted({*self.members, name}))
        self.missing.discard(name)
        return self._go_on()

    def sponsor(self, name: Name) -> tuple[Step, Welcome]:
        """Add a latecomer, and help it to start, as its sponsor; see `join`.

        The sponsor is told of it before all others.
        """
        step = self.join(name)
        self._sponsored.add(name)
        return step, Welcome(self._clock.copy(), tuple(self._buffer), frozenset(self._left))

    def start(self, welcome: Welcome) -> Step:
        """Start late, before any message was sent or received."""
        self._clock = welcome.clock.copy()
        self._trace.created(dict(self._clock.items()))
        self.members = tuple(sorted(name for name, _ in self._clock.items()))
        self._buffer += welcome.buffer
        self._left |= welcome.left
        return self._go_on()

    def leave(self, name: Name) -> Step:
        """Remove another member, which has left or will not come; nothing waits for it any more.

        Raises:
            LocalProtocolError: the name is neither a member nor missing, or is this process.
        """
        if name == self.me:
            raise LocalProtocolError(f"{name} is this process itself; drop it instead")
        if name in self.missing:
            self.missing.remove(name)
            return self._go_on()
        self._clock.drop(name)
        self._trace.dropped(name)
        self.members = tuple(each for each in self.members if each != name)
        self._left.add(name)
        self._sponsored.discard(name)
        self._buffer = [one for one in self._buffer if one.message.sender != name]
        return self._go_on()

    def delivered_from(self, name: Name) -> int:
        """Return the number of a member's messages that were delivered here or need no wait."""
        return self._clock[name]

    def _is_next(self, received: Received) -> bool:
        counted = (name for name, count in received.stamp.items() if count)
        known = all(name in self._clock or name in self._left for name in counted)
        return known and super()._is_next(received)

    def _go_on(self) -> Step:
        """Send and deliver the messages that a change of the members releases."""
        deliveries = tuple(self._pop_next())
        packets: tuple[Packet, ...] = ()
        while self._held and not self.missing:
            step = super().send(self._held.pop(0))
            packets += step.packets
            deliveries += step.deliveries
        return Step(packets, deliveries)
