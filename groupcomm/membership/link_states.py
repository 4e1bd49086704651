"""Link states: which links of a view cannot be used, as their ends say.

Pure. Each daemon tells all others of those of its own links over which it hears nothing. A link is
used only if neither end says so. As long as the others still join all rings the view stands, and
everybody sends around the broken ones; else it is over.
"""

from typing import TypeAlias

from groupcomm.config.view import View
from groupcomm.membership.reach import joins_all

Pair: TypeAlias = tuple[int, int]
"""A link, by the indices of its ends in the view, the lower one first."""


class LinkStates:
    """The links of one view, as one daemon knows them.

    Attributes:
        own: its own links that it cannot use.
    """

    __slots__ = ("_me", "_reports", "_view", "own")

    def __init__(self, view: View, me: int) -> None:
        self._view = view
        self._me = me
        self.own: frozenset[Pair] = frozenset()
        self._reports: dict[int, frozenset[Pair]] = {}

    def link_to(self, daemon: int) -> Pair | None:
        """The link from here to a daemon, if there is one."""
        pair = (min(self._me, daemon), max(self._me, daemon))
        return pair if pair in self._view.links else None

    def lose(self, pair: Pair) -> None:
        """Nothing comes over an own link any more."""
        self.own |= {pair}

    def regain(self, pair: Pair) -> None:
        """An own link carries something again, both ways."""
        self.own -= {pair}

    def receive_report(self, daemon: int, lost: frozenset[Pair]) -> bool:
        """Take what a daemon says of its links; whether it is news."""
        told = frozenset(pair for pair in lost if daemon in pair and pair in self._view.links)
        if told == self._reports.get(daemon, frozenset()):
            return False
        self._reports[daemon] = told
        return True

    @property
    def usable(self) -> tuple[Pair, ...]:
        """The links that both ends can use."""
        lost = self.own.union(*self._reports.values())
        return tuple(pair for pair in self._view.links if pair not in lost)

    @property
    def join_all(self) -> bool:
        """Whether the usable links still join all rings."""
        return joins_all(self._view, self.usable)
