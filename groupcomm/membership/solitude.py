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
from groupcomm.membership.host import Host

MOST_FAILURES: Final = 8
"""Attempts in a row that may fail as packets of the old view do not come."""


class Solitude:
    """Of one daemon, from view to view.

    Attributes:
        alone: its next view is one by itself.
    """

    __slots__ = ("_failures", "_host", "alone")

    def __init__(self, host: Host) -> None:
        self._host = host
        self._failures = 0
        self.alone = False

    def failed(self, agreement: Agreement) -> None:
        """Note an attempt that has failed; whoever is bound to others stays it."""
        if agreement.recovered or agreement.recovery.complete:
            self._failures = 0
            return
        self._failures += 1
        if self._failures >= MOST_FAILURES and not self._host.old.fellows:
            self.alone = True

    def end(self) -> None:
        """A view is installed."""
        self.alone, self._failures = False, 0
