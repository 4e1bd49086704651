"""Votes: who may go on when a cluster is cut in two, and the next step of a change of votes.

Pure values. This is the one place that decides it, from the votes of a roster and the daemons of a
view. docs/votes.md has the states, and the proof that at most one side acts.

The votes that an operator has given a daemon, and those that it *holds*, differ for a while: each
change of the roster moves one vote of one daemon, so that majorities before and after it share a
daemon. Half of the votes never acts, but the policy may let it take a vote from an absent daemon;
then it is a majority. That needs a *settled* roster: one with the votes of its predecessor, so
that nobody can still act by other ones.

Sources: Gifford, "Weighted Voting for Replicated Data" (SOSP 1979); Jajodia and Mutchler, "Dynamic
Voting Algorithms for Maintaining the Consistency of a Replicated Database" (ACM TODS 15(2), 1990);
Ongaro, "Consensus: Bridging Theory and Practice" (dissertation, 2014), section 4.1. Unlike there,
the votes change by a roster that all disks of a view hold, not with each write.
"""

import enum
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Final, TypeAlias

import attrs

from groupcomm.errors import ConfigError

MAX_VOTES: Final = 16
"""The most votes of one daemon; each of them is counted by a change of its own."""


class Standing(enum.Enum):
    """What the daemons of a view may do."""

    UNKNOWN = enum.auto()  # nobody counts yet
    MAJORITY = enum.auto()  # act, and change the roster
    TIE = enum.auto()  # half of the votes, with the tie-breaker: change the roster, not act
    MINORITY = enum.auto()  # nothing


@attrs.frozen(kw_only=True)
class Policy:
    """What counts besides a majority of the votes.

    Attributes:
        orderly: a daemon that leaves in order holds no votes until it is back, if those that stay
            have a majority without it.
        tie_breaker: the daemon with which half of the votes may go on; "" for none.
    """

    orderly: bool = False
    tie_breaker: str = ""

    @property
    def decides_ties(self) -> bool:
        """Return whether half of the votes may be enough."""
        return bool(self.tie_breaker)

    def has_in(self, members: Collection[str]) -> bool:
        """Return whether the tie-breaker is one of these daemons."""
        return self.decides_ties and self.tie_breaker in members


@attrs.frozen
class CountDaemon:
    """Count one more vote of the daemon of this name."""

    name: str


@attrs.frozen
class UncountDaemon:
    """Count one vote less of the daemon of this name."""

    name: str


@attrs.frozen
class LeaveDaemon:
    """The daemon of this name is about to leave in order: it shall hold no votes."""

    name: str


@attrs.frozen
class ReturnDaemon:
    """The daemon of this name is back: it shall hold the votes that it was given."""

    name: str


@attrs.frozen
class SetVotes:
    """Give the daemon of this name so many votes, 0 to MAX_VOTES."""

    name: str
    votes: int


@attrs.frozen
class SetPolicy:
    """Have this policy from now on."""

    policy: Policy


@attrs.frozen
class Settle:
    """Let ties be decided: a majority has agreed on the votes as they are."""


VoteChange: TypeAlias = (
    CountDaemon | UncountDaemon | LeaveDaemon | ReturnDaemon | SetVotes | SetPolicy | Settle
)


@attrs.frozen(kw_only=True)
class Share:
    """The votes of one daemon.

    Attributes:
        votes: those that it was given, 0 to MAX_VOTES.
        held: those that count now.
        away: whether it has left in order, or is about to.
    """

    votes: int = 1
    held: int = 1
    away: bool = False

    def __attrs_post_init__(self) -> None:
        if not 0 <= min(self.votes, self.held) <= max(self.votes, self.held) <= MAX_VOTES:
            raise ConfigError(
                f"votes are {self.votes}, held {self.held}; both must be 0 to {MAX_VOTES}"
            )

    @property
    def wanted(self) -> int:
        """Return the votes that it is to hold once it is there."""
        return 0 if self.away else self.votes


