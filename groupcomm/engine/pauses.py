"""Pauses: the groups whose AGREED and SAFE messages wait in a view without a quorum. Pure.

docs/minority.md has the states, and why no member is told something else than another.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from groupcomm.groups.table import GroupTable, Member
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import NEEDS_QUORUM, Bundle, BundleKind

_AGREED = ServiceLevel.AGREED
_FRAGMENT, _JOIN, _LEAVE = BundleKind.FRAGMENT, BundleKind.JOIN, BundleKind.LEAVE


class Pauses:
    """The groups that pause in the present view of one daemon.

    Attributes:
        are_known: whether all daemons of the view know joins that need a quorum.
    """

    __slots__ = ("_before", "_lacks_quorum", "_table", "are_known")

    def __init__(self) -> None:
        """Begin without a view: nothing pauses."""
        self._table: GroupTable | None = None
        self._lacks_quorum = self.are_known = False
        self._before = 0

    def begin(
        self, table: GroupTable, *, lacks_quorum: bool, are_known: bool
    ) -> Callable[[Bundle], bool] | None:
        """Begin a view; return what says whether a bundle has to wait, None if none has to."""
        self._table, self._lacks_quorum, self.are_known = table, lacks_quorum, are_known
        self._before = self.groups
        return self._must_wait if lacks_quorum or not are_known else None

    @property
    def by_group(self) -> Mapping[str, Collection[Member]]:
        """Return the groups that pause, and the sessions that need a quorum in each."""
        return self._table.pausing if self._table is not None and self._lacks_quorum else {}

    @property
    def groups(self) -> int:
        """Return the number of groups that pause."""
        return len(self.by_group)

    def _must_wait(self, bundle: Bundle) -> bool:
        """Return whether a bundle has to wait for a quorum, or for daemons of this release."""
        if bundle.kind == _JOIN:
            return bool(bundle.flags & NEEDS_QUORUM)
        if not self._lacks_quorum or bundle.kind > _FRAGMENT or bundle.level < _AGREED:
            return False
        assert self._table is not None, "a view has begun"
        return any(group in self._table.pausing for group in bundle.groups)

    def have_ended(self) -> bool:
        """Return whether some group does not pause any more since the last call."""
        before, self._before = self._before, self.groups
        return self._before < before

    def leavers(self, backlog: Iterable[Bundle]) -> Iterator[tuple[int, str]]:
        """Yield the own sessions that have to leave a group now, and that group.

        Those whose daemon has them leave already, as the backlog has it, are not among them.

        If some daemon does not know what needs a quorum, so that groups do not pause for its
        programs, all that need one leave.
        """
        if self._table is None or not self._lacks_quorum:
            return
        leaving = [each for each in backlog if each.kind == _LEAVE and not each.message]
        under_way = {(each.session, each.groups[0]) for each in leaving}
        for group, sessions in self._table.own_pausing.items():
            for connection, leaves in sessions.items():
                is_new = (connection, group) not in under_way
                if is_new and (leaves or not self.are_known):
                    yield connection, group
