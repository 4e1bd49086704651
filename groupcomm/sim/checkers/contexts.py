"""Causal order by what a session is told: the contexts of its messages against their rows.

It shares nothing with the other checkers: no trace, no clocks, no sets of causes. It is what
anybody can do who has the log of one receiver.
"""

from typing import Final

from groupcomm.clocks.stamp import Stamp
from groupcomm.events import CausalContext, DaemonView, Event, Message
from groupcomm.level import ServiceLevel

_CAUSAL: Final = ServiceLevel.CAUSAL
_AGREED: Final = ServiceLevel.AGREED


class Contexts:
    """Checks what one session is told, in order.

    Attributes:
        messages: that had a position.
        contexts: of those, that had (A, V).
        missing: of level CAUSAL or above, without (A, V) or without any causes.
        violations: what was told behind a message that depends on it.
    """

    def __init__(self) -> None:
        self.messages = self.contexts = self.missing = 0
        self.violations: list[str] = []
        self._begin()

    def _begin(self) -> None:
        """A view begins: no row of it is there, so nothing may come too late."""
        self._heard: list[int] = []  # per ring: nothing below AGREED up to here may come
        self._agreed = Stamp(0, 0)  # nothing of AGREED and SAFE up to here may come

    def told(self, event: Event) -> None:
        """Take the next event."""
        if isinstance(event, DaemonView):
            self._begin()
        elif isinstance(event, Message) and event.bundle is not None and event.index == 0:
            self._check(event, Stamp(event.bundle.time, event.bundle.ring), event.causes)

    def _check(self, message: Message, stamp: Stamp, causes: CausalContext | None) -> None:
        self.messages += 1
        if causes is None:
            self.missing += 1
            return
        if message.level >= _AGREED:
            late = stamp <= self._agreed
        else:
            late = stamp.ring < len(self._heard) and causes.packet <= self._heard[stamp.ring]
        if late:
            self.violations.append(
                f"{message.sender} {message.number} {message.level.name} of packet"
                f" {causes.packet} at {stamp} comes behind what depends on it:"
                f" A {self._agreed}, V {self._heard}"
            )
        if causes.agreed is not None:
            self.contexts += 1
            self._agreed = max(self._agreed, causes.agreed)
            self._heard = [*map(max, causes.heard, self._heard or causes.heard)]
        elif message.level >= _CAUSAL:
            self.missing += 1
