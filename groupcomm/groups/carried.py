"""Carried groups: the group table that one start of a daemon carries from view to view.

Pure. It is the table with which the last view ended whose announcements were all here.
"""

from collections.abc import Sequence

from groupcomm.config.versions import CARRIED, READERS
from groupcomm.config.view import DaemonId, View
from groupcomm.groups.announcement import (
    Announcement,
    cut_announcement,
    encode_announcement,
    part_bytes,
    rows_of,
)
from groupcomm.groups.table import GroupTable
from groupcomm.wire.bundle import Bundle


class CarriedGroups:
    """The groups that one start of a daemon carries from view to view."""

    __slots__ = ("_completed", "_daemons", "_me", "_table", "_together")

    def __init__(self) -> None:
        self._table: GroupTable | None = None
        self._completed = b""  # the key of that view
        self._daemons: Sequence[DaemonId] = ()  # the members of that view
        self._me = 0  # the index of this daemon among them
        # The daemons that have come along since then.
        self._together: frozenset[DaemonId] = frozenset()

    def replace(self, table: GroupTable, view: View, me: int) -> None:
        """Carry the groups of a view that has ended and whose groups were known completely."""
        self._table, self._completed, self._together = table, view.key, frozenset(view.daemons)
        self._daemons, self._me = view.daemons, me

    def pop(self, me: int) -> tuple[GroupTable, Sequence[DaemonId]]:
        """Return the table and the daemons of its view; an empty one before the first.

        The view whose announcements are all here now changes it; `me`: this daemon's index there.
        """
        return (self._table or GroupTable(me)), self._daemons

    def keep_members(self, members: Sequence[DaemonId]) -> None:
        """Note the transitional members: they continue into the next view together."""
        self._together &= frozenset(members)

    def announce(self, room: int, view: View) -> list[Bundle]:
        """Return the announcement to a view, in bundles of at most `room` bytes."""
        keys = sorted((d.number, d.incarnation.random_id) for d in self._together)
        table, versions = self._table, view.versions
        digest = 0 if table is None else table.digests.get(self._me, 0)
        announcement = Announcement(self._completed, tuple(keys), digest)
        rows = None
        known = versions.features & CARRIED and self._together.issuperset(view.daemons)
        if table is not None and not known:
            rows = rows_of(table, readers=bool(versions.features & READERS))
        body = encode_announcement(announcement, rows, versions, part_bytes(room))
        return cut_announcement(body, room)
