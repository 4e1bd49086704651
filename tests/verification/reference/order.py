"""F1, F2, M1, CA, O1 to O4, O6, MG1, X1, X2: in which order things come."""

from itertools import combinations, pairwise

from groupcomm.trace.events import Ask, Bounce, Deliver, Member, Order
from tests.verification.reference.deliveries import Deliveries
from tests.verification.reference.facts import Facts, Released
from tests.verification.reference.stages import Stages
from tests.verification.reference.terms import (
    AGREED,
    CAUSAL,
    CONNECT,
    DISCONNECT,
    FIFO,
    LINE,
    NO_VIEW,
    RELIABLE,
    Name,
    Position,
    has_numbers,
    order_of,
    told_position,
)

NOWHERE: Position = ((-1, "", 0), -1, -1, -1, -1)


class Orders:
    """Checker of the orders of Releases and Delivers."""

    def __init__(
        self, facts: Facts, stages: Stages, deliveries: Deliveries, early: set[int]
    ) -> None:
        self.facts = facts
        self.early = early  # Orders
        self.views = facts.views
        self.stages = stages
        self.deliveries = deliveries
        self.found: set[str] = set()
        self.clients = sorted({event.c for _, event in deliveries.kept})
        self.positions = {name: facts.position(name) for name in facts.sent}
        self.causes = self._find_causes()

    def check(self) -> set[str]:
        """Return the ids of violated properties."""
        self._check_senders_at_daemons()
        self._check_senders_at_clients()
        self._check_causes()
        self._check_agreed_at_daemons()
        self._check_agreed_at_clients()
        self._check_cycles()
        self._check_keys()
        self._check_positions()
        self._check_known()
        return self.found

    # ---- one sender ----

    def _check_senders_at_daemons(self) -> None:
        """Check F1, F2, M1: for each process, view and client."""
        for process in self.views.processes:
            for _, view in self.views.installs(process):
                for sender in sorted({name[0] for name in self.facts.accepted}):
                    home = self.facts.home(sender)
                    if home is not None:
                        self._check_sender(process, view, home, sender)

    def _check_sender(self, process: str, view: str, home: str, sender: str) -> None:
        facts = self.facts
        installed = self.views.installed_at(home, view)
        if installed is None:
            return
        items = [
            name
            for name in facts.accepted
            if name[0] == sender
            and facts.level(name) >= FIFO
            and not any(at < installed for at, _ in self._wholes(name, home, 0))
        ]
        released = {
            name: at
            for name in items
            for at, where in self._wholes(name, process, installed)
            if where == view
        }
        for b, at in released.items():
            for a in items:
                one, other = facts.accepted[a][0], facts.accepted[b][0]
                if (one, a[1]) < (other, b[1]) and released.get(a, at + 1) > at:
                    self.found.add(self._which(a, b))

    def _wholes(self, name: Name, process: str, since: int) -> list[tuple[int, str]]:
        """Return the places after `since` where an accepted item became whole at a process."""
        accepted = self.facts.accepted[name][0]
        return [
            (parts[-1].index, parts[-1].view)
            for parts in self.facts.wholes(name, process)
            if parts[-1].index > max(accepted, since)
        ]

    def _which(self, a: Name, b: Name) -> str:
        if isinstance(self.facts.item(a), Ask) or isinstance(self.facts.item(b), Ask):
            return "M1"
        return "F1" if set(self.facts.to(a)) & set(self.facts.to(b)) else "F2"

    def _check_senders_at_clients(self) -> None:
        highest: dict[tuple[str, str], Name] = {}
        for _, event in self.deliveries.kept:
            name = (event.s, event.m)
            if self.facts.level(name) >= FIFO:
                before = highest.get((event.c, event.s), name)
                if before[1] > name[1]:
                    self.found.add(self._which(before, name))
                else:
                    highest[event.c, event.s] = name

    # ---- causes ----

    def _find_causes(self) -> dict[Name, set[Name]]:
        """Return the causes of each message."""
        facts, got = self.facts, self.deliveries.got
        causes: dict[Name, set[Name]] = {}
        for name in sorted(facts.messages(), key=facts.sent.__getitem__):
            sender, sent_at = name[0], facts.sent[name]
            direct = {
                other
                for other in causes
                if (other[0] == sender and facts.level(other) >= FIFO)
                or (facts.level(other) >= RELIABLE and got.get((sender, other), sent_at) < sent_at)
            }
            causes[name] = set(direct)
            for other in direct:
                if facts.level(other) >= CAUSAL:
                    causes[name] |= causes[other]
        return causes

    def _check_causes(self) -> None:
        """Check CA."""
        facts, got = self.facts, self.deliveries.got
        for (client, name), at in got.items():
            ended = facts.ended_at(client)
            for cause in self.causes[name] if facts.level(name) >= CAUSAL else ():
                later = got.get((client, cause), at)
                same = self.stages.at(client, at)[0] == self.stages.at(client, later)[0]
                if later > at and same and (ended is None or later < ended):
                    self.found.add("CA")

    # ---- the agreed order ----

    def _check_agreed_at_daemons(self) -> None:
        """Check O1, O4."""
        facts = self.facts
        agreed = [r for r in facts.everywhere() if r.event.level >= AGREED]
        for process in self.views.processes:
            mine = [r for r in agreed if r.event.p == process]
            for number, released in enumerate(mine):
                before = [r for r in mine[:number] if r.view == released.view]
                place = released.place
                for earlier in before:
                    if earlier.place > place:
                        self._check_overtaken(released, earlier)
                if facts.is_inner(released):
                    continue
                lower = {
                    (r.bundle, r.place)
                    for r in agreed
                    if r.view == released.view and r.place < place
                }
                if released.regular and not lower <= {(r.bundle, r.place) for r in before}:
                    self.found.add("O4")

    def _check_overtaken(self, released: Released, earlier: Released) -> None:
        """Check O1 and O4 of an agreed bundle, above which another one was released earlier."""
        if not self.facts.is_inner(earlier) or self._concerns(released, earlier):
            self.found.add("O1")
            return
        ring, view = earlier.event.ring, earlier.view
        for _, deliver in self.deliveries.kept:
            name = (deliver.s, deliver.m)
            pos, home = deliver.pos, self.facts.home(deliver.c)
            if name in self._names_of(earlier) and pos is not None and home is not None:
                abroad = pos[0] == view and self.views.ring_of(home, view) != ring
                self.found |= {"O4"} if abroad else set()

    def _names_of(self, released: Released) -> list[Name]:
        """Return the messages or requests in a bundle that were sent before."""
        event = released.event
        if not has_numbers(event):
            return []
        names = [(event.c, number) for number in range(event.first, event.last + 1)]
        return [n for n in names if self.facts.sent.get(n, released.index) < released.index]

    def _concerns(self, released: Released, inner: Released) -> bool:
        """Return whether an agreed bundle concerns the sender or a destination of messages."""
        event = released.event
        if event.c == inner.event.c:
            return True
        if event.kind < CONNECT or event.kind == LINE:
            return False
        facts = self.facts
        names = {to for name in self._names_of(released) for to in facts.to(name)}
        names = names or {event.c.rpartition("/")[0]}
        return any(to in names for name in self._names_of(inner) for to in facts.to(name))

    def _check_agreed_at_clients(self) -> None:
        kept = {index for index, _ in self.deliveries.kept}
        message: dict[str, Position] = {}
        view: dict[str, Position] = {}
        for index, event in self.facts.live:
            if isinstance(event, Deliver) and index in kept and event.level >= AGREED and event.pos:
                position = told_position(event.pos)
                if position <= max(message.get(event.c, NOWHERE), view.get(event.c, NOWHERE)):
                    self.found.add("O1")
                message[event.c] = position
            elif isinstance(event, Member):
                position = told_position(event.pos)
                if position < max(message.get(event.c, NOWHERE), view.get(event.c, NOWHERE)):
                    self.found.add("O1")
                view[event.c] = position

    def _sequences(self) -> list[list[Name]]:
        sequences = []
        for client in self.clients:
            sequence: dict[Name, None] = {}
            for _, event in self.deliveries.kept:
                if event.c == client and event.level >= AGREED and event.pos is not None:
                    sequence[event.s, event.m] = None
            sequences.append(list(sequence))
        return sequences

    def _check_cycles(self) -> None:
        sequences = self._sequences()
        for one, other in combinations(sequences, 2):
            common = [one.index(name) for name in other if name in one]
            if common != sorted(common):
                self.found.add("MG1")
        edges = {edge for sequence in sequences for edge in pairwise(sequence)}
        reached = {a: {b for x, b in edges if x == a} for a, _ in edges}
        growing = True
        while growing:
            growing = False
            for node, after in reached.items():
                more = {c for b in after for c in reached.get(b, ())} - after
                growing |= bool(more)
                reached[node] |= more
        if any(a in after for a, after in reached.items()):
            self.found.add("O6")

    # ---- positions ----

    def _check_keys(self) -> None:
        """Check O3."""
        facts = self.facts
        contents: dict[object, object] = {}
        for released in [*facts.everywhere(), *facts.repeated]:
            for key, content in _keys_of(released):
                if contents.setdefault(key, content) != content:
                    self.found.add("O3")
        self._check_notified_positions()

    def _check_notified_positions(self) -> None:
        facts = self.facts
        for _, deliver in self.deliveries.kept:
            self._check_notified((deliver.s, deliver.m), deliver.pos)
        for index, order in facts.all(Order):
            if facts.sent.get((order.c, order.m), index) < index:
                self._check_notified((order.c, order.m), order.pos)
        for index, bounce in facts.all(Bounce):
            if facts.sent.get((bounce.c, bounce.m), index) < index:
                self._check_notified((bounce.c, bounce.m), bounce.pos)

    def _check_notified(self, name: Name, pos: tuple[str, int, int, int, int] | None) -> None:
        position = self.positions.get(name)
        if pos is not None and position is not None and told_position(pos) != position:
            self.found.add("O3")

    def _check_positions(self) -> None:
        """Check O2, X1, X2."""
        facts = self.facts
        for name in facts.messages():
            sent_at, position = facts.sent[name], self.positions[name]
            if position is None:
                continue
            self._check_own(name, position)
            view = self.views.view(facts.home(name[0]), sent_at)
            if facts.level(name) < AGREED or view == NO_VIEW or order_of(view) != position[0]:
                continue
            if any(position <= high for high in self._completed(sent_at, view)):
                self.found.add("X1")
            for index, event in facts.all(Member):
                before = index < sent_at and self.stages.at(event.c, index) == (view, True)
                if before and event.pos[0] == view and position <= told_position(event.pos):
                    self.found.add("X2")

    def _may_be_inner(self, event: Deliver) -> bool:
        """Return whether an agreed message comes to a client of its ring, in a view of several."""
        return event.level >= AGREED and self.facts.is_own_ring(event.c, event.pos)

    def _check_known(self) -> None:
        """Check X1 for each client: what it gets after a message was known before that was sent."""
        facts = self.facts
        first: dict[Name, int] = {}
        got: dict[tuple[str, str], list[int]] = {}  # by client and view: when messages were sent
        told: dict[Name, int] = {}
        for index, order in facts.all(Order):
            if index in self.early:
                told.setdefault((order.c, order.m), index)
        for index, event in self.deliveries.kept:
            if event.level < AGREED or event.pos is None:
                continue
            name, view = (event.s, event.m), event.pos[0]
            if self.stages.at(event.c, index) != (view, True):
                continue
            sent = got.setdefault((event.c, view), [])
            known = min(first.get(name, index), told.get(name, index))
            if any(known < at for at in sent):
                self.found.add("X1")
            first.setdefault(name, index)
            sent_at = facts.sent[name]
            if self.views.view(facts.home(name[0]), sent_at) == view:
                sent.append(sent_at)

    def _completed(self, before: int, view: str) -> list[Position]:
        """Return the highest position in a view's regular part that any client had got."""
        orders = [(i, e) for i, e in self.facts.all(Order) if i not in self.early]
        found = [(i, e.c, e.pos) for i, e in orders if not e.trans]
        for index, event in self.deliveries.kept:
            if event.level >= AGREED and event.pos is not None and not self._may_be_inner(event):
                found.append((index, event.c, event.pos))
        return [
            told_position(pos)
            for index, client, pos in found
            if index < before and pos[0] == view and self.stages.at(client, index) == (view, True)
        ]

    def _check_own(self, name: Name, position: Position) -> None:
        """Check O2, for messages that are released at their sender's daemon."""
        facts, client = self.facts, name[0]
        if facts.at_home(name) is None:
            return
        sent_at = facts.sent[name]
        seen = [e.pos for i, e in self.deliveries.kept if i < sent_at and e.c == client]
        seen += [e.pos for i, e in facts.all(Member) if i < sent_at and e.c == client]
        for pos in seen:
            if pos is not None and position <= told_position(pos):
                self.found.add("O2")
        for other in facts.messages():
            if other[0] == client and other[1] < name[1]:
                lower = self.positions[other]
                if lower is not None and facts.at_home(other) is not None and lower >= position:
                    self.found.add("O2")


def _keys_of(released: Released) -> list[tuple[object, object]]:
    """Return the properties that are equal wherever a bundle, and its messages or requests, are
    released."""
    e = released.event
    if e.level == 0:
        return []
    content = (e.time, e.kind, e.level, e.c, e.first, e.last, e.index, e.count)
    found: list[tuple[object, object]] = [(released.bundle, content)]
    if e.kind in (CONNECT, DISCONNECT):
        found.append(((e.c, e.kind), released.position()))
    elif has_numbers(e) and e.index == e.count - 1:
        numbers = range(e.first, e.last + 1)
        found += [((e.c, "item", n), released.position(n - e.first)) for n in numbers]
    return found
