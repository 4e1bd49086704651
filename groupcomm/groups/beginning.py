"""The beginning of a view: the last view's group table, less who has gone, with who has come.

Pure. Daemons that have come along from one view have the same table of it, so they keep it, and
only what differs costs work. That work is done in pieces: `advance` does a part of it, so that the
ring lives while a large table is merged. Nothing is delivered in the view before all is done.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import attrs

from groupcomm.clocks.stamp import Position
from groupcomm.config.versions import CARRIED
from groupcomm.config.view import DaemonId, View
from groupcomm.errors import LocalProtocolError
from groupcomm.events import Cause, MemberId
from groupcomm.groups.announcement import Announcements, Groups, Rows, decode_rows_untrusted
from groupcomm.groups.audience import Audience
from groupcomm.groups.changes import GroupChange
from groupcomm.groups.lines import LineRules
from groupcomm.groups.table import GroupTable, Member
from groupcomm.names import check_group, check_user, private_name

PIECE: Final = 400
"""The units of work of one step: some 2 ms. A membership that is entered is one."""

DROPS_A_UNIT: Final = 3
"""The memberships that are dropped in the time that one is entered."""

UNITS_A_CHANGE: Final = 4
"""The units of a change of a group that is told, besides one for each session."""

SLICE: Final = 100
"""The groups or sessions of which most need nothing that are looked at together."""

SLICE_UNITS: Final = 25
"""The units that this takes."""

Phase: TypeAlias = Callable[[], tuple[Sequence[Any], Callable[[Any], int]]]
"""Returns the items of a phase, and what does one of them: it returns the units that it took."""


@attrs.define
class Touched:
    """A group with members here of which others have gone or come.

    Attributes:
        before: the id of the view that its members hold; None if they need the whole list.
        went: the daemons whose members of that view did not come along.
    """

    before: Position | None
    went: set[str] = attrs.Factory(set)


class Beginning:
    """The beginning of one view at one daemon.

    Args:
        view: the view.
        me: the index of this daemon.
        carried: the table with which the last complete view ended here, which is used up, and the
            daemons of that view; an empty table before the first.
        announcements: those of all daemons.
        audience: the local sessions.
        lines: what decides whether lines go on in the view.
        on_session: is called with each session of the table; None if nobody asks.
        on_table: is called once the table is whole, before any group is shown.

    Attributes:
        done: whether all is done.
        highest: for each daemon the highest connection number of its sessions.
        table: the group table.
    """

    def __init__(
        self,
        view: View,
        me: int,
        carried: tuple[GroupTable, Sequence[DaemonId]],
        announcements: Announcements,
        audience: Audience,
        *,
        lines: LineRules,
        on_session: Callable[[Member], None] | None,
        on_table: Callable[[], None],
    ) -> None:
        self.done = False
        self._view, self._lines = view, lines
        self.table, before = carried
        self.highest = [0] * len(view.daemons)
        self._audience, self._announcements = audience, announcements
        self._on_session, self._on_table = on_session, on_table
        self._me = me
        self._names = [daemon.name for daemon in view.daemons]
        self._keys = [(d.number, d.incarnation.random_id) for d in view.daemons]
        self._start = Position(view.id, 0, 0, 0, 0)
        self._carries = bool(view.versions.features & CARRIED)
        self._knows_pauses = view.versions.knows_pauses
        self._together = announcements.together(me, self._keys)
        now = {daemon: index for index, daemon in enumerate(view.daemons)}
        along = {i: now[d] for i, d in enumerate(before) if now.get(d) in self._together}
        self._went = {i: daemon.name for i, daemon in enumerate(before) if i not in along}
        self._kept = {i: index for i, index in along.items() if self._is_kept(i, index)}
        self._shown = self.table.shown
        self._since: dict[MemberId, dict[str, Position]] = {}  # of those who came, and are not kept
        self._touched: dict[str, Touched] = {}
        self._apart: dict[str, list[int]] = {}  # by group, sessions that are told of it by itself
        self._phases = self._plan()
        self._items: Sequence[Any] = ()
        self._at = 0
        self._work: Callable[[Any], int] = self._drop

    def _is_kept(self, old: int, new: int) -> bool:
        """Return whether a daemon that came along has the rows that the table has of it."""
        return self._carries and (
            self._announcements.whole[new].digest == self.table.digests.get(old, 0)
        )

    @property
    def _is_known(self) -> bool:
        """Return whether local members hold the views with which the table was carried here."""
        return self._me in self._kept.values()

    def _plan(self) -> list[Phase]:
        kept = frozenset(self._kept.values())
        phases: list[Phase] = [self._begin_dropping, self._begin_renumbering]
        phases += [partial(self._begin_rows, i) for i in range(len(self._names)) if i not in kept]
        phases += [self._begin_sorting, self._begin_pausing, self._begin_noting]
        return [*phases, self._begin_showing, self._begin_continuing, self._begin_rest]

    def advance(self, units: float = PIECE) -> bool:
        """Do about so many units of the work that is left; return whether all is done."""
        spent, go_on = 0, self._audience.go_on
        while spent < units and not self.done and go_on():
            if self._at < len(self._items):
                self._at += 1
                spent += self._work(self._items[self._at - 1])
            elif self._phases:
                (self._items, self._work), self._at = self._phases.pop(0)(), 0
            else:
                self.done = True
        self._audience.charge(spent)
        return self.done

    # ---- who has gone ----

    def _begin_dropping(self) -> tuple[Sequence[Any], Callable[[Any], int]]:
        sessions = self.table.sessions.values()
        gone = [member for member in sessions if member.daemon not in self._kept]
        for member in gone:
            if member.daemon not in self._went:
                self._since[member.id] = member.groups.copy()
        return [(member, some) for member in gone for some in _slices([*member.groups])], self._drop

    def _drop(self, item: tuple[Member, Sequence[str]]) -> int:
        member, groups = item
        drop, local = self.table.drop, self.table.local
        for group in groups:
            if drop(member, group) and group in local:
                touched = self._touch(group)
                if member.daemon in self._went:
                    touched.went.add(self._went[member.daemon])
                else:
                    touched.before = None
        return 1 + len(groups) // DROPS_A_UNIT

    def _touch(self, group: str) -> Touched:
        """Note that a group with members here changes."""
        touched = self._touched.get(group)
        if touched is None:
            touched = self._touched[group] = Touched(self.table.shown.get(group))
        return touched

    def _begin_renumbering(self) -> tuple[Sequence[Any], Callable[[Any], int]]:
        return [self._kept], self._renumber

    def _renumber(self, kept: dict[int, int]) -> int:
        self.table.renumber(self._me, kept)
        for daemon, connection in self.table.sessions:
            self.highest[daemon] = max(self.highest[daemon], connection)
        return len(self.table.sessions) // 4

    # ---- who has come ----

    def _begin_rows(self, daemon: int) -> tuple[Sequence[Any], Callable[[Any], int]]:
        return [*self._announcements.whole[daemon].sections, b""], partial(self._enter, daemon)

    def _enter(self, daemon: int, section: bytes) -> int:
        """Enter a section of a daemon's rows; b"" follows the last one.

        If they break a rule, or do not have the digest that was announced, none of them counts.
        """
        try:
            return self._enter_rows(daemon, section) if section else self._check(daemon)
        except LocalProtocolError:
            self._remove(daemon)
            return PIECE

    def _check(self, daemon: int) -> int:
        digest = self._announcements.whole[daemon].digest
        if self._carries and digest != self.table.digests.get(daemon, 0):
            raise LocalProtocolError("the rows are not those of the digest")
        return 1

    def _enter_rows(self, daemon: int, section: bytes) -> int:
        rows = decode_rows_untrusted(section)
        if rows is None:
            raise LocalProtocolError("a section breaks its layout")
        self._enter_sessions(daemon, rows)
        self._enter_groups(daemon, rows.groups, reads=False)
        self._enter_groups(daemon, rows.readers, reads=True)
        return len(rows.sessions) + sum(len(each) for _, each in (*rows.groups, *rows.readers))

    def _enter_sessions(self, daemon: int, rows: Rows) -> None:
        table, principals = self.table, dict(rows.principals)
        if len(principals) < len(rows.principals) or principals.keys() - dict(rows.sessions).keys():
            raise LocalProtocolError("a principal of no session")
        for connection, user in rows.sessions:
            name = private_name(check_user(user), self._names[daemon])
            if (daemon, connection) in table.sessions or name in table.names:
                raise LocalProtocolError(f"two sessions {name}")
            table.connect(daemon, MemberId(name, connection), principals.get(connection, ""))
            self.highest[daemon] = max(self.highest[daemon], connection)

    def _enter_groups(self, daemon: int, groups: Groups, *, reads: bool) -> None:
        table = self.table
        enter = table.read if reads else table.join
        for group, connections in groups:
            check_group(group)
            if not connections:
                raise LocalProtocolError(f"no members of {group!r}")
            if not reads and group in table.local:
                self._touch(group)
            for connection in connections:
                member = table.sessions.get((daemon, connection))
                if member is None or group in member.groups:
                    raise LocalProtocolError(f"{connection} in {group!r}")
                since = self._since.get(member.id)
                enter(member, group, since.get(group, self._start) if since else self._start)

    def _remove(self, daemon: int) -> None:
        """Drop the rows of a daemon that were entered: others break a rule."""
        for member in [m for m in self.table.sessions.values() if m.daemon == daemon]:
            for group in list(member.groups):
                if self.table.reads(member, group):
                    self.table.stop_reading(member, group)
                else:
                    self.table.leave(member, group, self._start)
            self.table.disconnect(member)

    # ---- the table ----

    def _begin_sorting(self) -> tuple[Sequence[Any], Callable[[Any], int]]:
        return _slices(list(self.table.groups)), self._sort

    def _sort(self, groups: Sequence[str]) -> int:
        return SLICE_UNITS + sum(map(self.table.sort, groups)) // 8

    def _begin_pausing(self) -> tuple[Sequence[Any], Callable[[Any], int]]:
        self.table.pausing = {}
        rows = (
            (daemon, group, some)
            for daemon in range(len(self._names) if self._knows_pauses else 0)
            for group, connections in self._announcements.whole[daemon].pausing
            for some in _slices(connections)
        )
        return list(rows), self._pause

    def _pause(self, row: tuple[int, str, Sequence[int]]) -> int:
        """Note sessions of a daemon that need a quorum; whoever is not in the group does not
        count."""
        daemon, group, connections = row
        for connection in connections:
            member = self.table.sessions.get((daemon, connection))
            if member is not None and group in member.groups:
                self.table.pause(member, group)
        return SLICE_UNITS

    def _begin_noting(self) -> tuple[Sequence[Any], Callable[[Any], int]]:
        return (list(self.table.sessions.values()) if self._on_session else []), self._note

    def _note(self, member: Member) -> int:
        assert self._on_session is not None
        self._on_session(member)
        return 1 + len(member.groups) // 8

    # ---- what local members are told ----

    def _begin_showing(self) -> tuple[Sequence[Any], Callable[[Any], int]]:
        table, names = self.table, self._names
        self._shown, table.shown = table.shown, dict.fromkeys(table.local, self._start)
        tables = self._announcements.tables()
        table.lines.begin(self._view, self._lines, tables, table.names)
        self._on_table()
        self._audience.table_changed(self._start, table.digest)
        origins = self._announcements.origins
        self._audience.came_from(lambda: dict(zip(names, origins(self._keys), strict=True)))
        shown = table.local.keys() & self._touched.keys() if self._is_known else table.local
        return sorted(shown), self._show

    def _show(self, group: str, connections: Sequence[int] | None = None) -> int:
        """Tell local members of a change of their group: all of them if none are named."""
        members = self.table.groups[group]
        touched = self._touched.get(group) or Touched(self._shown.get(group))
        change = GroupChange(
            group=group,
            id=self._start,
            before=touched.before if self._is_known else None,
            cause=Cause.NETWORK,
            members=members,
            came=tuple(m.id for m in members if m.daemon not in self._together),
            went=tuple(sorted(touched.went)),
        )
        if connections is None:
            connections = list(self.table.local[group])
        self._audience.show_change(connections, change)
        return UNITS_A_CHANGE + len(connections)

    def _begin_continuing(self) -> tuple[Sequence[Any], Callable[[Any], int]]:
        own = [m for m in self.table.sessions.values() if m.daemon == self._me and m.groups]
        return (_slices(own) if self._is_known else []), self._continue

    def _continue(self, sessions: Sequence[Member]) -> int:
        """Tell sessions that all their other groups go on as they were."""
        local, units = self.table.local, len(sessions)
        for member in sessions:
            connection = member.id.connection
            if not self._audience.continue_groups(connection, self._start):
                units += len(member.groups) // 4
                for group in member.groups:
                    if group not in self._touched and connection in local.get(group, ()):
                        self._apart.setdefault(group, []).append(connection)
        return units

    def _begin_rest(self) -> tuple[Sequence[Any], Callable[[Any], int]]:
        return sorted(self._apart), self._show_apart

    def _show_apart(self, group: str) -> int:
        return self._show(group, self._apart[group])


def _slices(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[at : at + SLICE] for at in range(0, len(items), SLICE)]
