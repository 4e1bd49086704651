"""A check of the causes that one session receives, from its events alone."""

from typing import Final

from groupcomm.clocks.stamp import Stamp
from groupcomm.events import CausalContext, DaemonView, Event, Message
from groupcomm.level import ServiceLevel

_CAUSAL: Final = ServiceLevel.CAUSAL
_AGREED: Final = ServiceLevel.AGREED


class Contexts:
    """A checker of the events of one session, in order.

    Attributes:
        messages: the number of messages with a position.
        contexts: the number of these with (A, V).
        missing: the number of messages at CAUSAL or above without (A, V) or without any causes.
        violations: messages that came after a message that depends on them.
    """

    def __init__(self) -> None:
        self.messages = self.contexts = self.missing = 0
        self.violations: list[str] = []
        self._begin()

    def _begin(self) -> None:
        """Begin a view: no message of it was received, so none may be late."""
        self._heard: list[int] = []  # for each ring: no message below AGREED may come up to here
        self._agreed = Stamp(0, 0)  # no AGREED or SAFE message may come up to here

    def received(self, event: Event) -> None:
        """Process the next event."""
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
                f" {causes.packet} at {stamp} comes after a message that depends on it:"
                f" A {self._agreed}, V {self._heard}"
            )
        if causes.agreed is not None:
            self.contexts += 1
            self._agreed = max(self._agreed, causes.agreed)
            self._heard = [*map(max, causes.heard, self._heard or causes.heard)]
        elif message.level >= _CAUSAL:
            self.missing += 1
