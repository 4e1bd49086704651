"""Allowances: how many connections the principals of a daemon's programs may have."""

from collections import Counter
from typing import Final

from groupcomm.security.quotas import Quotas

LISTENER_SHARE: Final = 4
"""Half-open connections of one listener may be this part of all connections."""


class Allowances:
    """The connections of all principals.

    Where there is no quota, a principal may have as many as it leaves to others: a single one half
    of all, so that nobody can keep others out.

    Attributes:
        quotas: of each principal.
        most: connections that there may be, of all.
    """

    def __init__(self, quotas: Quotas, most: int) -> None:
        self.quotas = quotas
        self.most = most
        self._counts: Counter[str] = Counter()

    def open(self, principal: str, taken: int) -> str:
        """Count one more connection, or return why it may not be; "" if it may.

        Args:
            principal: whose it is.
            taken: connections that there are, with this one and those of nobody known yet.
        """
        count, most = self._counts[principal], self.quotas.connections
        if most is None:
            if count >= self.most - taken + 1:
                return (
                    f"{principal} has {count} connections, as many as are left for all others:"
                    " close others first"
                )
        elif count >= most:
            return f"{principal} has as many connections as it may have: close others first"
        self._counts[principal] += 1
        return ""

    def count(self, principal: str) -> int:
        """Return how many connections a principal has."""
        return self._counts[principal]

    def close(self, principal: str) -> None:
        """Count one connection less."""
        self._counts[principal] -= 1
        if not self._counts[principal]:
            del self._counts[principal]

    def connections(self) -> dict[str, int]:
        """How many each principal has."""
        return dict(self._counts)
