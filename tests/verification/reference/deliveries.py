"""D1 to D8, U, V4, R, G4, MG3: the recipients of messages."""

from groupcomm.trace.events import (
    Accept,
    Ask,
    Bounce,
    Deliver,
    Member,
    Order,
    Quiet,
    Rejects,
    Send,
)
from tests.verification.reference.facts import Facts, Released
from tests.verification.reference.stages import Stages
from tests.verification.reference.tables import Tables
from tests.verification.reference.terms import (
    AGREED,
    Name,
    daemon_of,
    has_numbers,
    name_of,
    private_name,
)

CLIENT_EVENTS = Send | Deliver | Ask | Member | Order | Bounce


class Deliveries:
    """Checker of all Deliver events.

    Attributes:
        kept: the Delivers that are checked further: of messages sent before, without repetitions.
        owed: per client and message, the Release by which it is owed.
        got: the same for which of these came, at which index.
        found: ids of violated properties.
    """

    def __init__(self, facts: Facts, tables: Tables, stages: Stages) -> None:
        self.facts = facts
        self.tables = tables
        self.stages = stages
        self.found: set[str] = set()
        self.owed = self._find_owed()
        self.got: dict[tuple[str, Name], int] = {}
        self.kept: list[tuple[int, Deliver]] = []
        self._sort_out()

    # ---- owed messages ----

    def _find_owed(self) -> dict[tuple[str, Name], Released]:
        owed: dict[tuple[str, Name], Released] = {}
        for name in self.facts.messages():
            for process in self.facts.views.processes:
                for parts in self.facts.wholes(name, process):
                    for client in self._recipients(name, process, parts):
                        owed.setdefault((client, name), parts[-1])
        return owed

    def _recipients(self, name: Name, process: str, parts: list[Released]) -> list[str]:
        """Return the clients for which it held at each of the message's Releases up to the last."""
        found = self._recipients_at(name, process, parts[0].index)
        for released in parts[1:]:
            now = self._recipients_at(name, process, released.index)
            found = [client for client in found if client in now]
        return found

    def _recipients_at(self, name: Name, process: str, index: int) -> list[str]:
        facts, message = self.facts, self.facts.item(name)
        assert isinstance(message, Send)
        gone = self.tables.at(process, index).gone
        if message.level == 0 and name[0] in gone:
            return []
        found = []
        for group in message.to:
            if not group.startswith("#"):
                found += self.tables.local(process, group, index)
                continue
            now = self.tables.at(process, index).names.get(group)
            target = self.tables.target(name, group) or now
            in_time = bool(facts.accepted.get(name)) and facts.accepted[name][0] < index
            if target is not None and in_time and facts.home(target) == process:
                found += [] if target in gone else [target]
        return [client for client in found if not (message.discard and client == name[0])]

    # ---- delivered messages ----

    def _sort_out(self) -> None:
        before: set[tuple[str, Name]] = set()
        messages = set(self.facts.messages())
        for index, event in self.facts.all(Deliver):
            name = (event.s, event.m)
            view, _ = self.stages.at(event.c, index)
            if daemon_of(event.s) not in map(name_of, self.facts.views.members(view)):
                self.found.add("D7")
            if name not in messages or self.facts.sent[name] > index:
                self.found.add("D1")
                continue
            pair = (event.c, name)
            if self._is_owed(pair, index) and pair not in self.got:
                self.got[pair] = index
            elif pair in before:
                self.found.add("D2")
                continue
            else:
                self.found.add("G4" if self.facts.level(name) >= AGREED else "R")
            before.add(pair)
            self.kept.append((index, event))

    def _is_owed(self, pair: tuple[str, Name], index: int) -> bool:
        return pair in self.owed and self.owed[pair].index < index

    # ---- the ids ----

    def check(self) -> set[str]:
        """Return the ids of violated properties."""
        for index, event in self.kept:
            self._check_content(index, event)
            self._check_stage(index, event)
        self._check_uniqueness()
        for index, told in self.facts.live:
            if isinstance(told, Member | Order | Bounce) and self._is_misplaced(index, told):
                self.found.add("D3")
        self._check_orders()
        self._check_life()
        self._check_daemons()
        return self.found

    def _is_misplaced(self, index: int, told: Member | Order | Bounce) -> bool:
        return told.pos[0] != self.stages.at(told.c, index)[0]

    def _check_content(self, index: int, event: Deliver) -> None:
        """Check D1, U, V5, MG3."""
        sent = self.facts.item((event.s, event.m))
        assert isinstance(sent, Send)
        if (event.level, event.to, event.digest) != (sent.level, sent.to, sent.digest):
            self.found.add("D1")
        if (event.level == 0) != (event.pos is None):
            self.found.add("U")
        minor = self.stages.lacks_quorum(self.stages.at(event.c, index)[0])
        needs = [group for group in event.to if self._needs_quorum(event.c, group, index)]
        if minor and sent.level >= AGREED and needs:
            self.found.add("V5")
        mine = private_name(event.c) in event.to
        if not mine and not any(self._sees_itself_in(event.c, g, index) for g in event.to):
            self.found.add("MG3")

    def _needs_quorum(self, client: str, group: str, before: int) -> bool:
        """Return whether a client is in a group by a join that needs a quorum, by its views."""
        asked: list[bool] = []
        needs = False
        for index, event in self.facts.live:
            if (
                index >= before
                or getattr(event, "group", "") != group
                or index in self.facts.reused
            ):
                continue
            if isinstance(event, Ask) and event.c == client and event.what in ("join", "read"):
                asked.append(event.needs_quorum)
            elif isinstance(event, Member) and event.c == client:
                needs = needs and client in event.members
                if event.cause == "join" and event.changed == (client,) and asked:
                    needs = asked.pop(0) or needs
        return needs

    def _sees_itself_in(self, client: str, group: str, before: int) -> bool:
        views = [
            e for i, e in self.facts.all(Member) if i < before and (e.c, e.group) == (client, group)
        ]
        return bool(views) and client in views[-1].members

    def _check_stage(self, index: int, event: Deliver) -> None:
        """Check D3, U, V2: at which stage of its client a message comes."""
        pair = (event.c, (event.s, event.m))
        view, regular = self.stages.at(event.c, index)
        if event.pos is not None and event.pos[0] != view:
            self.found.add("D3")
        if self.got.get(pair) != index:
            return
        owed = self.owed[pair]
        late = self.stages.began_late(event.c, view)
        if owed.view != view:
            self.found.add("U" if owed.event.level == 0 else "D3")
        elif owed.event.level > 0 and owed.regular != regular and not late:
            self.found.add("V2")

    def _check_uniqueness(self) -> None:
        """Check D2, D4, U, V4."""
        if self.facts.reused:
            self.found.add("D4")
        for released in self.facts.repeated:
            self.found.add("U" if released.event.level == 0 else "D2")
        views: dict[object, str] = {}
        everything = sorted(
            [*self.facts.everywhere(), *self.facts.repeated], key=lambda released: released.index
        )
        for released in everything:
            event = released.event
            if event.level == 0:
                if event.number != 0:
                    self.found.add("U")
                first = views.setdefault((event.c, event.first, event.index), released.view)
                if first != released.view or not released.regular:
                    self.found.add("V4")

    def _check_orders(self) -> None:
        """Check D1, D2 and V2 for positions that senders are told."""
        told = []
        for index, order in self.facts.all(Order):
            name = (order.c, order.m)
            item = self.facts.item(name) if self.facts.sent.get(name, index) < index else None
            if not (isinstance(item, Send) and item.ordered):
                self.found.add("D1")
            elif name in told:
                self.found.add("D2")
            else:
                told.append(name)
            if order.trans == self.stages.at(order.c, index)[1]:
                self.found.add("V2")
            home = self.facts.home(order.c, index)
            if order.trans and item is not None and home is not None:
                whole = self.facts.whole(name, home)
                if whole is not None and whole[-1].regular and whole[-1].index < index:
                    self.found.add("V2")

    def _check_life(self) -> None:
        """D5: time does not fall, nothing follows Quiet, a crash, or in part a goodbye."""
        kept = {index for index, _ in self.kept}
        times = [event.t for event in self.facts.views.events]
        ends = [isinstance(event, Quiet) for event in self.facts.views.events]
        if times != sorted(times) or True in ends[:-1]:
            self.found.add("D5")
        crashed, leaving = set(), set()
        for index, event in self.facts.live:
            if not isinstance(event, CLIENT_EVENTS) or index in self.facts.reused:
                continue
            if isinstance(event, Deliver) and index not in kept:
                continue
            asks = isinstance(event, Ask) and event.what != "crash"
            if event.c in crashed or (event.c in leaving and (asks or isinstance(event, Send))):
                self.found.add("D5")
            if isinstance(event, Ask) and event.what == "crash":
                crashed.add(event.c)
            if isinstance(event, Ask) and event.what in ("disconnect", "refused"):
                leaving.add(event.c)

    def _check_daemons(self) -> None:
        """Check D8, and D1 for the items that daemons accept and release."""
        for released in [*self.facts.everywhere(), *self.facts.repeated]:
            event = released.event
            if has_numbers(event):
                for number in range(event.first, event.last + 1):
                    self._check_released((event.c, number), released)
        for index, accept in self.facts.all(Accept):
            if accept.p != self.facts.home(accept.c, index):
                self.found.add("D1")
            for number in range(accept.first, accept.last + 1):
                if self.facts.sent.get((accept.c, number), index) >= index:
                    self.found.add("D1")
        for _, rejects in self.facts.all(Rejects):
            if rejects.bad != rejects.injected:
                self.found.add("D8")

    def _check_released(self, name: Name, released: Released) -> None:
        accepts = self.facts.accepted.get(name, [])
        accepted = sum(accept < released.index for accept in accepts)
        if accepted <= released.event.index or self.facts.level(name) != released.event.level:
            self.found.add("D1")
