"""F1, F2, CA, O4, G3, P3, L5: the events that a client, ended or not, lacks at a delivery."""

from groupcomm.trace.events import Ask, Member
from tests.verification.reference.deliveries import Deliveries
from tests.verification.reference.facts import Facts
from tests.verification.reference.groups import Groups
from tests.verification.reference.order import Orders
from tests.verification.reference.terms import AGREED, CAUSAL, FIFO, Name, Position, told_position


class Holes:
    """Checker of the events that a client lacks at the moment at which it gets another one."""

    def __init__(
        self, facts: Facts, deliveries: Deliveries, orders: Orders, groups: Groups
    ) -> None:
        self.facts = facts
        self.deliveries = deliveries
        self.orders = orders
        self.groups = groups
        self.found: set[str] = set()

    def check(self) -> set[str]:
        """Return the ids of violated properties."""
        for (client, name), index in self.deliveries.got.items():
            self._check_message(client, index, name)
        for index, event in self.facts.all(Member):
            self._check_position(event.c, index, told_position(event.pos))
            self._check_gone(event, index)
        self._check_senders()
        if self.facts.views.quiet:
            self._check_accepted()
        return self.found

    def _lacking(self, client: str, index: int) -> list[Name]:
        """Return the messages that a client is owed before an index and gets after it, or never."""
        got = self.deliveries.got
        return [
            name
            for (other, name), released in self.deliveries.owed.items()
            if other == client
            and released.index < index
            and got.get((client, name), self.facts.end) > index
        ]

    def _check_senders(self) -> None:
        """Check F1 and F2, for each message by the first later one of its sender that passes it."""
        for (client, name), released in self.deliveries.owed.items():
            if self.facts.level(name) < FIFO:
                continue
            gets = self.deliveries.got.get((client, name), self.facts.end)
            passing = [
                (index, other)
                for (who, other), index in self.deliveries.got.items()
                if who == client
                and other[0] == name[0]
                and other[1] > name[1]
                and self.facts.level(other) >= FIFO
                and released.index < index < gets
            ]
            if passing:
                common = set(self.facts.to(name)) & set(self.facts.to(min(passing)[1]))
                self.found.add("F1" if common else "F2")

    def _check_message(self, client: str, index: int, name: Name) -> None:
        """Check CA, O4 and G3, by a message that is got."""
        level, position = self.facts.level(name), self.orders.positions[name]
        lacks_cause = any(
            other in self.orders.causes[name] for other in self._lacking(client, index)
        )
        if lacks_cause and level >= CAUSAL and not self._has_crashed(client, index):
            self.found.add("CA")
        if level >= AGREED and position is not None:
            self._check_position(client, index, position)

    def _has_crashed(self, client: str, index: int) -> bool:
        crashes = [i for i, e in self.facts.all(Ask) if (e.c, e.what) == (client, "crash")]
        return bool(crashes) and crashes[0] < index

    def _check_position(self, client: str, index: int, position: Position) -> None:
        """Check O4 and G3, at each event of a client at a position of the agreed order."""
        for other in self._lacking(client, index):
            lower = self.orders.positions[other]
            if self.facts.level(other) >= AGREED and lower is not None and lower < position:
                self.found.add("O4")
        for owed, seen in self.groups.owed:
            lacking = owed.client == client and owed.index < index < seen
            if lacking and told_position(owed.pos) < position:
                self.found.add("G3")

    def _check_gone(self, event: Member, index: int) -> None:
        """Check P3."""
        for sender, number in self._lacking(event.c, index) if event.cause == "disconnect" else ():
            if sender in event.changed and self.facts.level((sender, number)) >= FIFO:
                self.found.add("P3")

    def _check_accepted(self) -> None:
        """Check L5, for any client."""
        facts = self.facts
        for client, number in facts.accepted:
            before = [name for name in facts.sent if name[0] == client and name[1] < number]
            if any(name not in facts.accepted or facts.is_cut(name) for name in before):
                self.found.add("L5")
