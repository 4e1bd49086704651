"""Wrong ways to agree on the roster."""

from typing import Any

import attrs

import groupcomm.config.roster as roster_module
from groupcomm.config.core import CoreConfig
from groupcomm.config.roster import AddDaemon, Roster, RosterChange, RosterRecord
from groupcomm.config.votes import Share
from groupcomm.engine.daemon import DaemonCore
from groupcomm.engine.roster import EndRemoved, RosterManager, UseRoster
from groupcomm.engine.view import ViewState
from groupcomm.wire.roster import RosterStep
from tests.verification.mutants.mutant import SITES, Right, roster_mutant


@roster_mutant((RosterManager, "_write"))
def roster_before_it_is_durable(right: Right) -> Right:
    """A daemon says that it has stored a roster as soon as the write begins."""

    def write(self: RosterManager, record: RosterRecord) -> None:
        right(self, record)
        chosen = self._chosen
        if chosen is not None and chosen.roster is not None and record.pending is chosen.roster:
            self.stored(record)
            self.unstored = True

    return write


@roster_mutant((RosterManager, "_on_stored"))
def roster_of_one_disk(right: Right) -> Right:
    """A roster counts at a daemon once the disk of this daemon holds it."""

    def on_stored(self: RosterManager, daemon: int, step: RosterStep) -> None:
        members, chosen = self._members, self._chosen
        if chosen is not None and step.roster == chosen.id and chosen.reported:
            chosen.stored |= set(range(len(members)))
        right(self, daemon, step)

    return on_stored


@roster_mutant((RosterManager, "begin_view"))
def pending_roster_forgotten(right: Right) -> Right:
    """A roster that some have stored is not proposed again in the next view."""

    def begin_view(self: RosterManager, members: Any, ballot: int, *, majority: Any) -> None:
        self.record = RosterRecord(agreed=self.record.agreed)
        right(self, members, ballot, majority=majority)

    return begin_view


@roster_mutant((RosterManager, "_on_propose"))
def first_proposal_wins(right: Right) -> Right:
    """Of several pending rosters the one that is proposed first is stored, whatever its ballot."""

    def on_propose(self: RosterManager, daemon: int, step: RosterStep) -> None:
        right(self, daemon, step if self._chosen is None else attrs.evolve(step, ballot=0))

    return on_propose


@roster_mutant((RosterManager, "begin_view"))
def roster_without_a_majority(right: Right) -> Right:
    """Every view changes the roster, also one without a majority."""

    def begin_view(self: RosterManager, members: Any, ballot: int, *, majority: Any) -> None:
        right(self, members, ballot, majority=True)

    return begin_view


@roster_mutant((CoreConfig, "has_majority"))
def majority_of_the_first_roster(_right: Right) -> Right:
    """A majority is one of the daemons that the configuration file has listed."""
    first: dict[int, Roster] = {}

    def has_majority(self: CoreConfig, members: Any) -> bool | None:
        roster = first.setdefault(id(self.timing), self.roster)
        return roster.has_majority(members)

    return has_majority


@roster_mutant((Roster, "has_majority"))
def any_half_is_a_majority(_right: Right) -> Right:
    """Half of the daemons that count are a majority."""

    def has_majority(self: Roster, members: Any) -> bool | None:
        counted = {entry.name for entry in self.entries if entry.counts}
        return 2 * len(counted.intersection(members)) >= len(counted)

    return has_majority


@roster_mutant((DaemonCore, "_carry_out"))
def removed_daemon_stays(right: Right) -> Right:
    """A daemon that was removed does not leave, and takes part in views and changes."""

    def carry_out(self: DaemonCore) -> None:
        manager = self.roster_manager
        stays = UseRoster(manager.record.agreed or self.config.roster, stored=True)
        manager.effects = [stays if each == EndRemoved() else each for each in manager.effects]
        right(self)

    return carry_out


@roster_mutant((RosterManager, "end_regular"))
def changes_in_the_transitional_view(_right: Right) -> Right:
    """Steps that are delivered in the transitional view change the roster, too."""

    def end_regular(self: RosterManager) -> None:
        """Go on as in the regular view."""

    return end_regular


@roster_mutant((RosterManager, "on_notice"))
def learned_rosters_ignored(right: Right) -> Right:
    """A daemon that was away adopts no roster of others."""

    def on_notice(self: RosterManager, notice: Any, now: float) -> bool:
        return not notice.counts and bool(right(self, notice, now))

    return on_notice


@roster_mutant((Roster, "changed"))
def added_daemons_count_at_once(right: Right) -> Right:
    """A daemon that was added counts before it was ever in a view."""

    def changed(self: Roster, change: RosterChange, *, forced: bool = False) -> Roster:
        roster: Roster = right(self, change, forced=forced)
        if isinstance(change, AddDaemon):
            entries = tuple(attrs.evolve(entry, share=Share()) for entry in roster.entries)
            roster = attrs.evolve(roster, entries=entries)
        return roster

    return changed


@roster_mutant((roster_module, "check_links"), sites=SITES)
def site_without_a_link(_right: Right) -> Right:
    """Links of a roster need not lead to all sites."""

    def check_links(sites: Any, links: Any, *, none_allowed: bool) -> None:
        """Accept all links."""

    return check_links


@roster_mutant((ViewState, "use_roster"), sites=SITES)
def links_change_at_the_first_daemon(right: Right) -> Right:
    """Only the first daemon of a view routes by the delays of a new roster."""

    def use_roster(self: ViewState, config: CoreConfig, now: float) -> None:
        if self._me == 0:
            right(self, config, now)

    return use_roster


@roster_mutant((Roster, "supersedes"))
def latest_roster_wins(_right: Right) -> Right:
    """Of two parts that changed the roster the one with more changes keeps its changes."""

    def supersedes(self: Roster, other: Roster) -> bool:
        return (self.number, self.id) > (other.number, other.id)

    return supersedes


@roster_mutant((RosterManager, "_learn"))
def changes_lost_in_silence(right: Right) -> Right:
    """A daemon does not say that a change that counted here is lost."""

    def learn(self: RosterManager, roster: Roster) -> None:
        news = list(self.news)
        right(self, roster)
        self.news.clear()
        self.news.extend(news)

    return learn


BUGS = (
    site_without_a_link,
    links_change_at_the_first_daemon,
    latest_roster_wins,
    changes_lost_in_silence,
    roster_before_it_is_durable,
    roster_of_one_disk,
    pending_roster_forgotten,
    first_proposal_wins,
    roster_without_a_majority,
    majority_of_the_first_roster,
    any_half_is_a_majority,
    removed_daemon_stays,
    changes_in_the_transitional_view,
    learned_rosters_ignored,
    added_daemons_count_at_once,
)
