"""Vector stamps in a group whose members come and go.

Source: K. Birman, A. Schiper, P. Stephenson, "Lightweight Causal and Atomic Group Multicast", ACM
TOCS 9(3), 1991, section 5; there a membership service tells everybody of a change at the same place
among the messages. Here each process may be told at a time of its own, and the rules are:

- A join adds a count of 0, a leave drops it. What a stamp says of somebody who has left is passed
  over, and what comes from him is dropped. What comes from somebody of whom no join was told yet
  waits for that, and so does what he may have caused.
- A session may be known before its members are: the first message waits until all have come.
- A latecomer starts with a copy of a sponsor's vector and of what waits there. It has missed what
  that counts, and need not wait for it. What the sponsor gets later, from those who did not know of
  the latecomer, the sponsor passes on.

A leave with messages under way is where these rules end: who has delivered one and who has dropped
it is for a membership service to settle. In this project that is the daemons' (docs/membership.md).
"""

from collections.abc import Iterable

import attrs

from groupcomm.algorithms.buffering import Received
from groupcomm.algorithms.process import Name, Packet, Step
from groupcomm.algorithms.vector import Vector
from groupcomm.clocks.vector import VectorClock
from groupcomm.errors import LocalProtocolError


@attrs.frozen
class Welcome:
    """What a sponsor gives to a latecomer.

    Attributes:
        clock: what the latecomer need not wait for; its own count is 0.
        buffer: what is not counted there, and may not be sent again.
        left: who was a member once.
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
        """See `Vector.send`; nothing comes of it yet while somebody is missing."""
        if self.missing and destinations is None:
            self._held.append(data)
            return Step()
        return super().send(data, destinations)

    def receive(self, packet: Packet) -> Step:
        """See `Buffering.receive`; and pass it on to latecomers who were not sent it."""
        assert packet.message is not None
        if packet.message.sender in self._left:
            return Step()
        to = self._sponsored - set(packet.message.destinations)
        step = super().receive(packet)
        return Step(self._fan_out(packet.message, packet.stamp, sorted(to)), step.deliveries)

    def join(self, name: Name) -> Step:
        """Somebody has joined; what was held back is sent if it was the last who was missing.

        Raises:
            LocalProtocolError: it is a member, or was one; who comes again needs a new name.
        """
        if name in self._left:
            raise LocalProtocolError(f"{name} has left; it can come again by another name")
        self._clock.add(name)
        self._trace.added(name)
        self.members = tuple(sorted({*self.members, name}))
        self.missing.discard(name)
        return self._go_on()

    def sponsor(self, name: Name) -> tuple[Step, Welcome]:
        """Somebody has joined late, and this process helps it to a start. See `join`.

        The sponsor is told of it before all others.
        """
        step = self.join(name)
        self._sponsored.add(name)
        return step, Welcome(self._clock.copy(), tuple(self._buffer), frozenset(self._left))

    def start(self, welcome: Welcome) -> Step:
        """Start late, before anything was sent or received."""
        self._clock = welcome.clock.copy()
        self._trace.created(dict(self._clock.items()))
        self.members = tuple(sorted(name for name, _ in self._clock.items()))
        self._buffer += welcome.buffer
        self._left |= welcome.left
        return self._go_on()

    def leave(self, name: Name) -> Step:
        """Somebody else has left, or will not come; nothing waits for it any more.

        Raises:
            LocalProtocolError: it is neither a member nor missing, or it is this process.
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
        """How many messages of a member this process has delivered or need not wait for."""
        return self._clock[name]

    def _is_next(self, received: Received) -> bool:
        counted = (name for name, count in received.stamp.items() if count)
        known = all(name in self._clock or name in self._left for name in counted)
        return known and super()._is_next(received)

    def _go_on(self) -> Step:
        """What a change of the members lets go."""
        deliveries = tuple(self._pop_next())
        packets: tuple[Packet, ...] = ()
        while self._held and not self.missing:
            step = super().send(self._held.pop(0))
            packets += step.packets
            deliveries += step.deliveries
        return Step(packets, deliveries)
