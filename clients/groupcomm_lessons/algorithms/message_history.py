"""Message history: a stamp names all messages that may have caused this one, or a few of them.

Source: the plain form is folklore, as in the Isis of K. Birman and T. Joseph, "Reliable
Communication in the Presence of Failures", ACM TOCS 5(1), 1987, whose messages carried their causes
themselves. The compressed one follows A. Kshemkalyani and M. Singhal, "Necessary and Sufficient
Conditions on Information for Causal Message Ordering", Distributed Computing 11(2), 1998. Both keep
causal order, so FIFO order too, for any destinations over any channels, and deliver alike.

A message waits at q for all messages in its stamp that are for q. So a stamp says for which
processes a message is. A process knows messages that it has not seen from the stamps of those that
it has: these go into its own stamps.

Plain stamps grow without end. Compressed ones leave out implied causes, destination by
destination. A process need not say any more that x is for q if it knows that

1. q has delivered x, or
2. a later message y, which x may have caused, was sent to q, too: a process that waits for y waits
   for x.

Unlike the paper's, these stamps are not the shortest possible: a process cannot tell unheard
causes from those that it need not name, so it names some of them in vain.
"""

from collections.abc import Iterable
from typing import NamedTuple

from groupcomm.trace.steps import MessageId
from groupcomm_lessons.algorithms.buffering import Buffering, Received
from groupcomm_lessons.algorithms.process import Message, Name, Order, Step

Entries = dict[MessageId, tuple[Name, ...]]
"""The destinations of each message, as far as they need be said."""


class HistoryStamp(NamedTuple):
    """The stamp of a message.

    Attributes:
        id: the id of the message.
        before: its possible causes, with their destinations.
    """

    id: MessageId
    before: Entries

    def concurrent_with(self, other: "HistoryStamp") -> bool:
        """Return whether neither message may have caused the other."""
        return self.id != other.id and self.id not in other.before and other.id not in self.before


class ShortStamp(NamedTuple):
    """The stamp of a message in the compressed form.

    Attributes:
        before: messages that must be delivered first, each with the destinations for which this
            holds.
    """

    before: Entries


class MessageHistory(Buffering):
    """A process that sends all the history that it knows."""

    claims = frozenset({Order.FIFO, Order.CAUSAL})

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._known: Entries = {}
        self._delivered: set[MessageId] = set()

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Process.send`; to itself, the sender delivers at once."""
        message = self._message(data, destinations)
        packets = self._fan_out(message, self._stamp(message), message.destinations)
        own = (message,) if self.me in message.destinations else ()
        self._delivered.update(each[:2] for each in own)
        self._learn(message, self._known)
        return Step(packets, own)

    def _stamp(self, message: Message) -> HistoryStamp | ShortStamp:
        return HistoryStamp(message[:2], self._known.copy())

    def _is_next(self, received: Received) -> bool:
        # A missing message is mostly among the latest entries, so most waits are found at once.
        latest_first = reversed(received.stamp.before.items())
        return all(id in self._delivered for id, to in latest_first if self.me in to)

    def _missing(self, received: Received) -> list[MessageId]:
        awaited = (id for id, to in received.stamp.before.items() if self.me in to)
        return [id for id in awaited if id not in self._delivered]

    def _count(self, received: Received) -> None:
        self._delivered.add(received.message[:2])
        self._learn(received.message, received.stamp.before)

    def _learn(self, message: Message, before: Entries) -> None:
        """Note a message that is sent or delivered here, and its possible causes."""
        self._known |= {**before, message[:2]: message.destinations}


class CompressedHistory(MessageHistory):
    """A process that sends only the history that nothing else implies.

    Two of its stamps alone do not tell whether their messages are concurrent.
    """

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._heard: set[MessageId] = set()  # all entries that were in `_known` at any time

    def _stamp(self, message: Message) -> ShortStamp:
        return ShortStamp(self._known.copy())

    def _learn(self, message: Message, before: Entries) -> None:
        to = {self.me, *message.destinations}
        # Rules 1 and 2; rule 2 not for messages concurrent with this one.
        implied = {id: set(left) - to for id, left in before.items()}
        known = self._merged(implied)
        # The sender delivered its own message at once.
        known[message[:2]] = set(message.destinations) - {self.me, message.sender}
        self._known = {id: tuple(sorted(to)) for id, to in known.items() if to}
        self._heard |= known.keys()

    def _merged(self, others: dict[MessageId, set[Name]]) -> dict[MessageId, set[Name]]:
        """Return the causes to name, as far as this process and others know.

        An entry that either side left out, though it had it once, is implied.
        """
        merged = {id: set(to) for id, to in self._known.items()}
        for id, to in others.items():
            if id in merged:
                merged[id] &= to
            elif id not in self._heard:
                merged[id] = to
        return merged
