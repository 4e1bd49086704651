"""What membership needs from the daemon around it."""

from typing import Protocol

from groupcomm.config.view import Incarnation, View
from groupcomm.membership.recovered_set import RecoveredSet
from groupcomm.stream.ranges import Range
from groupcomm.wire.membership import Past


class OldView(Protocol):
    """The view that stands still, as membership sees it.

    Attributes:
        obligation: indices of those with whom this daemon is bound to treat it alike.
    """

    obligation: frozenset[int]

    def is_plausible(self, past: Past) -> bool:
        """Whether a fellow can hold of it what it says."""

    def prepare(self, recovered_set: RecoveredSet, fellows: frozenset[int]) -> bool:
        """Whether what was delivered here could have come of a union that is held; find out what is
        left to deliver of it. Alone it always could: in doubt nothing more is delivered.
        """


class MembershipContext(Protocol):
    """The daemon, as membership sees it. Packets of the old view are named by ring and number."""

    def freeze(self) -> None:
        """From now on the present view stands still: nothing is numbered or delivered in it."""

    @property
    def past(self) -> Past | None:
        """What is held of the view that stands still; None before the first view."""

    @property
    def clock(self) -> int:
        """The last stamp known, microseconds."""

    @property
    def used(self) -> int:
        """Connection numbers up to this one may have been used, here or by others."""

    def reading(self, now: float) -> int:
        """Physical time, microseconds."""

    def set_reading(self, now: float, reading: int) -> None:
        """Physical time was wrong by more than is followed: correct it."""

    def forget(self, number: int, incarnation: Incarnation) -> None:
        """A start of a daemon is over, because a later one was heard."""

    def missing(self, recovered_set: RecoveredSet) -> list[list[Range]]:
        """Per ring, what of the union is not held here."""

    def old_packet(self, ring: int, number: int) -> bytes | None:
        """A packet of the view that stands still, whole."""

    def take_repair(self, packet: bytes, recovered_set: RecoveredSet) -> tuple[int, int] | None:
        """Take a packet of the view that stands still, if it is of the union and not here.

        Returns:
            Its ring and number; None if it is not taken.
        """

    @property
    def old(self) -> OldView:
        """The view that stands still; there is one."""

    def bind(self, recovered_set: RecoveredSet, fellows: frozenset[int]) -> None:
        """This daemon holds the union and has told so: it treats the old view as these do.

        Args:
            union: of the view that stands still.
            fellows: indices in that view.
        """

    def install(
        self, view: View, recovered_set: RecoveredSet | None, fellows: frozenset[int]
    ) -> None:
        """Deliver what is left of the old view, then begin this one.

        Args:
            view: the new view.
            union: of the old one; None if there is none.
            fellows: who comes along from the old view, by index there.
        """

    def reroute(self, links: tuple[tuple[int, int], ...]) -> None:
        """From now on packets take these links of the present view, which join all its rings."""
