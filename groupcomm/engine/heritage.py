"""What a daemon brings into its next view: the groups that it knows, and from which view."""

from collections.abc import Sequence

from groupcomm.config.view import DaemonId
from groupcomm.groups.announcement import announce, cut_announcement
from groupcomm.groups.table import GroupTable
from groupcomm.wire.bundle import Bundle


class CarriedGroups:
    """Of one start of a daemon, from view to view."""

    __slots__ = ("_completed", "_table", "_together")

    def __init__(self) -> None:
        self._table: GroupTable | None = None  # of the last view whose groups were known whole
        self._completed = b""  # its key
        self._together: frozenset[DaemonId] = frozenset()  # who came along ever since

    def replace(self, table: GroupTable, key: bytes, daemons: Sequence[DaemonId]) -> None:
        """A view has ended whose groups were known whole."""
        self._table, self._completed, self._together = table, key, frozenset(daemons)

    def keep_members(self, members: Sequence[DaemonId]) -> None:
        """These come along into the next view."""
        self._together &= frozenset(members)

    def announce(self, room: int) -> list[Bundle]:
        """To the members of the next view, in bundles of at most so many bytes."""
        keys = sorted((d.number, d.incarnation.random_id) for d in self._together)
        return cut_announcement(announce(self._table, self._completed, keys), room)
