"""The union: what the daemons that come from one view hold of it together.

Nobody goes by what it holds alone: the union of all holdings, notices and frontiers gives one
boundary for all, whatever each had received (DESIGN, section 6).
"""

from collections.abc import Iterator, Mapping

from groupcomm.stream.ranges import Range, holds, merge_ranges
from groupcomm.wire.membership import Holding, Past


class RecoveredSet:
    """What several daemons hold of one view, by ring.

    Attributes:
        spans: per ring the numbers above `forgotten` that somebody holds.
        forgotten: per ring, everybody in the view has held all up to here.
        prefix: per ring, up to here no number is missing.
        notices: per ring (upto, value) of all known horizons.
        frontiers: per ring the highest known one.
        obligation: indices of those with whom one of them is bound, by earlier attempts.
    """

    __slots__ = ("_holders", "forgotten", "frontiers", "notices", "obligation", "prefix", "spans")

    def __init__(self, pasts: Mapping[int, Past]) -> None:
        """Unite; `pasts` by the daemon's index in the view that ends, one at least."""
        self._holders = dict(sorted(pasts.items()))
        self.spans: list[list[Range]] = []
        self.forgotten: list[int] = []
        self.prefix: list[int] = []
        self.notices: list[list[Range]] = []
        self.frontiers: list[int] = []
        self.obligation = frozenset(f for past in pasts.values() for f in past.obligation)
        for rows in zip(*(past.holdings for past in pasts.values()), strict=True):
            self._unite(rows)

    def _unite(self, rows: tuple[Holding, ...]) -> None:
        forgotten = max(row.forgotten for row in rows)
        spans = merge_ranges(span for row in rows for span in row.spans)
        spans = [(max(first, forgotten + 1), last) for first, last in spans if last > forgotten]
        whole = bool(spans) and spans[0][0] == forgotten + 1
        self.forgotten.append(forgotten)
        self.spans.append(spans)
        self.prefix.append(spans[0][1] if whole else forgotten)
        self.notices.append(sorted({notice for row in rows for notice in row.notices}))
        self.frontiers.append(max(row.frontier for row in rows))

    def holds(self, ring: int, number: int) -> bool:
        """Whether somebody holds a packet."""
        return number <= self.forgotten[ring] or holds(self.spans[ring], number)

    def duties(self, me: int) -> dict[tuple[int, int], set[int]]:
        """The packets (ring, number) of whose holders `me` is the lowest, and who lacks them."""
        duties: dict[tuple[int, int], set[int]] = {}
        everybody = self._holders.keys()
        for ring, forgotten in enumerate(self.forgotten):
            for first, last, holders in self._stretches(ring):
                if min(holders) == me and len(holders) < len(everybody):
                    lacking = everybody - holders
                    for number in range(max(first, forgotten + 1), last + 1):
                        duties[ring, number] = set(lacking)
        return duties

    def _stretches(self, ring: int) -> Iterator[tuple[int, int, set[int]]]:
        """Each range of a ring whose packets the same daemons hold, and who they are; rising."""
        changes = sorted(
            change
            for daemon, past in self._holders.items()
            for first, last in past.holdings[ring].spans
            for change in ((first, 1, daemon), (last + 1, 0, daemon))
        )
        holders: set[int] = set()
        since = 0
        for number, begins, daemon in changes:
            if holders and number > since:
                yield since, number - 1, holders
            since = number
            if begins:
                holders.add(daemon)
            else:
                holders.discard(daemon)
