"""Quotas: the limits of each principal at its daemon, over all its connections.

Pure. ``now`` is in seconds on one monotonic clock. A frame is charged once it was processed, and no
frame of a principal in debt is processed until the debt is paid: no program is refused anything for
being fast. Groups and connections above their limits are refused, as waiting would not help.

Groups have limits also where nobody has set any: all daemons hold the group table, tell each other
theirs when a view begins, and write a group's view to its members.
"""

import enum
from typing import Final

import attrs

from groupcomm.errors import ConfigError

BURST_S: Final = 1.0
"""The seconds of its rate that a principal may use at once after a silence."""


class Bound(enum.IntEnum):
    """The bounds at which a join is refused, named after their keys in ``clients.quotas``; and why
    a session is taken out of a group without a quorum."""

    NONE = 0  # a rule refuses the join, and no bound
    GROUPS = 1
    SESSION_GROUPS = 2
    CLUSTER_GROUPS = 3
    VIEW_BYTES = 4
    QUORUM = 5  # no key

    @property
    def key(self) -> str:
        """Return the key in ``clients.quotas``, or ``quorum``; "" for none."""
        return self.name.lower() if self else ""


BOUND_KEYS: Final = tuple(bound.key for bound in Bound)
"""The keys of the bounds, by number."""


@attrs.frozen(kw_only=True)
class Quotas:
    """The limits of each principal, and of groups; None stands for no limit.

    Attributes:
        messages_per_s: messages, joins and leaves; hellos, goodbyes and questions, too.
        bytes_per_s: bytes that its connections send, frames included.
        joins_per_s: joins.
        groups: memberships of all sessions of a principal together, requested ones included.
        session_groups: memberships of each session, requested ones included.
        cluster_groups: groups of the whole cluster; joins that are under way may exceed it.
        view_bytes: bytes of the names of a group's members, as its views tell them; as before.
        connections: connections at one time.
    """

    messages_per_s: float | None = None
    bytes_per_s: float | None = None
    joins_per_s: float | None = None
    groups: int = 100_000
    session_groups: int = 10_000
    cluster_groups: int = 200_000
    view_bytes: int = 2 * 1024 * 1024
    connections: int | None = None

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self).items():
            if value is not None and not value > 0:
                raise ConfigError(f"clients.quotas.{name} is {value}; it must be above 0")

    @property
    def limit_rates(self) -> bool:
        """Return whether there is a limit to any rate."""
        rates = (self.messages_per_s, self.bytes_per_s, self.joins_per_s)
        return any(rate is not None for rate in rates)


class Bucket:
    """One rate: credit grows with time up to a burst, and may become debt."""

    __slots__ = ("_at", "_credit", "_rate")

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._credit = rate * BURST_S
        self._at = now

    def is_full(self, now: float) -> bool:
        """Return whether the credit is that of a whole burst."""
        return self._grown(now) >= self._rate * BURST_S

    def charge(self, amount: float, now: float) -> None:
        """Subtract an amount from the credit."""
        self._credit = min(self._grown(now), self._rate * BURST_S) - amount
        self._at = now

    def debt_s(self, now: float) -> float:
        """Return the seconds until the debt is paid; 0 if there is none."""
        return max(0.0, -self._grown(now) / self._rate)

    def _grown(self, now: float) -> float:
        return self._credit + (now - self._at) * self._rate


class Account:
    """The use of one principal."""

    __slots__ = ("_buckets",)

    def __init__(self, quotas: Quotas, now: float) -> None:
        rates = (quotas.messages_per_s, quotas.bytes_per_s, quotas.joins_per_s)
        self._buckets = [None if rate is None else Bucket(rate, now) for rate in rates]

    def is_idle(self, now: float) -> bool:
        """Return whether the account may be dropped, as all credit has grown back."""
        return all(bucket is None or bucket.is_full(now) for bucket in self._buckets)

    def charge(self, now: float, *, messages: int, size: int, joins: int) -> None:
        """Charge the input of a connection."""
        for bucket, amount in zip(self._buckets, (messages, size, joins), strict=True):
            if bucket is not None:
                bucket.charge(amount, now)

    def debt_s(self, now: float) -> float:
        """Return the seconds until all debt is paid; until then no frame is processed."""
        return max((bucket.debt_s(now) for bucket in self._buckets if bucket), default=0.0)
