"""The beginning of views: whatever is carried along, tables and views are as if all were announced.

Daemons part and meet, restart, and their programs come and go. The expected table is made of what
each daemon of a view has of its own programs.
"""

import pickle
from collections.abc import Iterable
from functools import partial
from math import inf
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.config.versions import CARRIED, SPOKEN, Versions
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.events import Cause, GroupView, MemberId
from groupcomm.groups.announcement import Announcement, Announcements, Rows
from groupcomm.groups.beginning import DROPS_A_UNIT, PIECE, Beginning
from groupcomm.groups.carried import CarriedGroups
from groupcomm.groups.changes import GroupChange
from groupcomm.groups.groups import CONTROL_UNITS, Groups
from groupcomm.groups.table import GroupTable
from groupcomm.session.differences import Difference, place_of
from groupcomm.session.group_lists import GroupLists
from tests.groupcomm.groups.announced import bundles_of, sections_of
from tests.groupcomm.groups.stage import Audience, Stage

OLDER = attrs.evolve(SPOKEN, features=SPOKEN.features & ~CARRIED)


class Programs(Audience):
    """The programs of one daemon, and the lists that they hold.

    Those with odd numbers are of a release that knows neither differences nor CONTINUED.

    Attributes:
        latest: by connection and group the latest view that each has got.
        changes: the changes that were told.
    """

    def __init__(self, home: str, lists: dict[int, GroupLists]) -> None:
        super().__init__()
        self.home, self.lists = home, lists
        self.latest: dict[tuple[int, str], GroupView] = {}
        self.changes = 0

    def show_change(
        self, connections: Iterable[int], change: GroupChange, own: int | None = None
    ) -> None:
        self.changes += 1
        for connection in [*connections] if own is None else [*connections, own]:
            found = change.view(own=connection == own)
            lists = self.lists.setdefault(connection, GroupLists())
            me = MemberId(f"#u{connection}#{self.home}", connection)
            is_new = connection == own and change.cause is Cause.JOIN
            if change.before is not None and connection % 2 == 0 and not is_new:
                assert lists.apply(difference_of(change, change.before), me) == found
            else:
                lists.hold(found, me)
            last = self.latest.get((connection, change.group))
            assert last is None or last.id != found.id, "once is enough"
            self.latest[connection, change.group] = found

    def continue_groups(self, connection: int, start: Position) -> bool:
        if connection % 2:
            return False
        for view in self.lists[connection].go_on(start.view):
            self.latest[connection, view.group] = view
        return True


def difference_of(change: GroupChange, before: Position) -> Difference:
    return Difference(
        group=change.group,
        id=change.id,
        before=place_of(before),
        cause=change.cause,
        size=len(change.members),
        went=change.went,
        members=change.came + change.left,
    )


@attrs.define
class Daemon:
    """One daemon: what it carries, and its place in the present view."""

    id: DaemonId
    carried: CarriedGroups = attrs.Factory(CarriedGroups)
    lists: dict[int, GroupLists] = attrs.Factory(dict)
    stage: Stage | None = None
    me: int = 0

    @property
    def table(self) -> GroupTable:
        return GroupTable(0) if self.stage is None else self.stage.groups[self.me].table


