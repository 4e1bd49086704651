"""Peers: what a daemon knows of each other daemon, whether it is in its view or not.

Of each name only the latest start counts. A start with fewer restarts than are known is told so,
unless the known one still answers: then it is a clone, and ignored.
"""

from math import inf

from groupcomm.config.view import Incarnation
from groupcomm.security.replay import ReplayWindow
from groupcomm.wire.membership import Beacon, Commit, Join, Links

Row = frozenset[tuple[int, int]]
"""(number, random id) of daemons."""


class Peer:
    """One other daemon, in its latest start.

    Attributes:
        number: stands for its name.
        name: as its joins say, or as it is listed; None if neither.
        incarnation: which start this is.
        heard_at: when its own datagrams came last; -inf if never.
        left: it has left in order.
        sequences: the highest of its messages, by kind; joins, commits, beacons and links with
            lower ones are stale.
        seen: sequences of its messages that were taken, and passed on if they had to be.
        join, join_at: its latest join and when it came.
        told_at: when a join came that told of the present whom it hears.
        commit: its latest commit.
        beacon, beacon_at: its latest beacon and when it came.
        streak: how many of its beacons, one after the other, have said that it hears this daemon.
        answered_at: when it was last answered with a beacon, or told that it is outdated.
        ignored_until: no view is begun because it is heard, before this time.
        patience_s: for how long it is ignored when a view comes out without it once more.
        kept_waiting_since: since when a view with it waits for disks of members; inf if none does.
    """

    __slots__ = (
        "answered_at",
        "beacon",
        "beacon_at",
        "commit",
        "heard_at",
        "ignored_until",
        "incarnation",
        "join",
        "join_at",
        "kept_waiting_since",
        "left",
        "name",
        "number",
        "patience_s",
        "seen",
        "sequences",
        "streak",
        "told_at",
    )

    def __init__(self, number: int, name: str | None, incarnation: Incarnation) -> None:
        self.number = number
        self.name = name
        self.patience_s = 0.0
        self.ignored_until = -inf
        self.restart(incarnation)

    def restart(self, incarnation: Incarnation) -> None:
        """A new start of it was heard of: all that is known is of the old one."""
        self.incarnation = incarnation
        self.heard_at = -inf
        self.left = False
        self.sequences: dict[type, int] = {}
        self.seen = ReplayWindow()
        self.join: Join | None = None
        self.join_at = self.told_at = -inf
        self.commit: Commit | None = None
        self.beacon: Beacon | None = None
        self.beacon_at = -inf
        self.streak = 0
        self.answered_at = -inf
        self.kept_waiting_since = inf

    def is_latest(self, message: Join | Commit | Beacon | Links, sequence: int) -> bool:
        """Whether no later message of its kind has come; if so it counts from now on."""
        kind = type(message)
        if sequence <= self.sequences.get(kind, 0):
            return False
        self.sequences[kind] = sequence
        return True

    def take_join(self, join: Join, now: float) -> bool:
        """Note a join; whether it says anything new.

        One that is repeated after its commit, for those that may not have it, is of the past: who
        was heard then may not be any more, and needs what others say passed on.
        """
        known = self.join
        self.join, self.join_at = join, now
        news = known is None or (
            (known.attempt, known.heard, known.mark) != (join.attempt, join.heard, join.mark)
        )
        if news or self.commit is None or self.commit.attempt != join.attempt:
            self.told_at = now
        return news

    @property
    def key(self) -> tuple[int, int]:
        """How it stands in the rows of those who hear it."""
        return self.number, self.incarnation.random_id

    def hears(self, key: tuple[int, int], since: float) -> bool:
        """Whether its latest join or beacon says that it hears a daemon."""
        if self.join is not None and self.told_at >= since and key in self.join.heard:
            return True
        return self.beacon is not None and self.beacon_at >= since and key in self.beacon.heard