@attrs.frozen(kw_only=True)
class Votes:
    """All votes of a roster.

    Attributes:
        shares: those of each daemon, by name.
        policy: what counts besides.
        settled: whether ties may be decided.
        expected: the number of daemons of which more than half are a majority, whatever votes say;
            None: votes count.
    """

    shares: Mapping[str, Share]
    policy: Policy = Policy()
    settled: bool = False
    expected: int | None = None

    @cached_property
    def total(self) -> int:
        """Return the number of votes that count."""
        return sum(share.held for share in self.shares.values())

    def standing(self, members: Collection[str]) -> Standing:
        """Return what these daemons may do, if all of them use this roster."""
        if self.expected is not None:
            return Standing.MAJORITY if 2 * len(members) > self.expected else Standing.MINORITY
        total = self.total
        shares = (self.shares.get(name) for name in members)
        twice = 2 * sum(share.held for share in shares if share is not None)
        if not total:
            return Standing.UNKNOWN
        if twice > total:
            return Standing.MAJORITY
        if twice == total and self.settled and self.policy.has_in(members):
            return Standing.TIE
        return Standing.MINORITY

    # ---- changes ----

    def changed(self, change: VoteChange) -> "Votes":
        """Return the votes after a change; raise ConfigError if it is impossible."""
        match change:
            case CountDaemon(name) | UncountDaemon(name):
                by = 1 if isinstance(change, CountDaemon) else -1
                share = self.share(name)
                made = self._with(name, attrs.evolve(share, held=share.held + by), settled=False)
                if not made.total:
                    raise ConfigError(f"daemon {name} holds the only vote")
                return made
            case LeaveDaemon(name):
                return self._with(name, attrs.evolve(self.share(name), away=True))
            case ReturnDaemon(name):
                return self._with(name, attrs.evolve(self.share(name), away=False))
            case SetVotes(name, votes):
                self._check_fixed()
                made = self._with(name, attrs.evolve(self.share(name), votes=votes))
                if not any(share.votes for share in made.shares.values()):
                    raise ConfigError(f"daemon {name} has the only votes: give another one some")
                return made
            case SetPolicy(policy):
                self._check_fixed()
                if policy.tie_breaker:
                    self.share(policy.tie_breaker)
                return attrs.evolve(self, policy=policy)
            case Settle():
                return attrs.evolve(self, settled=True)

    def without(self, name: str) -> "Votes":
        """Return the votes without a daemon, and without its part in the policy."""
        share, policy = self.share(name), self.policy
        if policy.tie_breaker == name:
            policy = attrs.evolve(policy, tie_breaker="")
        left = {other: each for other, each in self.shares.items() if other != name}
        settled = self.settled and not share.held
        return attrs.evolve(self, shares=left, policy=policy, settled=settled)

    def share(self, name: str) -> Share:
        """Return the votes of a daemon; raise ConfigError if there is no such daemon."""
        found = self.shares.get(name)
        if found is None:
            raise ConfigError(
                f"daemon {name} is not in the roster; it has {', '.join(self.shares)}"
            )
        return found

    def _with(self, name: str, share: Share, *, settled: bool | None = None) -> "Votes":
        settled = self.settled if settled is None else settled
        return attrs.evolve(self, shares={**self.shares, name: share}, settled=settled)

    def _check_fixed(self) -> None:
        if self.expected is not None:
            raise ConfigError(
                f"expected_daemons is {self.expected}, so votes do not count: a cluster that shall"
                " have votes begins without that key in its files"
            )

    # ---- the next step ----

    def next_change(self, members: Collection[str]) -> VoteChange | None:
        """Return the next step towards the votes that were given; None if there is none.

        No step costs these daemons, who are in one view, their majority.
        """
        standing = self.standing(members)
        if standing is Standing.TIE:
            return UncountDaemon(min(self._absent(members)))
        if standing is not Standing.MAJORITY:
            return None
        for name, share in sorted(self.shares.items()):
            change: VoteChange | None = None
            if share.held > share.wanted:
                change = UncountDaemon(name)
            elif share.held < share.wanted and name in members:
                change = CountDaemon(name)
            if change is not None and self._keeps(change, members):
                return change
        if self.policy.decides_ties and not self.settled and self.total % 2 == 0:
            return Settle()
        return None

    def _absent(self, members: Collection[str]) -> list[str]:
        return [name for name, each in self.shares.items() if each.held and name not in members]

    def _keeps(self, change: VoteChange, members: Collection[str]) -> bool:
        """Return whether these daemons have a majority after a change as well."""
        try:
            return self.changed(change).standing(members) is Standing.MAJORITY
        except ConfigError:
            return False

    def own_change(
        self, name: str, members: Collection[str], *, leaves: bool
    ) -> LeaveDaemon | ReturnDaemon | None:
        """Return what a daemon has to say of itself in a view; None for nothing."""
        share = self.shares[name]
        if not leaves:
            back = share.away and self.standing(members) is Standing.MAJORITY
            return ReturnDaemon(name) if back else None
        return None if share.away or self.may_leave(name, members) else LeaveDaemon(name)

    def may_leave(self, name: str, members: Collection[str]) -> bool:
        """Return whether a daemon that leaves has nothing to wait for: its votes would not help.

        Either it holds none, or those that stay have no majority without them.
        """
        share = self.shares.get(name)
        if share is None or not share.held or not self.policy.orderly or self.expected is not None:
            return True
        if self.standing(members) is not Standing.MAJORITY:
            return True
        away = {other for other, each in self.shares.items() if each.away}
        stay = set(members) - away - {name}
        left = self._with(name, attrs.evolve(share, held=0))
        return left.standing(stay) is not Standing.MAJORITY