class Cluster:
    """Three daemons, each in a view with some of the others."""

    def __init__(self, versions: Versions, units: int) -> None:
        self.daemons = {name: Daemon(DaemonId(name, Incarnation(1, 1))) for name in "abc"}
        self.versions, self.units = versions, units
        self.views = 0
        self.divide(["abc"])

    def divide(self, parts: Iterable[str]) -> None:
        """Begin a view of each of these parts."""
        for part in parts:
            daemons = [self.daemons[name] for name in part]
            self.views += 1
            view = View(
                id=ViewId(self.views, part[0], self.views),
                daemons=tuple(daemon.id for daemon in daemons),
                rings=(tuple(range(len(part))),),
                versions=self.versions,
            )
            for daemon in daemons:
                if daemon.stage is not None:
                    old = daemon.stage.groups[daemon.me]._view
                    daemon.carried.replace(daemon.table, old, daemon.me)
                    same = [d.id for d in daemons if d.stage is daemon.stage]
                    daemon.carried.keep_members(same)
            self._begin(view, daemons)

    def restart(self, name: str) -> None:
        """Begin a new start of a daemon, which knows nothing."""
        number = self.daemons[name].id.incarnation.random_id + 1
        self.daemons[name] = Daemon(DaemonId(name, Incarnation(1, number)))

    def _begin(self, view: View, daemons: list[Daemon]) -> None:
        stage = Stage(view)
        sent = [bundles_of(daemon.carried.announce(200, view)) for daemon in daemons]
        expected = expected_table(daemons)
        together = [[d.stage is not None and d.stage is x.stage for d in daemons] for x in daemons]
        since = [positions(daemon.table) for daemon in daemons]
        for me, daemon in enumerate(daemons):
            held = Announcements(len(daemons), self.versions)
            for index, bundles in enumerate(sent):
                for bundle in bundles:
                    held.accept(index, bundle)
            programs = Programs(daemon.id.name, daemon.lists)
            stage.audience[me] = programs
            stage.groups[me] = groups = Groups(view, me, programs)
            ready: list[None] = []
            note = partial(ready.append, None)
            beginning = groups.begin(daemon.carried.pop(me), held, on_table=note)
            while not beginning.advance(self.units):
                assert ready or not programs.latest, "no view before the table is whole"
            assert ready == [None]
            check_table(groups.table, expected)
            along = {d.id.name for d, same in zip(daemons, together[me], strict=True) if same}
            check_views(programs, groups.table, along | {daemon.id.name})
            start = Position(view.id, 0, 0, 0, 0)
            for member, found in positions(groups.table).items():
                known = member[0].daemon in along
                assert found == (since[me].get(member, start) if known else start)
        for me, daemon in enumerate(daemons):
            daemon.stage, daemon.me = stage, me

    def act(self, kind: str, name: str, connection: int, group: str) -> None:
        """Have a program of a daemon connect, join, read, leave or go."""
        daemon = self.daemons[name]
        stage, me = daemon.stage, daemon.me
        assert stage is not None
        user = f"u{connection}"
        if kind == "connect":
            if (me, connection) not in daemon.table.sessions:
                stage.connect(me, connection, user)
        elif kind == "go":
            stage.disconnect(me, connection, user)
            daemon.lists.pop(connection, None)
        else:
            {"join": stage.join, "read": stage.read, "leave": stage.leave}[kind](
                me, connection, user, group
            )


def positions(table: GroupTable) -> dict[tuple[MemberId, str], Position]:
    """Return since when each session is in its groups."""
    return {(m.id, group): at for m in table.sessions.values() for group, at in m.groups.items()}


def expected_table(daemons: list[Daemon]) -> tuple[Any, Any]:
    """Return the sessions and groups that these daemons have, in order."""
    sessions, groups = set(), dict[str, list[MemberId]]()
    for daemon in daemons:
        table = daemon.table
        for connection, user in table.own_sessions():
            sessions.add(MemberId(f"#{user}#{daemon.id.name}", connection))
        for group, connections in table.local.items():
            for connection in connections:
                member = table.sessions[daemon.me, connection].id
                groups.setdefault(group, []).append(member)
    return sessions, groups


def check_table(table: GroupTable, expected: tuple[Any, Any]) -> None:
    sessions, groups = expected
    assert {member.id for member in table.sessions.values()} == sessions
    assert {name: list(table.member_ids(name)) for name in table.groups} == groups
    again = GroupTable(0)
    for (daemon, _), member in table.sessions.items():
        copy = again.connect(daemon, member.id)
        for group, at in member.groups.items():
            (again.read if table.reads(member, group) else again.join)(copy, group, at)
    assert (table.digest, table.name_bytes) == (again.digest, again.name_bytes)
    assert table.memberships == again.memberships == sum(map(len, table.groups.values()))
    assert {d: v for d, v in table.digests.items() if v} == {
        d: v for d, v in again.digests.items() if v
    }


def check_views(programs: Programs, table: GroupTable, along: set[str]) -> None:
    """Check that each program has got the present view of each of its groups, and of no other."""
    told = set()
    for group, connections in table.local.items():
        members = table.member_ids(group)
        for connection in connections:
            view = programs.latest[connection, group]
            together = tuple(member for member in members if member.daemon in along)
            assert (view.members, view.vs_set, view.cause) == (members, together, Cause.NETWORK)
            told.add((connection, group))
    assert told == programs.latest.keys()


ACTS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["connect", "join", "join", "join", "read", "leave", "go"]),
            st.sampled_from("abc"),
            st.integers(1, 4),
            st.sampled_from(["g", "h", "i"]),
        ),
        st.sampled_from([["ab", "c"], ["abc"], ["a", "b", "c"], ["ac", "b"], ["abc"], ["abc"]]),
        st.sampled_from("abc"),
    ),
    max_size=40,
)


@given(ACTS, st.sampled_from([SPOKEN, SPOKEN, OLDER]), st.sampled_from([1, 3, PIECE]))
def test_every_view_begins_as_if_all_rows_were_announced(
    acts: list[Any], versions: Versions, units: int
) -> None:
    cluster = Cluster(versions, units)
    for name in "abc":
        for connection in (1, 2):
            cluster.act("connect", name, connection, "")
            cluster.act("join", name, connection, "g")
    for act in acts:
        if isinstance(act, tuple):
            cluster.act(*act)
        elif isinstance(act, list):
            cluster.divide(act)
        else:  # a daemon ends; the others go on without it, and it comes back
            rest = "abc".replace(act, "")
            cluster.divide([rest])
            cluster.restart(act)
            cluster.divide(["abc"])
    cluster.divide(["abc"])


