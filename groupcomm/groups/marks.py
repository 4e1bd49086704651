"""Marks: the first daemon of a ring says in its stream which names other rings may send to.

Pure. A daemon needs a *right* to a group or private name before it sends AGREED or SAFE messages to
it that leave its ring, or has a session join. SUBSCRIBE asks for it, UNSUBSCRIBE gives it back. The
first daemon of a ring that has the name numbers WIDE before it reports a frontier at the stamp of
the SUBSCRIBE, and so before the right is granted (docs/locality.md); NARROW follows once no daemon
of another ring has a right. It keeps as many entries as there are names with rights, and marks.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from groupcomm.groups.table import Member
from groupcomm.order.horizons import Blocks
from groupcomm.wire.bundle import Bundle, BundleKind, subscription_bundle

NEVER: Final = 2**64
"""No stamp is as high."""


class Rights:
    """The daemons that have a right to each name, of one ring and of all others.

    Attributes:
        own, remote: these daemons, by name; without an entry there are none.
    """

    __slots__ = ("_ring", "own", "remote")

    def __init__(self, ring: Iterable[int]) -> None:
        """Begin without any; `ring` has the indices of the ring's daemons."""
        self._ring = frozenset(ring)
        self.own: dict[str, set[int]] = {}
        self.remote: dict[str, set[int]] = {}

    def add(self, daemon: int, name: str) -> None:
        """Note that a daemon has, or will have, a right to a name."""
        self._of(daemon).setdefault(name, set()).add(daemon)

    def remove(self, daemon: int, name: str) -> None:
        """Note that a daemon has given its right back."""
        found = self._of(daemon)
        if name in found:
            found[name].discard(daemon)
            if not found[name]:
                del found[name]

    def _of(self, daemon: int) -> dict[str, set[int]]:
        return self.own if daemon in self._ring else self.remote


class Marks:
    """The marks of a ring, at its first daemon.

    Attributes:
        reported_upto: the time up to which it may report a frontier.
    """

    __slots__ = (
        "_begun",
        "_least",
        "_made",
        "_names",
        "_owed",
        "_rights",
        "_submit",
        "_wide",
        "reported_upto",
    )

    def __init__(
        self, ring: Iterable[int], names: list[str], submit: Callable[[Bundle], None], clock: int
    ) -> None:
        """Begin before the groups are known; nothing is reported above `clock` until then.

        Args:
            ring: the indices of the ring's daemons.
            names: the name of each daemon of the view.
            submit: has a bundle numbered.
            clock: the clock of the view.
        """
        ring = tuple(ring)
        self._names = frozenset(names[daemon] for daemon in ring)
        self._rights = Rights(ring)
        self._submit = submit
        self._wide: set[str] = set()  # as the marks say that were submitted
        self._made: set[str] = set()  # of these, the ones that were not wide as the view began
        # The stamps that ask for marks without a number, in the order of the marks; and those of
        # them below all that follow.
        self._owed: deque[int] = deque()
        self._least: deque[int] = deque()
        self._begun = False
        self.reported_upto = clock

    def add(self, member: Member) -> None:
        """Enter a session with which the view begins."""
        for group in member.groups:
            self._rights.add(member.daemon, group)

    def begin(self) -> None:
        """Note that the groups are known: those with members in other rings are wide."""
        self._wide = set(self._rights.remote)
        self._begun = True
        self._limit()

    def subscribe(self, daemon: int, name: str, time: int) -> None:
        """Note a SUBSCRIBE, which is stamped `time`; mark the name if that is due."""
        self._rights.add(daemon, name)
        if name in self._rights.remote and self._has(name):
            if name not in self._wide:
                self._widen(name, time)
        else:
            self._narrow(name)

    def unsubscribe(self, daemon: int, name: str) -> None:
        """Note an UNSUBSCRIBE; take the mark back if it was the last one of other rings."""
        self._rights.remove(daemon, name)
        self._narrow(name)

    def numbered(self) -> None:
        """Note that the next WIDE of this daemon has a number."""
        time = self._owed.popleft()
        if time == self._least[0]:
            self._least.popleft()
            self._limit()

    def _has(self, name: str) -> bool:
        """Return whether this ring has a name: it is private there, or a daemon has a right."""
        if name[0] == "#":
            return name.rpartition("#")[2] in self._names or name in self._rights.own
        return name in self._rights.own

    def _widen(self, name: str, time: int) -> None:
        self._wide.add(name)
        self._made.add(name)
        self._owed.append(time)
        while self._least and self._least[-1] > time:
            self._least.pop()
        self._least.append(time)
        self._limit()
        self._submit(subscription_bundle(BundleKind.WIDE, name))

    def _narrow(self, name: str) -> None:
        due = name in self._wide and name not in self._rights.remote
        if due and (name in self._made or self._has(name)):
            self._wide.discard(name)
            self._made.discard(name)
            self._submit(subscription_bundle(BundleKind.NARROW, name))

    def _limit(self) -> None:
        if self._begun:
            self.reported_upto = (self._least[0] if self._least else NEVER) - 1


class ReportedFrontier:
    """The frontier that a ring's first daemon reports: its own, below all marks that it owes."""

    __slots__ = ("_blocks", "_marks")

    def __init__(self, blocks: Blocks, marks: Marks) -> None:
        self._blocks = blocks
        self._marks = marks

    @property
    def least(self) -> int:
        """Return the time up to which everything is held here, and all marks have numbers."""
        return min(self._blocks.least, self._marks.reported_upto)
