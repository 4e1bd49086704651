"""The history of a run: sendings, deliveries, and the orders that held; it checks all algorithms.

It decides from definitions, and knows no stamps.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, combinations
from typing import NamedTuple

from groupcomm_lessons.algorithms.process import Message, Name, Order


class Broken(NamedTuple):
    """Two messages that came in an order that a promise forbids.

    Attributes:
        order: the promised order.
        process: the process where it broke.
        first, second: the messages, as this process delivered them.
        why: a sentence.
    """

    order: Order
    process: Name
    first: Message
    second: Message
    why: str


class Event(NamedTuple):
    """A sending or a delivery.

    Attributes:
        process: the process of the event.
        message: the message.
        sends: whether the message was sent, not delivered.
    """

    process: Name
    message: Message
    sends: bool


class History:
    """The events of a run, in the order in which they happened.

    Attributes:
        events: all events.
        sent: messages, in the order of their sending.
        delivered: the deliveries of each process, in their order.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.sent: list[Message] = []
        self.delivered: dict[Name, list[Message]] = {}
        self._places: dict[Message, int] = {}
        # A set of messages is an integer: the bit at a message's place in `sent` stands for it.
        self._causes: list[int] = []
        self._known: dict[Name, int] = {}

    def send(self, message: Message, told: Iterable[Message] = ()) -> None:
        """Note a sending; everything that its sender had sent or delivered may have caused it.

        Args:
            told: the messages that its sender had learned of by other ways, with all their causes.
        """
        known = self._known.get(message.sender, 0)
        for other in told:
            known |= 1 << self._places[other]
        self.events.append(Event(message.sender, message, sends=True))
        self._places[message] = place = len(self.sent)
        self.sent.append(message)
        self._causes.append(known)
        self._known[message.sender] = known | 1 << place

    def deliver(self, process: Name, message: Message) -> None:
        """Note a delivery."""
        self.events.append(Event(process, message, sends=False))
        self.delivered.setdefault(process, []).append(message)
        place = self._places[message]
        self._known[process] = self._known.get(process, 0) | self._causes[place] | 1 << place

    def causes(self, message: Message) -> frozenset[Message]:
        """Return all possible causes of a message: those sent or delivered before it, and their
        causes."""
        causes = self._causes[self._places[message]]
        return frozenset(other for place, other in enumerate(self.sent) if causes >> place & 1)

    # ---- checks ----

    @property
    def missing(self) -> list[tuple[Name, Message]]:
        """Return the deliveries that are missing, as pairs of process and message."""
        delivered = {name: set(messages) for name, messages in self.delivered.items()}
        return [
            (name, message)
            for message in self.sent
            for name in message.destinations
            if message not in delivered.get(name, ())
        ]

    @property
    def twice(self) -> list[tuple[Name, Message]]:
        """Return the deliveries that came twice, or of a message for others."""
        found = []
        for name, messages in self.delivered.items():
            seen: set[Message] = set()
            for message in messages:
                if message in seen or name not in message.destinations:
                    found.append((name, message))
                seen.add(message)
        return found

    def broken(self, order: Order) -> list[Broken]:
        """Return all violations; where two processes differ, one for the pair."""
        return list(self.find(order))

    def held(self) -> frozenset[Order]:
        """Return the orders that held."""
        return frozenset(order for order in Order if next(self.find(order), None) is None)

    def find(self, order: Order) -> Iterator[Broken]:
        """Yield violations, computing as little as the caller asks for.

        A run in which nothing is broken costs about as many steps as it has deliveries, at each
        pair of processes for a total order; and only a message that may be the first of two in the
        wrong order is compared with all later ones.
        """
        match order:
            case Order.FIFO:
                return self._broken_fifo()
            case Order.CAUSAL:
                return self._broken_causal()
            case Order.TOTAL:
                return self._broken_total()

    def _broken_fifo(self) -> Iterator[Broken]:
        for name, messages in self.delivered.items():
            lowest: dict[Name, int] = {}  # the least number of a later message, by sender
            suspects = []
            for at in range(len(messages) - 1, -1, -1):
                sender, number = messages[at][:2]
                if lowest.setdefault(sender, number) < number:
                    suspects.append(at)
                lowest[sender] = min(lowest[sender], number)
            for at in reversed(suspects):
                first = messages[at]
                for second in messages[at + 1 :]:
                    if first.sender == second.sender and first.number > second.number:
                        why = f"{name}: {first} before {second}"
                        yield Broken(Order.FIFO, name, first, second, why)

    def _broken_causal(self) -> Iterator[Broken]:
        for name, messages in self.delivered.items():
            places = [self._places[message] for message in messages]
            later, suspects = 0, []
            for at in range(len(messages) - 1, -1, -1):
                if self._causes[places[at]] & later:
                    suspects.append(at)
                later |= 1 << places[at]
            for at in reversed(suspects):
                first, causes = messages[at], self._causes[places[at]]
                for second, place in zip(messages[at + 1 :], places[at + 1 :], strict=True):
                    if causes >> place & 1:
                        why = f"{name}: {first} before {second}, which may have caused it"
                        yield Broken(Order.CAUSAL, name, first, second, why)

    def _broken_total(self) -> Iterator[Broken]:
        at_process = {
            name: {self._places[message]: at for at, message in enumerate(messages)}
            for name, messages in self.delivered.items()
        }
        for one, other in combinations(sorted(self.delivered), 2):
            there = at_process[other]
            common = [m for m in self.delivered[one] if self._places[m] in there]
            for first, second in _inversions([there[self._places[m]] for m in common]):
                why = (
                    f"{one}: {common[first]} before {common[second]}; {other}: the other way round"
                )
                yield Broken(Order.TOTAL, one, common[first], common[second], why)


def _inversions(keys: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Places, in order, of which the first one has the higher key."""
    lowest = list(accumulate(reversed(keys), min))[::-1]  # the least key from each place on
    for at, key in enumerate(keys):
        if lowest[at] < key:
            for later in range(at + 1, len(keys)):
                if keys[later] < key:
                    yield at, later
