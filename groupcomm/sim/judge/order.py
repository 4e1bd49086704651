"""F1, F2, M1, CA, O1 to O4, O6, MG1, X1, X2: in which order things come."""

from itertools import combinations, pairwise

from groupcomm.sim.judge.deliveries import Deliveries
from groupcomm.sim.judge.facts import AGREED, CAUSAL, FIFO, RELIABLE, Facts, Name, Place, Position
from groupcomm.sim.trace import Ask, Bounce, Deliver, Member, Order, Release


class Orders:
    """Judges orders of Releases and Delivers."""

    def __init__(self, facts: Facts, deliveries: Deliveries) -> None:
        self.facts = facts
        self.deliveries = deliveries
        self.found: set[str] = set()
        self.clients = sorted({event.c for _, event in deliveries.kept})
        self.positions = {name: facts.position(name) for name in facts.sent}

    def judge(self) -> set[str]:
        """The ids of violated properties."""
        self._judge_senders_at_daemons()
        self._judge_senders_at_clients()
        self._judge_causes()
        self._judge_agreed_at_daemons()
        self._judge_agreed_at_clients()
        self._judge_cycles()
        self._judge_keys()
        self._judge_positions()
        return self.found

    # ---- one sender ----

    def _judge_senders_at_daemons(self) -> None:
        facts = self.facts
        names = [n for n in facts.accepted if facts.level(n) >= FIFO]
        for daemon in facts.daemons:
            released: dict[Name, int] = {}
            for name in names:
                at = facts.released(name, daemon)
                if at is not None and facts.accepted[name][0] < at:
                    released[name] = at
            for b, at in released.items():
                for a in names:
                    one, other = facts.accepted[a][0], facts.accepted[b][0]
                    if (
                        a[0] == b[0]
                        and (one, a[1]) < (other, b[1])
                        and released.get(a, at + 1) > at
                    ):
                        self.found.add(self._which(a, b))

    def _which(self, a: Name, b: Name) -> str:
        if isinstance(self.facts.item(a), Ask) or isinstance(self.facts.item(b), Ask):
            return "M1"
        return "F1" if set(self.facts.to(a)) & set(self.facts.to(b)) else "F2"

    def _judge_senders_at_clients(self) -> None:
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

    def _judge_causes(self) -> None:
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
        for (client, name), at in got.items():
            ended = facts.ended_at(client)
            for cause in causes[name] if facts.level(name) >= CAUSAL else ():
                later = got.get((client, cause), at)
                if later > at and (ended is None or later < ended):
                    self.found.add("CA")

    # ---- the agreed order ----

    def _judge_agreed_at_daemons(self) -> None:
        released: dict[str, list[tuple[Place, int]]] = {}
        for daemon in self.facts.daemons:
            released[daemon] = [
                ((event.time, event.ring, event.bundle), event.number)
                for _, event in self.facts.releases[daemon]
                if event.level >= AGREED
            ]
        everything = {bundle for bundles in released.values() for bundle in bundles}
        for bundles in released.values():
            for index, (place, _) in enumerate(bundles):
                if any(earlier > place for earlier, _ in bundles[:index]):
                    self.found.add("O1")
                lower = {bundle for bundle in everything if bundle[0] < place}
                if not lower <= set(bundles[:index]):
                    self.found.add("O4")

    def _judge_agreed_at_clients(self) -> None:
        kept = {index for index, _ in self.deliveries.kept}
        message: dict[str, Position] = {}
        view: dict[str, Position] = {}
        nowhere = (-1, -1, -1, -1)
        for index, event in enumerate(self.facts.events):
            if isinstance(event, Deliver) and index in kept and event.level >= AGREED and event.pos:
                position = event.pos[1:]
                if position <= max(message.get(event.c, nowhere), view.get(event.c, nowhere)):
                    self.found.add("O1")
                message[event.c] = position
            elif isinstance(event, Member):
                position = event.pos[1:]
                if position < max(message.get(event.c, nowhere), view.get(event.c, nowhere)):
                    self.found.add("O1")
                view[event.c] = position

    def _sequences(self) -> list[list[Name]]:
        sequences = []
        for client in self.clients:
            sequence = []
            for _, event in self.deliveries.kept:
                name = (event.s, event.m)
                if event.c == client and event.level >= AGREED and event.pos is not None:
                    sequence += [name] if name not in sequence else []
            sequences.append(sequence)
        return sequences

    def _judge_cycles(self) -> None:
        sequences = self._sequences()
        for one, other in combinations(sequences, 2):
            common = [one.index(name) for name in other if name in one]
            if common != sorted(common):
                self.found.add("MG1")
        edges = {edge for sequence in sequences for edge in pairwise(sequence)}
        reached = {a: {b for x, b in edges if x == a} for a, _ in edges}
        for _ in reached:
            for after in reached.values():
                after |= {c for b in after for c in reached.get(b, ())}
        if any(a in after for a, after in reached.items()):
            self.found.add("O6")

    # ---- positions ----

    def _judge_keys(self) -> None:
        contents: dict[tuple[int, int, int], object] = {}
        for _, e in self.facts.all(Release):
            if e.level > 0:
                content = (e.time, e.kind, e.level, e.c, e.first, e.last, e.index, e.count)
                if contents.setdefault((e.ring, e.number, e.bundle), content) != content:
                    self.found.add("O3")
        for _, deliver in self.deliveries.kept:
            self._check_told((deliver.s, deliver.m), deliver.pos)
        for index, order in self.facts.all(Order):
            if self.facts.sent.get((order.c, order.m), index) < index:
                self._check_told((order.c, order.m), order.pos)
        for index, bounce in self.facts.all(Bounce):
            if self.facts.sent.get((bounce.c, bounce.m), index) < index:
                self._check_told((bounce.c, bounce.m), bounce.pos)

    def _check_told(self, name: Name, pos: tuple[str, int, int, int, int] | None) -> None:
        position = self.positions.get(name)
        if pos is not None and position is not None and pos[1:] != position:
            self.found.add("O3")

    def _judge_positions(self) -> None:
        """O2, X1, X2."""
        facts = self.facts
        for name in facts.messages():
            sent_at, position = facts.sent[name], self.positions[name]
            if position is None:
                continue
            if facts.level(name) >= AGREED:
                if any(position <= high for high in self._completed(sent_at)):
                    self.found.add("X1")
                views = [e.pos[1:] for i, e in facts.all(Member) if i < sent_at]
                if any(position <= high for high in views):
                    self.found.add("X2")
            self._judge_own(name, position)

    def _completed(self, before: int) -> list[Position]:
        """What anybody had got of the agreed order, or been told."""
        found = [e.pos[1:] for i, e in self.facts.all(Order) if i < before]
        for index, event in self.deliveries.kept:
            if index < before and event.level >= AGREED and event.pos is not None:
                found.append(event.pos[1:])
        return found

    def _judge_own(self, name: Name, position: Position) -> None:
        """O2, for messages that are released at their sender's daemon."""
        facts, client = self.facts, name[0]
        home = facts.home(client)
        if home is None or facts.position_known(name, [home]) is None:
            return
        sent_at = facts.sent[name]
        seen = [e.pos for i, e in self.deliveries.kept if i < sent_at and e.c == client]
        seen += [e.pos for i, e in facts.all(Member) if i < sent_at and e.c == client]
        for pos in seen:
            if pos is not None and position <= pos[1:]:
                self.found.add("O2")
        for other in facts.messages():
            if other[0] == client and other[1] < name[1]:
                lower = self.positions[other]
                at_home = facts.position_known(other, [home]) is not None
                if lower is not None and at_home and lower >= position:
                    self.found.add("O2")
