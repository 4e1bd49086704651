"""G1 to G3, G5, V3, P1 to P4: group views, disconnects and private names."""

from groupcomm.sim.judge.deliveries import Deliveries
from groupcomm.sim.judge.facts import (
    CONNECT,
    DISCONNECT,
    JOIN,
    LEAVE,
    RELIABLE,
    Facts,
    Name,
    own_views,
)
from groupcomm.sim.trace import Ask, Bounce, Member, Release, Send, Table, TracePosition

Shown = tuple[str, TracePosition, tuple[str, ...], str, tuple[str, ...]]
"""A view as a client is owed it: group, position, members, cause, changed."""


class Groups:
    """Judges views and private messages."""

    def __init__(self, facts: Facts, deliveries: Deliveries) -> None:
        self.facts = facts
        self.deliveries = deliveries
        self.found: set[str] = set()

    def judge(self) -> set[str]:
        """The ids of violated properties."""
        self._judge_tables()
        self._judge_contents()
        self._judge_views()
        for client in sorted({event.c for _, event in self.facts.all(Member)}):
            self._judge_own_views(client)
        self._judge_gone()
        self._judge_names()
        self._judge_bounces()
        return self.found

    # ---- tables and views ----

    def _judge_tables(self) -> None:
        digests: dict[TracePosition, str] = {}
        places: dict[str, set[TracePosition]] = {daemon: set() for daemon in self.facts.daemons}
        for _, event in self.facts.all(Table):
            places[event.p].add(event.pos)
            if digests.setdefault(event.pos, event.digest) != event.digest:
                self.found.add("G1")
        if self.facts.quiet and any(own != set(digests) for own in places.values()):
            self.found.add("G1")

    def _judge_contents(self) -> None:
        contents: dict[object, object] = {}
        for _, event in self.facts.all(Member):
            content = (event.members, event.cause, event.changed)
            if contents.setdefault((event.group, event.pos[1:]), content) != content:
                self.found.add("G2")

    def _owed_views(self, daemon: str) -> list[tuple[int, str, Shown]]:
        """Index, client and view, for all that a daemon's Releases cause."""
        owed = []
        for index, event in self.facts.releases[daemon]:
            if event.kind in (JOIN, LEAVE, DISCONNECT):
                for group in self._groups_of(event, index):
                    owed += self._views_of(daemon, index, event, group)
        return owed

    def _groups_of(self, event: Release, index: int) -> list[str]:
        if event.kind == DISCONNECT:
            asks = [e for _, e in self.facts.all(Ask) if e.what == "join"]
            return sorted({ask.group for ask in asks})
        if self.facts.sent.get((event.c, event.first), index) < index:
            return [*self.facts.to((event.c, event.first))]
        return []

    def _views_of(
        self, daemon: str, index: int, event: Release, group: str
    ) -> list[tuple[int, str, Shown]]:
        before = self.facts.members(daemon, group, index)
        after = self.facts.members(daemon, group, index + 1)
        if before == after:
            return []
        cause = {JOIN: "join", LEAVE: "leave", DISCONNECT: "disconnect"}[event.kind]
        pos = (self.facts.views[daemon], event.time, event.ring, event.bundle, 0)
        shown = (group, pos, tuple(after), cause, (event.c,))
        to = after if event.kind != LEAVE else [*after, event.c]
        return [(index, client, shown) for client in to if self.facts.home(client) == daemon]

    def _judge_views(self) -> None:
        """G3, and the contents of G2."""
        owed = [entry for daemon in self.facts.daemons for entry in self._owed_views(daemon)]
        for index, event in self.facts.all(Member):
            matching = [
                entry
                for entry in owed
                if entry[0] < index
                and entry[1] == event.c
                and entry[2][:2] == (event.group, event.pos)
            ]
            if not matching:
                self.found.add("G3")
                continue
            owed.remove(matching[0])
            if matching[0][2][2:] != (event.members, event.cause, event.changed):
                self.found.add("G2")
        if self.facts.quiet:
            for _, client, _ in owed:
                if self.facts.ended_at(client) is None:
                    self.found.add("G3")

    def _judge_own_views(self, client: str) -> None:
        """G5 and V3."""
        inside: dict[str, bool] = {}
        for _, event in own_views(self.facts.events, client):
            joins = event.cause == "join" and event.changed == (client,)
            if not inside.get(event.group) and not (joins and client in event.members):
                self.found.add("G5")
            inside[event.group] = client in event.members
            together = tuple(m for m in event.members if m not in event.changed)
            if client not in event.members:
                together = ()
            elif event.cause == "join" and client in event.changed:
                together = (client,)
            if event.vs != together:
                self.found.add("V3")

    # ---- who has gone ----

    def _judge_gone(self) -> None:
        """P1 and P3."""
        for index, event in self.facts.all(Member):
            if event.cause == "disconnect":
                for gone in event.changed:
                    if self.facts.disconnect(gone, before=index) != event.pos[1:4]:
                        self.found.add("P1")
                    for later, deliver in self.deliveries.kept:
                        if later > index and (deliver.c, deliver.s) == (event.c, gone):
                            self.found.add("P3")

    def _judge_names(self) -> None:
        """P4."""
        connects = [event.c for _, event in self.facts.all(Ask) if event.what == "connect"]
        if len(connects) != len(set(connects)):
            self.found.add("P4")
        for daemon in self.facts.daemons:
            for index, event in self.facts.releases[daemon]:
                is_home = event.kind == CONNECT and self.facts.home(event.c) == daemon
                if is_home and event.c.rpartition("/")[0] in self.facts.connected(daemon, index):
                    self.found.add("P4")

    # ---- what comes back ----

    def _judge_bounces(self) -> None:
        """P2."""
        seen = set()
        for index, event in self.facts.all(Bounce):
            name = (event.c, event.m)
            if (name, event.target) in seen or not self._comes_back(name, event.target, index):
                self.found.add("P2")
            seen.add((name, event.target))
        if self.facts.quiet:
            for name in self.facts.messages():
                home = self.facts.home(name[0])
                at_home = home is not None and self.facts.position_known(name, [home]) is not None
                if at_home and self.facts.ended_at(name[0]) is None:
                    self._judge_missing(name, seen)

    def _judge_missing(self, name: Name, seen: set[tuple[Name, str]]) -> None:
        end = len(self.facts.events)
        for target in self.facts.to(name):
            if (name, target) not in seen and self._comes_back(name, target, end):
                self.found.add("P2")

    def _comes_back(self, name: Name, private: str, before: int) -> bool:
        """Whether nobody of that name was there at the message's position, as known by then."""
        facts = self.facts
        accepts = facts.accepted.get(name)
        if not accepts or accepts[0] > before or not isinstance(facts.item(name), Send):
            return False
        if facts.level(name) < RELIABLE or private not in facts.to(name) or private[0] != "#":
            return False
        target = facts.target(name, private)
        if target is None:
            return True
        gone = facts.disconnect(target, before=before)
        known = facts.position_known(name, facts.daemons)
        return gone is not None and known is not None and known[0] < before and gone < known[1][:3]
