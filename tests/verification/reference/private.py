"""P1 to P4: disconnects, names and private messages."""

from groupcomm.trace.events import Ask, Bounce, Member, Send
from tests.verification.reference.deliveries import Deliveries
from tests.verification.reference.facts import Facts, Released
from tests.verification.reference.tables import Tables
from tests.verification.reference.terms import (
    CONNECT,
    DISCONNECT,
    RELIABLE,
    Name,
    Place,
    private_name,
    told_position,
)


class Private:
    """Checker of disconnects, and of messages for one client only."""

    def __init__(self, facts: Facts, tables: Tables, deliveries: Deliveries) -> None:
        self.facts = facts
        self.tables = tables
        self.deliveries = deliveries
        self.found: set[str] = set()

    def check(self) -> set[str]:
        """Return the ids of violated properties."""
        self._check_gone()
        self._check_names()
        self._check_bounces()
        return self.found

    def _check_gone(self) -> None:
        """Check P1 and P3."""
        for index, event in self.facts.all(Member):
            if event.cause == "disconnect":
                for gone in event.changed:
                    first = [r for r in self._disconnects(gone) if r.index < index][:1]
                    if [r.position() for r in first] != [told_position(event.pos)]:
                        self.found.add("P1")
                    for later, deliver in self.deliveries.kept:
                        if later > index and (deliver.c, deliver.s) == (event.c, gone):
                            self.found.add("P3")

    def _disconnects(self, client: str) -> list[Released]:
        """Return the Releases of a disconnect."""
        return [
            r for r in self.facts.everywhere() if r.event.kind == DISCONNECT and r.event.c == client
        ]

    def _check_names(self) -> None:
        """Check P4."""
        connects = [event.c for _, event in self.facts.all(Ask) if event.what == "connect"]
        if len(connects) != len(set(connects)):
            self.found.add("P4")
        for released in self.facts.everywhere():
            event = released.event
            if event.kind == CONNECT and self.facts.home(event.c) == event.p:
                names = self.tables.at(event.p, released.index).names
                if private_name(event.c) in names:
                    self.found.add("P4")

    # ---- bounces ----

    def _check_bounces(self) -> None:
        """Check P2."""
        seen = set()
        for index, event in self.facts.all(Bounce):
            name = (event.c, event.m)
            if (name, event.target) in seen or not self._comes_back(name, event.target, index):
                self.found.add("P2")
            seen.add((name, event.target))
        for name in self.facts.messages():
            if self.facts.stays(name[0]):
                for target in self.facts.to(name):
                    missing = (name, target) not in seen
                    if missing and self._comes_back(name, target, self.facts.end):
                        self.found.add("P2")

    def _comes_back(self, name: Name, private: str, before: int) -> bool:
        """Return whether nobody of that name was there at the message's position, as known by
        then."""
        facts, home = self.facts, self.facts.home(name[0])
        accepts = facts.accepted.get(name)
        if home is None or not accepts or accepts[0] >= before:
            return False
        if not isinstance(facts.item(name), Send) or facts.level(name) < RELIABLE:
            return False
        known = facts.at_home(name)
        if private not in facts.to(name) or private[0] != "#" or known is None:
            return False
        released, position = known
        if released.index >= before:
            return False
        whole = facts.whole(name, home) or []
        places = [min(r.place for r in whole), position[1:4]]
        return not any(
            all(self._is_there(client, home, released.view, place, before) for place in places)
            for client in self._owners(name, private)
        )

    def _owners(self, name: Name, private: str) -> set[str]:
        """Return the clients that a private name in a message may stand for."""
        target = self.tables.target(name, private)
        if target is not None:
            return {target}
        everybody = {r.event.c for r in self.facts.everywhere() if r.event.kind == CONNECT}
        return {client for client in everybody if private_name(client) == private}

    def _is_there(self, client: str, process: str, view: str, place: Place, before: int) -> bool:
        """Return whether a client was in the table of a process at a place in a view."""
        there = client in self.tables.start(process, view).names.values()
        for released in self.facts.releases[process]:
            event = released.event
            if released.index < before and released.view == view and event.c == client:
                if event.kind == CONNECT:
                    there |= released.place < place
                elif event.kind == DISCONNECT and released.place < place:
                    return False
        return there
