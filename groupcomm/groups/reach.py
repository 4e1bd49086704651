"""Reach: which rings have members of a group; found anew when the group table has changed."""

from groupcomm.config.view import View
from groupcomm.groups.table import GroupTable
from groupcomm.names import split_private
from groupcomm.wire.bundle import Bundle


class Reach:
    """The rings that messages of one view are for, as far as this daemon knows its groups."""

    __slots__ = ("_digest", "_known", "_ring_of", "_rings", "_table")

    def __init__(self, view: View, table: GroupTable) -> None:
        self._table = table
        self._ring_of = view.ring_of
        self._rings = {d.name: view.ring_of[at] for at, d in enumerate(view.daemons)}
        self._digest = table.digest
        self._known: dict[str, frozenset[int]] = {}

    def stays_in(self, ring: int, bundles: list[Bundle]) -> bool:
        """Whether nobody outside a ring is a recipient of any of these."""
        if self._digest != self._table.digest:
            self._digest = self._table.digest
            self._known.clear()
        return all(self._rings_of(group) <= {ring} for bundle in bundles for group in bundle.groups)

    def _rings_of(self, group: str) -> frozenset[int]:
        rings = self._known.get(group)
        if rings is None:
            rings = self._known[group] = self._find(group)
        return rings

    def _find(self, group: str) -> frozenset[int]:
        if group[0] == "#":
            ring = self._rings.get(split_private(group)[1])
            return frozenset(() if ring is None else (ring,))
        members = self._table.groups.get(group, ())
        return frozenset(self._ring_of[member.daemon] for member in members)
