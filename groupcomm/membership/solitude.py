"""Solitude: whether a daemon comes out of its old view without those who were there with it.

It does where what they say of that view contradicts what is held or was delivered here, and where
packets that somebody says to hold never come: one that is broken could else keep all from a view
for ever. It then has a view by itself before it is in one with others. Two daemons that go from one
view to the next have to deliver the same between (extended virtual synchrony); two that were apart
do not. Others are bound to nothing by it: as it was never bound, none of them has installed a view
that it was to come to with them.
"""

from typing import Final

from groupcomm.membership.agreement import Agreement
from groupcomm.membership.context import MembershipContext

MOST_FAILURES: Final = 8
"""Attempts in a row that may fail as packets of the old view do not come."""


class Isolation:
    """Of one daemon, from view to view.

    Attributes:
        is_isolated: its next view is one by itself.
    """

    __slots__ = ("_context", "_failures", "is_isolated")

    def __init__(self, context: MembershipContext) -> None:
        self._context = context
        self._failures = 0
        self.is_isolated = False

    def on_failed_attempt(self, agreement: Agreement) -> None:
        """Note an attempt that has failed; whoever is bound to others stays it."""
        if agreement.recovered or agreement.recovery.complete:
            self._failures = 0
            return
        self._failures += 1
        if self._failures >= MOST_FAILURES and not self._context.old.obligation:
            self.is_isolated = True

    def on_installed(self) -> None:
        """A view is installed."""
        self.is_isolated, self._failures = False, 0
