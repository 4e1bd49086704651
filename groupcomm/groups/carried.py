"""Carried groups: the group table that one start of a daemon carries from view to view.

Pure. It is the table with which the last view ended whose announcements were all here.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from groupcomm.config.versions import CARRIED, CROWDS, LINES, READERS, Versions
from groupcomm.config.view import DaemonId, View
from groupcomm.groups.announcement import (
    Announcement,
    Rows,
    cut_announcement,
    encode_announcement,
    encode_section,
    part_bytes,
    rows_of,
    slices_of,
)
from groupcomm.groups.table import GroupTable
from groupcomm.wire.bundle import Bundle

_IN_BITS: Final = CARRIED | CROWDS

STEP_ROWS: Final = 500
"""The rows of its announcement that a daemon encodes in one step: some 2 ms."""


class OwnAnnouncement:
    """The announcement of this daemon to a view, which is made in pieces.

    Args:
        announcement: the announcement without sections.
        slices: the rows of its sections.
        rows: the rows of an announcement without sections.
        versions: what all daemons of the view have in common.
        room: the most bytes of a bundle.
    """

    __slots__ = ("_announcement", "_room", "_rows", "_sections", "_slices", "_versions")

    def __init__(
        self,
        announcement: Announcement,
        slices: Iterator[Rows],
        rows: Rows,
        versions: Versions,
        room: int,
    ) -> None:
        self._announcement, self._slices, self._rows = announcement, slices, rows
        self._versions, self._room = versions, room
        self._sections: list[bytes] = []

    def advance(self) -> list[Bundle]:
        """Encode some more rows; return the bundles of the announcement once it is whole."""
        left = STEP_ROWS
        for some in self._slices:
            self._sections.append(encode_section(some))
            left -= some.size
            if left <= 0:
                return []
        announcement = msgspec.structs.replace(self._announcement, sections=tuple(self._sections))
        size = part_bytes(self._room)
        body = encode_announcement(announcement, self._rows, self._versions, size)
        return cut_announcement(body, self._room)


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

    def _along(self, view: View) -> tuple[tuple[int, int], ...] | bytes:
        """Return the daemons that have come along, as announcements to a view have them."""
        if view.versions.features & _IN_BITS != _IN_BITS:
            return tuple(sorted((d.number, d.incarnation.random_id) for d in self._together))
        bits = sum(1 << at for at, each in enumerate(view.daemons) if each in self._together)
        return bits.to_bytes((len(view.daemons) + 7) // 8 if bits else 0, "little")

    def announce(self, room: int, view: View) -> OwnAnnouncement:
        """Return the announcement to a view, in bundles of at most `room` bytes."""
        table, versions = self._table, view.versions
        digest = 0 if table is None else table.digests.get(self._me, 0)
        pausing = {} if table is None else table.own_pausing
        groups = tuple((group, tuple(own)) for group, own in sorted(pausing.items()))
        announcement = Announcement(self._completed, self._along(view), digest, pausing=groups)
        slices: Iterator[Rows] = iter(())
        rows = Rows()
        readers = bool(versions.features & READERS)
        if table is not None and not versions.features & CARRIED:
            rows = rows_of(table, readers=readers)
        elif table is not None and not self._together.issuperset(view.daemons):
            slices = slices_of(table, readers=readers)
            along = [daemon for daemon in view.daemons if daemon in self._together]
            if versions.features & LINES and along[0] == self._daemons[self._me]:
                announcement = msgspec.structs.replace(announcement, lines=table.lines.announce())
        return OwnAnnouncement(announcement, slices, rows, versions, room)
