"""Wrong ways to count votes."""

from collections.abc import Collection
from typing import Any

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.config.roster import Roster
from groupcomm.config.votes import CountDaemon, Share, Standing, UncountDaemon, VoteChange, Votes
from groupcomm.engine.daemon import DaemonCore
from tests.verification.mutants.mutant import Right, vote_mutant


@vote_mutant((DaemonCore, "install"))
def leaver_uncounted_by_those_who_hear_it(right: Right) -> Right:
    """Who has left in order is not counted as missing by those who have heard it leave."""

    def install(self: DaemonCore, view: Any, agreed_with: CoreConfig) -> Any:
        roster = agreed_with.roster
        left = {peer.name for peer in self.membership.peers.values() if peer.left}
        entries = tuple(
            attrs.evolve(entry, share=Share(held=0)) if entry.name in left else entry
            for entry in roster.entries
        )
        wrong = attrs.evolve(agreed_with, agreed=attrs.evolve(roster, entries=entries))
        return right(self, view, wrong)

    return install


@vote_mutant((Roster, "has_majority"))
def votes_as_they_were_given(_right: Right) -> Right:
    """The votes that a daemon was given count, also while it is away and does not hold them."""

    def has_majority(self: Roster, members: Collection[str]) -> bool | None:
        given = {entry.name: entry.share.votes for entry in self.entries}
        mine = sum(votes for name, votes in given.items() if name in members)
        return 2 * mine > sum(given.values())

    return has_majority


@vote_mutant((Votes, "changed"))
def all_votes_at_once(right: Right) -> Right:
    """All votes that a daemon is given are counted in one change."""

    def changed(self: Votes, change: VoteChange) -> Votes:
        made: Votes = right(self, change)
        if isinstance(change, CountDaemon | UncountDaemon):
            share = attrs.evolve(made.share(change.name), held=made.share(change.name).wanted)
            whole = attrs.evolve(made, shares={**made.shares, change.name: share})
            return whole if whole.total else made
        return made

    return changed


@vote_mutant((Roster, "has_majority"))
def half_acts_at_once(_right: Right) -> Right:
    """Half of the votes with the tie-breaker acts before the roster has another vote less."""

    def has_majority(self: Roster, members: Collection[str]) -> bool | None:
        return self.votes.standing(members) in (Standing.MAJORITY, Standing.TIE)

    return has_majority


@vote_mutant((Votes, "standing"))
def ties_before_they_are_settled(right: Right) -> Right:
    """Half of the votes decides although a majority has not agreed on the votes as they are."""

    def standing(self: Votes, members: Collection[str]) -> Standing:
        found: Standing = right(attrs.evolve(self, settled=True), members)
        return found

    return standing


@vote_mutant((Roster, "has_majority"))
def witness_votes_for_both_sides(_right: Right) -> Right:
    """The votes of the last daemon count for each side, wherever that daemon is."""

    def has_majority(self: Roster, members: Collection[str]) -> bool | None:
        standing = self.votes.standing({*members, max(self.names)})
        return None if standing is Standing.UNKNOWN else standing is Standing.MAJORITY

    return has_majority


@vote_mutant((DaemonCore, "__init__"))
def votes_forgotten_at_a_start(right: Right) -> Right:
    """A daemon that starts again has the votes of its file, whatever it has stored."""

    def init(self: DaemonCore, config: CoreConfig, start: Any, **options: Any) -> None:
        right(self, attrs.evolve(config, agreed=None), start, **{**options, "rosters": None})

    return init


@vote_mutant((Share, "wanted"))
def leavers_keep_their_votes(_right: Right) -> property:
    """Who has left in order counts as missing, as if it had crashed."""
    return property(lambda self: self.votes)


BUGS = (
    leaver_uncounted_by_those_who_hear_it,
    votes_as_they_were_given,
    all_votes_at_once,
    half_acts_at_once,
    ties_before_they_are_settled,
    witness_votes_for_both_sides,
    votes_forgotten_at_a_start,
    leavers_keep_their_votes,
)
