"""What was sent and delivered in a run, and which order held: the judge of all algorithms.

It decides from definitions, and knows no stamps.
"""

from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

from groupcomm.algorithms.process import Message, Name, Order


class Broken(NamedTuple):
    """Two messages that came in an order that a promise forbids.

    Attributes:
        order: which promise.
        process: where they did.
        first, second: as this process delivered them.
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
        process: where it was.
        message: what was sent or delivered.
        sends: whether it was sent.
    """

    process: Name
    message: Message
    sends: bool


class History:
    """Events in the order in which they happened.

    Attributes:
        events: all of them.
        sent: messages, in the order of their sending.
        delivered: by process, in the order of delivery.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.sent: list[Message] = []
        self.delivered: dict[Name, list[Message]] = {}
        self._causes: dict[Message, frozenset[Message]] = {}
        self._known: dict[Name, frozenset[Message]] = {}

    def send(self, message: Message, told: Iterable[Message] = ()) -> None:
        """Note a sending: all that its sender had sent or delivered may have caused it.

        Args:
            told: what its sender had heard of by other ways, with all that this had heard of.
        """
        known = self._known.get(message.sender, frozenset()).union(told)
        self.events.append(Event(message.sender, message, sends=True))
        self.sent.append(message)
        self._causes[message] = known
        self._known[message.sender] = known | {message}

    def deliver(self, process: Name, message: Message) -> None:
        """Note a delivery; with a message its causes are known, too."""
        self.events.append(Event(process, message, sends=False))
        self.delivered.setdefault(process, []).append(message)
        known = self._known.get(process, frozenset())
        self._known[process] = known | self._causes[message] | {message}

    def causes(self, message: Message) -> frozenset[Message]:
        """All that may have caused a message: sent or delivered before it, or a cause of such."""
        return self._causes[message]

    # ---- what held ----

    @property
    def missing(self) -> list[tuple[Name, Message]]:
        """Who has not delivered what was sent to it."""
        return [
            (name, message)
            for message in self.sent
            for name in message.destinations
            if message not in self.delivered.get(name, ())
        ]

    @property
    def twice(self) -> list[tuple[Name, Message]]:
        """Who has delivered what a second time, or though it was not for it."""
        found = []
        for name, messages in self.delivered.items():
            seen: set[Message] = set()
            for message in messages:
                if message in seen or name not in message.destinations:
                    found.append((name, message))
                seen.add(message)
        return found

    def broken(self, order: Order) -> list[Broken]:
        """All that breaks a promise; where two processes differ, it is told once of the pair."""
        match order:
            case Order.FIFO:
                return self._broken_fifo()
            case Order.CAUSAL:
                return self._broken_causal()
            case Order.TOTAL:
                return self._broken_total()

    def held(self) -> frozenset[Order]:
        """The orders that held."""
        return frozenset(order for order in Order if not self.broken(order))

    def _broken_fifo(self) -> list[Broken]:
        return [
            Broken(Order.FIFO, name, first, second, f"{name}: {first} before {second}")
            for name, messages in self.delivered.items()
            for first, second in combinations(messages, 2)
            if first.sender == second.sender and first.number > second.number
        ]

    def _broken_causal(self) -> list[Broken]:
        return [
            Broken(
                *(Order.CAUSAL, name, first, second),
                f"{name}: {first} before {second}, which may have caused it",
            )
            for name, messages in self.delivered.items()
            for first, second in combinations(messages, 2)
            if second in self._causes[first]
        ]

    def _broken_total(self) -> list[Broken]:
        found = []
        for one, other in combinations(sorted(self.delivered), 2):
            place = {message: at for at, message in enumerate(self.delivered[other])}
            common = [message for message in self.delivered[one] if message in place]
            found += [
                Broken(
                    *(Order.TOTAL, one, first, second),
                    f"{one}: {first} before {second}; {other}: the other way round",
                )
                for first, second in combinations(common, 2)
                if place[first] > place[second]
            ]
        return found
