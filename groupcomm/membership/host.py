"""What membership needs from the daemon around it."""

from typing import Protocol

from groupcomm.config.view import Incarnation, View
from groupcomm.membership.union import Union
from groupcomm.wire.membership import Past, Span


class Host(Protocol):
    """The daemon, as membership sees it. Packets of the old view are named by ring and number."""

    def freeze(self) -> None:
        """From now on the present view stands still: nothing is numbered or delivered in it."""

    @property
    def past(self) -> Past | None:
        """What is held of the view that stands still; None before the first view."""

    @property
    def clock(self) -> int:
        """The last stamp known, microseconds."""

    def reading(self, now: float) -> int:
        """Physical time, microseconds."""

    def set_reading(self, now: float, reading: int) -> None:
        """Physical time was wrong by more than is followed: correct it."""

    def forget(self, number: int, incarnation: Incarnation) -> None:
        """A start of a daemon is over, because a later one was heard."""

    def missing(self, union: Union) -> tuple[tuple[Span, ...], ...]:
        """Per ring, what of the union is not held here; the first ranges of it."""

    def old_packet(self, ring: int, number: int) -> bytes | None:
        """A packet of the view that stands still, whole."""

    def take_repair(self, packet: bytes, union: Union) -> bool:
        """Take a packet of the view that stands still, if it is of the union and not here."""

    def bind(self, union: Union, fellows: frozenset[int]) -> None:
        """This daemon holds the union and has told so: it treats the old view as these do.

        Args:
            union: of the view that stands still.
            fellows: indices in that view.
        """

    def install(self, view: View, union: Union | None, fellows: frozenset[int]) -> None:
        """Deliver what is left of the old view, then begin this one.

        Args:
            view: the new view.
            union: of the old one; None if there is none.
            fellows: who comes along from the old view, by index there.
        """

    def reroute(self, links: tuple[tuple[int, int], ...]) -> None:
        """From now on packets take these links of the present view, which join all its rings."""
