"""Up to where the daemons of a ring can deliver its stream, whoever goes on with whom.

Pure. A daemon *can deliver* a packet of its ring's stream once it holds the stream up to it, knows
the groups, and has delivered what V of these packets names below AGREED. From then on no end of the
view takes the packet from it: nothing that the packet follows can be missing there. What all
daemons of the ring can deliver they report to each other, in tokens, rest notices and held notices,
while no other ring need say anything; a SAFE message that stays in the ring waits for no more.
"""

from collections.abc import Callable

from groupcomm.order.local_line import LocalLine
from groupcomm.stream.stream import Stream


class Deliverable:
    """What one daemon knows of its ring.

    Attributes:
        ring: all daemons of the ring can deliver its stream up to this number.
        is_reported: whether the daemons of this view report it; if not, nothing waits for it.
    """

    __slots__ = (
        "_has_streams",
        "_line",
        "_on_risen",
        "_own",
        "_reported",
        "_stream",
        "_vector",
        "is_reported",
        "ring",
    )

    def __init__(
        self,
        stream: Stream,
        line: LocalLine,
        has_streams: Callable[[tuple[int, ...]], bool],
        on_risen: Callable[[], None] | None = None,
    ) -> None:
        """Begin with nothing.

        Args:
            stream: the stream of the own ring.
            line: knows what is waited for, and up to where the groups are known.
            has_streams: returns whether all up to V is here, and delivered below AGREED.
            on_risen: is called when the ring's number has risen; None if none is reported.
        """
        self._stream, self._line = stream, line
        self._has_streams, self._on_risen = has_streams, on_risen
        self.is_reported = on_risen is not None
        self.ring = self._own = self._reported = stream.held
        self._vector: tuple[int, ...] | None = None  # the last V that passed

    @property
    def own(self) -> int:
        """Return the number up to which this daemon can deliver the stream."""
        stream, number, upto = self._stream, self._own, self._line.upto
        while number < upto:
            vector = None
            if number >= stream.forgotten:
                vector = stream.packets[number + 1].vector
            if vector is not None and vector is not self._vector:
                if not self._has_streams(vector):
                    break
                self._vector = vector
            number += 1
        self._own = number
        return number

    def report(self) -> int:
        """Return `own`, which goes into the token now."""
        self._reported = self.own
        return self._reported

    @property
    def is_due(self) -> bool:
        """Return whether a packet waits for the ring, and this daemon can report more for it."""
        return self.waits and self._reported < self._line.wanted and self._reported < self.own

    @property
    def waits(self) -> bool:
        """Return whether a packet waits for the ring."""
        return self.ring < self._line.wanted

    def raise_to(self, number: int) -> None:
        """Note that all daemons of the ring can deliver its stream up to a number."""
        if number > self.ring and self._on_risen is not None:
            self.ring = number
            self._on_risen()
