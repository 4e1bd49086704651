"""D1 to D8, U, R, G4, MG3, L5, X3, G6: who gets what, and what is missing in the end."""

from groupcomm.sim.judge.facts import (
    AGREED,
    CONNECT,
    DISCONNECT,
    RELIABLE,
    Facts,
    Name,
    own_views,
)
from groupcomm.sim.trace import (
    Accept,
    Ask,
    Bounce,
    Deliver,
    Horizon,
    Member,
    Order,
    Quiet,
    Rejects,
    Release,
    Send,
    Stamped,
    Table,
)

CLIENT_EVENTS = Send | Deliver | Ask | Member | Order | Bounce


class Deliveries:
    """Judges all Deliver events.

    Attributes:
        kept: the Delivers that are judged further: of messages sent before, without repetitions.
        owed: per client and message, from which index on it is owed.
        got: the same for which of these came, at which index.
        found: ids of violated properties.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.found: set[str] = set()
        self.owed = self._find_owed()
        self.got: dict[tuple[str, Name], int] = {}
        self.kept: list[tuple[int, Deliver]] = []
        self._sort_out()

    # ---- what is owed ----

    def _find_owed(self) -> dict[tuple[str, Name], int]:
        owed: dict[tuple[str, Name], int] = {}
        for name in self.facts.messages():
            for daemon in self.facts.daemons:
                whole = self.facts.released(name, daemon)
                if whole is not None:
                    for client in self._recipients(name, daemon, whole):
                        owed[client, name] = whole
        return owed

    def _recipients(self, name: Name, daemon: str, whole: int) -> list[str]:
        """Those for whom it held at each of the message's Releases up to the last."""
        indices = [index for index, _ in self.facts.parts(name, daemon) if index <= whole]
        found = self._recipients_at(name, daemon, indices[0])
        for index in indices[1:]:
            now = self._recipients_at(name, daemon, index)
            found = [client for client in found if client in now]
        return found

    def _recipients_at(self, name: Name, daemon: str, index: int) -> list[str]:
        facts, message = self.facts, self.facts.item(name)
        assert isinstance(message, Send)
        if message.level == 0 and facts.is_gone(name[0], daemon, index):
            return []
        found = []
        for group in message.to:
            if not group.startswith("#"):
                members = facts.members(daemon, group, index)
                found += [client for client in members if facts.home(client) == daemon]
                continue
            target = facts.target(name, group)
            in_time = bool(facts.accepted.get(name)) and facts.accepted[name][0] < index
            if target is not None and in_time and facts.home(target) == daemon:
                found += [] if facts.is_gone(target, daemon, index) else [target]
        return [client for client in found if not (message.discard and client == name[0])]

    # ---- what is got ----

    def _sort_out(self) -> None:
        before: set[tuple[str, Name]] = set()
        for index, event in self.facts.all(Deliver):
            name = (event.s, event.m)
            if self.facts.home(event.s) is None:
                self.found.add("D7")
            if name not in self.facts.messages() or self.facts.sent[name] > index:
                self.found.add("D1")
                continue
            pair = (event.c, name)
            if self.owed.get(pair, index) < index and pair not in self.got:
                self.got[pair] = index
            elif pair in before:
                self.found.add("D2")
                continue
            else:
                self.found.add("G4" if self.facts.level(name) >= AGREED else "R")
            before.add(pair)
            self.kept.append((index, event))

    # ---- the ids ----

    def judge(self) -> set[str]:
        """The ids of violated properties."""
        self._judge_kept()
        self._judge_uniqueness()
        self._judge_views()
        self._judge_orders()
        self._judge_life()
        self._judge_daemons()
        if self.facts.quiet:
            self._judge_quiet()
        return self.found

    def _judge_orders(self) -> None:
        """D1 and D2 for positions that senders are told."""
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

    def _judge_daemons(self) -> None:
        """D8, and D1 for what daemons accept and release."""
        for index, release in self.facts.all(Release):
            if release.kind not in (CONNECT, DISCONNECT):
                for number in range(release.first, release.last + 1):
                    self._check_released((release.c, number), release, index)
        for index, accept in self.facts.all(Accept):
            if accept.p != self.facts.home(accept.c):
                self.found.add("D1")
            for number in range(accept.first, accept.last + 1):
                if self.facts.sent.get((accept.c, number), index) >= index:
                    self.found.add("D1")
        for _, rejects in self.facts.all(Rejects):
            if rejects.bad != rejects.injected:
                self.found.add("D8")

    def _check_released(self, name: Name, release: Release, index: int) -> None:
        accepted = any(accept < index for accept in self.facts.accepted.get(name, []))
        if not accepted or self.facts.level(name) != release.level:
            self.found.add("D1")

    def _judge_kept(self) -> None:
        for index, event in self.kept:
            sent = self.facts.item((event.s, event.m))
            assert isinstance(sent, Send)
            if (event.level, event.to, event.digest) != (sent.level, sent.to, sent.digest):
                self.found.add("D1")
            if (event.level == 0) != (event.pos is None):
                self.found.add("U")
            name = event.c.rpartition("/")[0]
            if name not in event.to and not any(
                self._sees_itself_in(event.c, group, index) for group in event.to
            ):
                self.found.add("MG3")

    def _sees_itself_in(self, client: str, group: str, before: int) -> bool:
        inside = False
        for index, event in own_views(self.facts.events, client):
            if index < before and event.group == group:
                inside = client in event.members
        return inside

    def _judge_uniqueness(self) -> None:
        if self.facts.reused:
            self.found.add("D4")
        for index in self.facts.repeated:
            event = self.facts.events[index]
            assert isinstance(event, Release)
            self.found.add("U" if event.level == 0 else "D2")
        if any(event.level == 0 and event.number != 0 for _, event in self.facts.all(Release)):
            self.found.add("U")

    def _judge_views(self) -> None:
        """D3."""
        for positioned in self.facts.events:
            if isinstance(positioned, Member | Order | Bounce):
                daemon = self.facts.home(positioned.c)
                self._check_view(positioned.pos[0], daemon)
            elif isinstance(positioned, Table):
                self._check_view(positioned.pos[0], positioned.p)
            elif isinstance(positioned, Stamped | Horizon):
                self._check_view(positioned.view, positioned.p)
        for _, deliver in self.kept:
            if deliver.pos is not None:
                self._check_view(deliver.pos[0], self.facts.home(deliver.c))

    def _check_view(self, view: str, daemon: str | None) -> None:
        if daemon is None or self.facts.views[daemon] != view:
            self.found.add("D3")

    def _judge_life(self) -> None:
        """D5: time does not fall, nothing follows Quiet, a crash, or in part a goodbye."""
        kept = {index for index, _ in self.kept}
        times = [event.t for event in self.facts.events]
        ends = [isinstance(event, Quiet) for event in self.facts.events]
        if times != sorted(times) or True in ends[:-1]:
            self.found.add("D5")
        crashed, leaving = set(), set()
        for index, event in enumerate(self.facts.events):
            if not isinstance(event, CLIENT_EVENTS) or index in self.facts.reused:
                continue
            if isinstance(event, Deliver) and index not in kept:
                continue
            asks = isinstance(event, Ask) and event.what != "crash"
            if event.c in crashed or (event.c in leaving and (asks or isinstance(event, Send))):
                self.found.add("D5")
            if isinstance(event, Ask) and event.what == "crash":
                crashed.add(event.c)
            if isinstance(event, Ask) and event.what == "disconnect":
                leaving.add(event.c)

    # ---- in the end ----

    def _judge_quiet(self) -> None:
        facts = self.facts
        for client, name in self.owed:
            missing = (client, name) not in self.got and facts.level(name) >= RELIABLE
            if missing and facts.ended_at(client) is None:
                if name[0] == client:
                    self.found.add("D6")
                else:
                    self.found.add("G4" if facts.level(name) >= AGREED else "R")
                if self._had_joined(client, name):
                    self.found.add("X3")
        for name in facts.accepted:
            everywhere = all(facts.released(name, p) is not None for p in facts.daemons)
            if facts.level(name) >= RELIABLE and not everywhere and not facts.is_cut(name):
                self.found.add("R")
        self._judge_answers()
        for daemon in facts.daemons:
            for client in facts.connected(daemon, len(facts.events)).values():
                if self._has_gone(client):
                    self.found.add("G6")

    def _had_joined(self, client: str, name: Name) -> bool:
        """Whether the client had seen itself join one of the groups before the Send."""
        return any(
            index < self.facts.sent[name]
            and event.group in self.facts.to(name)
            and (event.cause, event.changed) == ("join", (client,))
            for index, event in own_views(self.facts.events, client)
        )

    def _judge_answers(self) -> None:
        """L5."""
        facts = self.facts
        orders = {(e.c, e.m) for i, e in facts.all(Order) if facts.sent.get((e.c, e.m), i) < i}
        unanswered = self._unanswered_joins()
        for client, number in facts.sent:
            if (client, number) not in facts.accepted and facts.ended_at(client) is None:
                self.found.add("L5")
        for name in facts.accepted:
            if facts.ended_at(name[0]) is None:
                item = facts.item(name)
                if isinstance(item, Send) and item.ordered and name not in orders:
                    self.found.add("L5")
                if name in unanswered:
                    self.found.add("L5")

    def _unanswered_joins(self) -> list[Name]:
        """Joins by name; each view of a client's own join answers its oldest."""
        waiting: list[tuple[str, str, int]] = []
        for index, event in enumerate(self.facts.events):
            if isinstance(event, Ask) and event.what == "join" and index not in self.facts.reused:
                waiting.append((event.c, event.group, event.m))
            elif isinstance(event, Member) and event.cause == "join":
                own = [w for w in waiting if w[:2] == (event.c, event.group)]
                if event.changed == (event.c,) and own:
                    waiting.remove(own[0])
        return [(client, number) for client, _, number in waiting]

    def _has_gone(self, client: str) -> bool:
        return any(
            event.c == client and event.what in ("crash", "disconnect")
            for _, event in self.facts.all(Ask)
        )
