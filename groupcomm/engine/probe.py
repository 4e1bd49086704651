"""Probes: how a core reports its internal events, for the white-box half of a trace.

A core calls its probe at the moments that the ordering rules speak of. The simulator turns the
calls into trace events for the checkers. A daemon in use has a probe that does nothing.
"""

from typing import Protocol

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.config.view import DaemonId, View
from groupcomm.membership.context import MembershipProbe
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.membership import Join, Proposal


class Probe(MembershipProbe, Protocol):
    """One core's observer; the core calls it and ignores its results.

    Rings are indices in the view, packet numbers and times 64-bit integers, times in microseconds.
    """

    def installed(self, view: View) -> None:
        """Note that a regular view begins here; all later events belong to it."""

    def transitional(self, old: ViewId, new: ViewId, members: tuple[DaemonId, ...]) -> None:
        """Note that the regular part of view `old` is over.

        `members` are the transitional members, which continue into view `new`.
        """

    def stamped(self, ring: int, number: int, time: int) -> None:
        """Note that this daemon numbered a packet of its own."""

    def held(self, ring: int, number: int, time: int) -> None:
        """Note that a packet of a stream is held from now on, the first time only."""

    def horizon(self, ring: int, value: int, upto: int) -> None:
        """Note an announced horizon: after packet `upto`, nothing at or below `value`."""

    def counted(self, ring: int, value: int, upto: int) -> None:
        """Note that a ring's horizon counts here from now on: every packet up to `upto` is held."""

    def released(
        self, ring: int, number: int, time: int, bundle_index: int, bundle: Bundle, sender: str
    ) -> None:
        """Note that a bundle was delivered to its local recipients, if any.

        `sender` is the private name of its session; `number` is 0 for UNRELIABLE.
        """

    def table(self, position: Position, digest: str) -> None:
        """Note that the group table changed at a position; `digest` is that of the whole table."""

    def accepted(self, sender: str, connection: int, first: int, last: int) -> None:
        """Note that messages `first` to `last` of a local session count as sent."""


class NoProbe:
    """The probe of a daemon in use: it keeps nothing."""

    def gathered(self, join: Join) -> None:
        """See MembershipProbe."""

    def committed(self, proposal: Proposal, view: View, transitional: frozenset[int]) -> None:
        """See MembershipProbe."""

    def recovered(self) -> None:
        """See MembershipProbe."""

    def installed(self, view: View) -> None:
        """See Probe."""

    def transitional(self, old: ViewId, new: ViewId, members: tuple[DaemonId, ...]) -> None:
        """See Probe."""

    def stamped(self, ring: int, number: int, time: int) -> None:
        """See Probe."""

    def held(self, ring: int, number: int, time: int) -> None:
        """See Probe."""

    def horizon(self, ring: int, value: int, upto: int) -> None:
        """See Probe."""

    def counted(self, ring: int, value: int, upto: int) -> None:
        """See Probe."""

    def released(
        self, ring: int, number: int, time: int, bundle_index: int, bundle: Bundle, sender: str
    ) -> None:
        """See Probe."""

    def table(self, position: Position, digest: str) -> None:
        """See Probe."""

    def accepted(self, sender: str, connection: int, first: int, last: int) -> None:
        """See Probe."""
