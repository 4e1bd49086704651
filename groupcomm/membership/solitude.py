"""Solitude: whether a daemon comes out of its old view without those who were there with it.

It does where what they say of that view contradicts what is held or was delivered here, and where
packets that somebody says to hold never come: one that is broken could else keep all from a view
for ever. To the others it is then as if it had been in another view.
"""

from typing import Final

from groupcomm.membership.agreement import Agreement
from groupcomm.membership.host import Host

MOST_FAILURES: Final = 8
"""Attempts in a row that may fail as packets of the old view do not come."""


class Solitude:
    """Of one daemon, from view to view.

    Attributes:
        alone: it comes without fellows.
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
