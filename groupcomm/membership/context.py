"""The context of membership: what it needs from the daemon around it."""

from typing import Protocol

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import View
from groupcomm.membership.recovered_set import RecoveredSet
from groupcomm.stream.ranges import Range
from groupcomm.wire.membership import Join, Past, Proposal


class OldView(Protocol):
    """The frozen view, as membership sees it. Its packets are named by ring and number.

    Attributes:
        obligation: indices of the members with which this daemon has to treat it alike.
    """

    obligation: frozenset[int]

    @property
    def past(self) -> Past:
        """Return the holdings of the view."""

    @property
    def clock(self) -> int:
        """Return the last known stamp, in microseconds."""

    def packet(self, ring: int, number: int) -> bytes | None:
        """Return a whole packet; None if it is not held here."""

    def missing(self, recovered_set: RecoveredSet) -> list[list[Range]]:
        """Return, per ring, the ranges of the recovered set that are not held here."""

    def receive_repair(self, raw: bytes, recovered_set: RecoveredSet) -> tuple[int, int] | None:
        """Enter a packet, if it is of the recovered set and not here.

        Returns:
            Its ring and number; None if it is not entered.
        """

    def accept_obligation(
        self, recovered_set: RecoveredSet, transitional_members: frozenset[int]
    ) -> None:
        """Accept the obligation to treat the view as these members do, by their indices in it.

        This daemon holds the recovered set, and has said so.
        """

    def not_received(self, now: float) -> set[int]:
        """Return the numbers of the members whose packets do not arrive, though tokens do."""

    def not_reached(self, now: float) -> set[int]:
        """Return the numbers of the members to which packets are sent in vain over a link."""

    def is_plausible(self, past: Past) -> bool:
        """Return whether the statement of another member about the view can be true."""

    def prepare(self, recovered_set: RecoveredSet, transitional_members: frozenset[int]) -> bool:
        """Plan the rest of the delivery from the recovered set, all of which is held here.

        Return whether the deliveries so far are in line with the recovered set. Without other
        members they always are: in doubt nothing more is delivered.
        """

    def end(self, following: View, transitional_members: frozenset[int], *, whole: bool) -> bool:
        """Deliver some of the rest, as it was prepared, and end the view.

        Args:
            following: the next view.
            transitional_members: the daemons that come along into it, by index in this view.
            whole: deliver all of the rest, and not as much as a step may.

        Returns:
            Whether the view has ended; if not, this is called again until it has.
        """


class RunningView(Protocol):
    """The present view, as membership sees it."""

    def reroute(self, links: tuple[tuple[int, int], ...], now: float) -> None:
        """Send packets over these of its links, which join all its rings."""

    def excuse(self, number: int, now: float) -> None:
        """Do not judge a daemon by its silence so far, of that number: it says that it is busy."""


class MembershipProbe(Protocol):
    """An observer of membership, which calls it and ignores its results."""

    def gathered(self, join: Join) -> None:
        """Note that an attempt begins, with this join."""

    def committed(self, proposal: Proposal, view: View, transitional: frozenset[int]) -> None:
        """Note that a proposal is agreed to.

        Args:
            proposal: the proposal.
            view: the view that results from it.
            transitional: the numbers of the members that come from this daemon's view together,
                itself included; empty if it has none.
        """

    def recovered(self) -> None:
        """Note that this daemon announces that it holds the recovered set."""


class MembershipContext(Protocol):
    """The daemon, as membership sees it."""

    @property
    def used(self) -> int:
        """Return the highest connection number that may have been used, here or by others."""

    def freeze(self) -> OldView | None:
        """Freeze the present view: nothing is numbered or delivered in it from now on.

        Returns:
            The frozen view; None before the first view.
        """

    def install(self, view: View, agreed_with: CoreConfig) -> RunningView:
        """Begin a view, which was agreed on with these settings; the one before it has ended."""