# ---- what it costs, and what it stands ----

PRESENT = View(
    id=ViewId(9, "a", 9),
    daemons=tuple(DaemonId(name, Incarnation(1, 1)) for name in "ab"),
    rings=((0, 1),),
    versions=SPOKEN,
)
FORMER = attrs.evolve(PRESENT, id=ViewId(8, "a", 8))
GROUPS = 500


def stage_of(count: int = GROUPS) -> Stage:
    """Each daemon has one program in `count` groups of its own; both are in one."""
    stage = Stage(FORMER)
    for daemon in (0, 1):
        stage.connect(daemon, 2, "u2")
        for group in ["all", *(f"{daemon}/{number}" for number in range(count))]:
            stage.join(daemon, 2, "u2", group)
    return stage


def carried_of(stage: Stage, me: int, daemons: tuple[DaemonId, ...]) -> CarriedGroups:
    carried = CarriedGroups()
    carried.replace(stage.groups[me].table, stage.groups[me]._view, me)
    carried.keep_members(daemons)
    return carried


def begun(
    view: View, carried: list[CarriedGroups], programs: Programs, lie: Announcement | None = None
) -> tuple[Groups, Beginning]:
    """Return the groups of the first daemon of a view; the last one may announce a lie."""
    held = Announcements(len(carried), view.versions)
    for index, each in enumerate(carried):
        for bundle in bundles_of(each.announce(1000, view)):
            held.accept(index, bundle)
    if lie is not None:
        held.whole[len(carried) - 1] = lie
    groups = Groups(view, 0, programs)
    return groups, groups.begin(carried[0].pop(0), held, on_table=programs.leaves.clear)


def programs_of(stage: Stage) -> Programs:
    """Return the programs of the first daemon, which hold the lists of their groups."""
    programs = Programs("a", {2: GroupLists()})
    table = stage.groups[0].table
    for group in table.local:
        change = GroupChange(
            group=group,
            id=table.shown[group],
            before=None,
            cause=Cause.JOIN,
            members=table.groups[group],
        )
        programs.lists[2].hold(change.view(), MemberId("#u2#a", 2))
    return programs


def test_groups_that_all_came_along_with_cost_neither_rows_nor_views() -> None:
    stage = stage_of()
    programs = programs_of(stage)
    carried = [carried_of(stage, me, PRESENT.daemons) for me in (0, 1)]
    sent = [bundles_of(each.announce(1000, PRESENT)) for each in carried]
    assert [sum(bundle.size for bundle in each) < 200 for each in sent] == [1, 1]
    _, beginning = begun(PRESENT, carried, programs)
    beginning.advance(inf)
    assert programs.changes == 0
    assert len(programs.latest) == GROUPS + 1, "CONTINUED stands for all of them"


def test_of_the_groups_of_a_daemon_that_has_gone_only_common_ones_are_told() -> None:
    stage = stage_of()
    programs = programs_of(stage)
    alone = attrs.evolve(PRESENT, daemons=PRESENT.daemons[:1], rings=((0,),))
    groups, beginning = begun(alone, [carried_of(stage, 0, alone.daemons)], programs)
    steps = 1
    while not beginning.advance(34):
        steps += 1
    assert steps > GROUPS // DROPS_A_UNIT // 34, "a step does no more than it may"
    assert programs.changes == 1
    assert len(groups.table.groups) == GROUPS + 1


def test_a_beginning_goes_on_in_a_copy_of_its_daemon() -> None:
    stage = stage_of()
    programs = programs_of(stage)
    alone = attrs.evolve(PRESENT, daemons=PRESENT.daemons[:1], rings=((0,),))
    groups, beginning = begun(alone, [carried_of(stage, 0, alone.daemons)], programs)
    beginning.advance(100)
    copied, copy = pickle.loads(pickle.dumps((groups, beginning)))
    copy.advance(inf)
    beginning.advance(inf)
    assert copied.table.digest == groups.table.digest
    assert list(copied.table.groups) == list(groups.table.groups)


def sections(*rows: Rows) -> tuple[bytes, ...]:
    return tuple(msgspec.msgpack.encode(each) for each in rows)


SESSIONS = ((1, "u"), (3, "w"))


@pytest.mark.parametrize(
    "broken",
    [
        (b"nothing",),
        sections(Rows(((1, "u"), (1, "v")))),
        sections(Rows(((1, "u"), (2, "u")))),
        sections(Rows(SESSIONS), Rows(((4, "u"),))),
        sections(Rows(((1, "u#"),))),
        sections(Rows(((1, "ü" * 127),))),  # with its daemon's name this is one byte too many
        sections(Rows(SESSIONS, (("g", (2,)),))),
        sections(Rows(SESSIONS, (("g", ()),))),
        sections(Rows(SESSIONS, (("g", (1, 1)),))),
        sections(Rows(SESSIONS, (("g", (1,)), ("g", (1,))))),
        sections(Rows(SESSIONS, (("g", (1,)),)), Rows((), (("g", (1,)),))),
        sections(Rows(SESSIONS, (("#u#b", (1,)),))),
        sections(Rows(SESSIONS, (("g", (1,)),), (), (("g", (1,)),))),  # a member that reads
        sections(Rows(SESSIONS, (), (), (("h", (9,)),))),
        sections(Rows(SESSIONS, (), (), (("h", ()),))),
        sections(Rows(SESSIONS, (), (), (("#h", (1,)),))),
        sections(Rows(SESSIONS, (), ((2, "cert:ann"),))),
        sections(Rows(SESSIONS, (), ((1, "a"), (1, "b")))),
        sections(Rows(SESSIONS, (("h", (1,)),))),  # they do not have the digest
    ],
)
@pytest.mark.parametrize("versions", [SPOKEN, OLDER])
def test_rows_that_break_a_rule_count_as_none(
    broken: tuple[bytes, ...], versions: Versions
) -> None:
    """All daemons see the same bytes, so they are nothing to all of them."""
    view = attrs.evolve(PRESENT, versions=versions)
    fine = Rows(((1, "u"), (3, "w")), (("all", (3, 1)),), ((3, "cert:w"),), (("g", (1,)),))
    for rows, digest_of in ((sections_of(fine), fine), (broken, fine)):
        stage = stage_of(2)
        programs = programs_of(stage)
        lie = Announcement(b"", (), digest_for(digest_of), rows)
        carried = [carried_of(stage, 0, PRESENT.daemons[:1]), CarriedGroups()]
        groups, beginning = begun(view, carried, programs, lie)
        beginning.advance(inf)
        mine = {member.id.user for member in groups.table.sessions.values() if member.daemon == 1}
        has_other_digest = broken == sections(Rows(SESSIONS, (("h", (1,)),)))
        if rows is not broken or (versions is OLDER and has_other_digest):
            assert mine == {"u", "w"}
        else:
            assert mine == set()
            assert groups.table.member_ids("all") == (MemberId("#u2#a", 2),)
            check_views(programs, groups.table, {"a"})


def digest_for(rows: Rows) -> int:
    """Return the digest of rows of daemon b."""
    table = GroupTable(1)
    at = Position(FORMER.id, 0, 0, 0, 0)
    members = {c: table.connect(1, MemberId(f"#{user}#b", c)) for c, user in rows.sessions}
    for enter, groups in ((table.join, rows.groups), (table.read, rows.readers)):
        for group, connections in groups:
            for connection in connections:
                enter(members[connection], group, at)
    return table.digest


def test_a_daemon_that_came_along_with_other_rows_than_it_had_brings_those() -> None:
    """No correct daemon does; its members are told as a whole list."""
    stage = stage_of(2)
    programs = programs_of(stage)
    rows = Rows(((7, "new"),), (("all", (7,)),))
    carried = [carried_of(stage, me, PRESENT.daemons) for me in (0, 1)]
    lie = Announcement(FORMER.key, b"\x03", digest_for(rows), sections_of(rows))
    groups, beginning = begun(PRESENT, carried, programs, lie)
    beginning.advance(inf)
    assert [str(member) for member in groups.table.member_ids("all")] == ["#u2#a/2", "#new#b/7"]
    assert programs.changes == 1
    check_views(programs, groups.table, {"a", "b"})


def test_a_session_departs_from_many_groups_in_pieces() -> None:
    stage, count = stage_of(2), 2 * PIECE + 10
    for number in range(count):
        stage.join(0, 2, "u2", f"more/{number}")
    groups, audience = stage.groups[1], stage.audience[1]
    before, audience.units = len(groups.table.groups), 0
    stage.disconnect(0, 2, "u2")
    assert groups.departing is not None
    assert audience.units == PIECE + CONTROL_UNITS
    assert before - len(groups.table.groups) == PIECE - 1, "the other one stays in one of them"
    assert len(audience.digests) == len(stage.audience[0].digests), "the table has not changed yet"
    assert not groups.go_on_departing()
    assert groups.go_on_departing()
    assert len(groups.table.groups) == 3, "those of the other one"
    assert not stage.groups[0].go_on_departing()
    assert stage.groups[0].go_on_departing()
    assert audience.digests[-1] == stage.audience[0].digests[-1]
