"""The roster of a cluster: how all daemons agree on the daemons that may be members.

Pure. ``now`` is in seconds. docs/roster.md explains the protocol. A change passes these states at
each daemon of a view; all steps are bundles of daemons in the agreed order::

    STEADY     the agreed roster counts
      | PROPOSE is delivered, in a view that may change the roster, or for a forced change
    CHOSEN     the daemon waits for the new roster, which its proposer floods, and writes it
      | its disk holds the new roster as the pending one, with the view's counter as its ballot
    STORED     the daemon has said so
      | STORED of all daemons of the view are delivered, in the regular view
    STEADY     the new roster counts, here and, at the same position, everywhere

A daemon that the new roster does not have stays in STORED: it ends once another daemon says that it
uses that roster, and has it on its disk. If it were the only one to know, and had ended, the others
could lack a majority to complete the change. While it then leaves it has no part in other changes,
also in a view with daemons that do not know of that one yet.

A view may end in between. Then some daemons may have gone on to the new roster, and all others hold
it as pending. In the next view each daemon proposes its pending roster again; the one with the
highest ballot replaces others, which no daemon can have gone on to: ballots are those of Paxos
(Lamport, "The Part-Time Parliament", ACM TOCS 16(2), 1998).

What counts as a majority, and who proposes the next vote to count, config/votes.py decides.

A daemon that was away learns rosters from control messages, which daemons with differing settings
send to each other (membership/comparison.py). It stores them before it uses them, too.
"""

from collections import deque
from collections.abc import Collection, Sequence
from math import inf
from typing import Final, TypeAlias

import attrs

from groupcomm.config.roster import Roster, RosterChange, RosterRecord
from groupcomm.config.votes import Standing
from groupcomm.engine.backlog import Submitter
from groupcomm.engine.counters import Counters
from groupcomm.errors import BadDatagram, ConfigError, LocalProtocolError
from groupcomm.wire.bundle import Bundle, body_payload, roster_bundle
from groupcomm.wire.membership import RosterNotice
from groupcomm.wire.roster import (
    RosterStep,
    StepKind,
    decode_roster_untrusted,
    decode_step_untrusted,
    encode_roster,
)

FLOOD_AGAIN_S: Final = 0.2
"""A proposed roster is flooded again after this time, until all daemons of the view hold it."""

REMOVAL_WAIT_S: Final = 5.0
"""A daemon without a roster on disk waits this long for one that has it, before it ends as
removed."""

STORE_AGAIN_S: Final = 1.0
"""A write that has failed is tried again after this time."""

MAX_CHANGED_BYTES: Final = 2**19
"""The most bytes of a roster that an operator may bring about: it fits into one control message,
with room for what later steps add."""

MAX_PROPOSED: Final = 16
"""The proposed rosters whose steps have not come that a daemon keeps."""


@attrs.frozen
class FloodRoster:
    """Send a roster to all daemons of the roster that counts."""

    notice: RosterNotice


@attrs.frozen
class UseRoster:
    """Use this roster from now on.

    Attributes:
        roster: the roster.
        stored: whether others may learn it, too: a daemon that it does not have ends then.
    """

    roster: Roster
    stored: bool


@attrs.frozen
class TellRoster:
    """Tell others the roster that counts from now on: the disk holds it."""


@attrs.frozen
class EndRemoved:
    """Leave, as the roster that counts does not have this daemon any more."""


RosterEffect: TypeAlias = FloodRoster | UseRoster | TellRoster | EndRemoved


@attrs.define
class _Chosen:
    """The change that the present view works at."""

    id: bytes
    ballot: int
    is_own: bool
    roster: Roster | None = None
    reported: bool = False
    is_used: bool = False  # as another daemon has said
    stored: set[int] = attrs.field(factory=set)


class RosterManager:
    """The rosters of one start of a daemon.

    Args:
        name: the name of the daemon.
        roster: the roster that counts.
        record: the rosters that its disk holds.
        submitter: sends the steps of this daemon.
        counters: counts the steps that cannot be read.

    Attributes:
        roster: the roster that counts.
        effects: what the core has to do, in order; it takes them after each call.
        record: the rosters that its disk holds, or is to hold.
        unstored: whether the disk lacks the record.
        due: the time at which `step` is due; inf if nothing is.
        news: texts for the log.
    """

    def __init__(
        self,
        name: str,
        roster: Roster,
        record: RosterRecord,
        submitter: Submitter,
        counters: Counters,
    ) -> None:
        self._name = name
        self.roster = roster
        self.record = record
        self.effects: list[RosterEffect] = []
        self._submitter = submitter
        self._counters = counters
        self.unstored = False
        self.due = inf
        self.news: deque[str] = deque(maxlen=64)
        self._members: Sequence[str] = ()
        self._ballot = 0  # the counter of the present view
        self._may_change = False  # the view has a majority, or a tie that the policy decides for it
        self._leaves = False  # this daemon is about to leave in order
        self._automatic = b""  # the id of the roster that this daemon has proposed by itself
        self._in_view = False  # the regular view is complete, not over, and of this daemon's roster
        self._chosen: _Chosen | None = None
        self._proposed: dict[bytes, Roster] = {}  # rosters that may be chosen, by id
        self._learned: Roster | None = None  # counts elsewhere, and is being stored here
        self._removed = False
        self._store_at = -inf  # when the record may be written, after a failure
        self._flood_at = inf  # when the chosen roster is flooded again
        self._removal: Roster | None = None  # does not have this daemon; a later one may
        self._removal_at = inf  # when it counts for this daemon
        self._later: set[str] = set()  # daemons whose roster this release cannot read

    def _set_due(self) -> None:
        store_at = self._store_at if self._store_at > -inf else inf
        self.due = min(self._flood_at, store_at, self._removal_at)

    @property
    def is_changing(self) -> bool:
        """Return whether the present view works at a change."""
        return self._chosen is not None

    @property
    def lacking(self) -> tuple[str, ...]:
        """Return the daemons of the view that have not stored the chosen roster; sorted."""
        chosen = self._chosen
        if chosen is None:
            return ()
        return tuple(
            sorted(name for at, name in enumerate(self._members) if at not in chosen.stored)
        )

    # ---- the operator ----

    def change(self, change: RosterChange, *, forced: bool) -> None:
        """Propose a change to all daemons of the view.

        Args:
            change: the change.
            forced: also without a majority.

        Raises:
            LocalProtocolError: it is impossible, or impossible now.
        """
        parting = self.record.agreed if self._removed else self._parting()
        if not self._in_view and parting is None:
            raise LocalProtocolError(
                "this daemon looks for a view at the moment: try again in a second"
            )
        if parting is not None:
            raise LocalProtocolError(
                f"roster {parting.number} does not have this daemon: ask another one"
            )
        if self._chosen is not None:
            raise LocalProtocolError(
                "another change of the roster is in progress, and waits for the disks of"
                f" {', '.join(self.lacking)}"
            )
        if not (self._may_change or forced):
            raise LocalProtocolError(
                f"the view ({', '.join(self._members)}) has no majority of the roster"
                f" ({', '.join(self.roster.names)}): another part may change it, too. Start or"
                " reach more daemons, or force the change if the others are lost for good"
            )
        try:
            roster = self.roster.changed(change, forced=not self._may_change)
        except ConfigError as error:
            raise LocalProtocolError(str(error)) from None
        if (size := len(encode_roster(roster))) > MAX_CHANGED_BYTES:
            raise LocalProtocolError(
                f"the roster would take {size} bytes; daemons tell each other at most"
                f" {MAX_CHANGED_BYTES}: give daemons shorter names or fewer addresses"
            )
        self._propose(roster, ballot=0)

    def _propose(self, roster: Roster, ballot: int) -> None:
        self._keep(roster)
        self._flood(roster)
        self._submit(StepKind.PROPOSE, roster, ballot)

    def _submit(self, kind: StepKind, roster: Roster, ballot: int = 0) -> None:
        step = RosterStep(
            kind=kind,
            base=self.roster.id,
            roster=roster.id,
            ballot=ballot,
            forced=roster.is_forced,
        )
        self._submitter.submit(roster_bundle(step.encode()))

    def _flood(self, roster: Roster) -> None:
        notice = RosterNotice(self._name, False, encode_roster(roster))
        self.effects.append(FloodRoster(notice))
        self._submitter.wake()

    def _keep(self, roster: Roster) -> None:
        self._proposed.pop(roster.id, None)
        self._proposed[roster.id] = roster
        while len(self._proposed) > MAX_PROPOSED:
            del self._proposed[next(iter(self._proposed))]

    # ---- views ----

    def begin_view(self, members: Sequence[str], ballot: int, *, majority: bool | None) -> None:
        """Begin a view whose groups are known.

        Args:
            members: its daemons, by index.
            ballot: its counter.
            majority: whether they have a majority.
        """
        self._members, self._ballot = members, ballot
        self._may_change = bool(majority) or self._standing is Standing.TIE
        self._in_view = not self._removed
        self._chosen = None
        if self._removed:
            return
        pending = self.record.pending
        if pending is not None and pending.changes(self.roster):
            if self._may_change or pending.is_forced:
                self._propose(pending, self.record.ballot)
        else:
            self._count_next()

    def end_regular(self) -> None:
        """End the regular view: what is delivered from now on changes nothing."""
        self._in_view = False
        self._end_change()

    @property
    def _standing(self) -> Standing:
        """Return what the daemons of the view may do by the roster that counts."""
        return self.roster.votes.standing(self._members)

    def _count_next(self) -> None:
        """Propose the next step of the votes: one of this daemon, or as the lowest member."""
        if not self._may_change or self._chosen is not None:
            return
        votes, members, me = self.roster.votes, self._members, self._name
        change: RosterChange | None = votes.own_change(me, members, leaves=self._leaves)
        if change is None and members[0] == me:
            change = votes.next_change(members)
        if change is not None:
            roster = self.roster.changed(change)
            self._automatic = roster.id
            self._propose(roster, ballot=0)

    # ---- leaving ----

    def leave(self) -> None:
        """Give up the votes of this daemon, as far as the others can do without them."""
        if not self._leaves:
            self._leaves = True
            if self._in_view:
                self._count_next()

    @property
    def may_leave(self) -> bool:
        """Return whether the others have nothing to agree on before this daemon leaves."""
        if self._removed or not self.roster.policy.orderly:
            return True
        if not self._in_view:
            return not self.roster.votes.shares[self._name].held  # else the next view may agree
        return not self._may_change or self.roster.votes.may_leave(self._name, self._members)

    @property
    def is_away(self) -> bool:
        """Return whether the roster that counts says that this daemon leaves in order."""
        return self._leaves and self.roster.votes.shares[self._name].away

    # ---- steps in the agreed order ----

    def on_step(self, daemon: int, bundle: Bundle) -> None:
        """Process a step at its place in the agreed order; `daemon` is its sender's index."""
        if not self._in_view or daemon >= len(self._members):
            return
        try:
            step = decode_step_untrusted(bytes(body_payload(bundle.body)))
        except BadDatagram:
            self._counters.violations["roster"] += 1
            return
        if step.base != self.roster.id:
            return
        if step.kind is StepKind.PROPOSE:
            self._on_propose(daemon, step)
        else:
            self._on_stored(daemon, step)

    def _on_propose(self, daemon: int, step: RosterStep) -> None:
        chosen, is_own = self._chosen, self._members[daemon] == self._name
        if not (self._may_change or step.forced):
            return
        if chosen is not None and (step.ballot <= chosen.ballot or step.roster == chosen.id):
            if is_own and step.roster not in (chosen.id, self._automatic):
                self.news.append("a change of the roster was dropped: another one came first")
            return
        self._chosen = _Chosen(step.roster, step.ballot, is_own)
        self._begin_store()
        if is_own:
            self._submitter.wake()
            self._flood_at = -inf
            self._set_due()

    def _begin_store(self) -> None:
        """Store the chosen roster, if it has come, and if no other one is about to count."""
        chosen = self._chosen
        if chosen is None or chosen.roster is not None or self._learned is not None:
            return
        roster = self._proposed.get(chosen.id)
        if roster is None or not roster.changes(self.roster):
            return
        chosen.roster = roster
        self._write(attrs.evolve(self.record, pending=roster, ballot=self._ballot))

    def _on_stored(self, daemon: int, step: RosterStep) -> None:
        chosen = self._chosen
        if chosen is None or step.roster != chosen.id:
            return
        chosen.stored.add(daemon)
        if self._parting() is not None:
            self._flood_at = inf
            self._set_due()
            self._learn_if_used(chosen)
        elif (roster := self._stored_by_all()) is not None:
            self._end_change()
            self._use(roster)
            if self._in_view and not self._removed:
                self._may_change = self._standing in (Standing.MAJORITY, Standing.TIE)
                self._count_next()

    def _stored_by_all(self) -> Roster | None:
        """Return the chosen roster if all daemons of the view have stored it; else None."""
        chosen = self._chosen
        if chosen is None or len(chosen.stored) != len(self._members):
            return None
        return chosen.roster

    def _parting(self) -> Roster | None:
        """Return the roster that all have stored if it does not have this daemon; else None."""
        roster = self._stored_by_all()
        if roster is None or roster.entry(self._name) is not None:
            return None
        return roster

    def _learn_if_used(self, chosen: _Chosen) -> None:
        """Learn the roster without this daemon from another one that uses it.

        Its disk holds the roster as pending until then, and offers it to the next view.
        """
        parting = self._parting()
        if parting is not None and chosen.is_used and self._learned is None:
            self._learn(parting)

    # ---- rosters that come ----

    def on_notice(self, notice: RosterNotice, now: float) -> bool:
        """Process a roster that another daemon floods; raise BadDatagram if it is broken.

        Returns:
            Whether that daemon has to adopt the roster of this one.
        """
        try:
            roster = decode_roster_untrusted(notice.roster)
        except BadDatagram as error:
            if error.reason != "release":
                raise
            self._on_later_release(notice.name)
            return False
        if not notice.counts:
            self._keep(roster)
            self._begin_store()
            return False
        chosen = self._chosen
        if chosen is not None and chosen.id == roster.id:
            chosen.is_used = True
            self._learn_if_used(chosen)
            return False  # the last step comes in the order of the view, or the view ends
        if self._learned is None and roster.number and roster.supersedes(self.roster):
            self._consider(roster, now)
        return self.roster.number > 0 and self.roster.supersedes(roster)

    def _on_later_release(self, name: str) -> None:
        if name not in self._later:
            self._later.add(name)
            self.news.append(
                f"{name} has a roster that this release cannot read: a later release has changed"
                " it; upgrade this daemon, too"
            )

    def _consider(self, roster: Roster, now: float) -> None:
        """Learn a roster, if it concerns this daemon.

        A daemon without a roster on disk may be new, under the name of one that was removed: a
        daemon that does not know yet that the name was added again is not believed at once.
        """
        me = self._name
        if roster.entry(me) is not None:
            self._removal, self._removal_at = None, inf
            self._set_due()
            self._learn(roster)
        elif self.record.agreed is not None:
            self._learn(roster)  # it was removed, or the change that has added it was lost
        elif not roster.was_removed(me):
            return  # a cluster that this daemon was not added to yet
        elif self._removal is None:
            self._removal, self._removal_at = roster, now + REMOVAL_WAIT_S
            self._set_due()

    def _learn(self, roster: Roster) -> None:
        lost = self.roster.number and not roster.follows(self.roster)
        if lost:
            self.news.append(
                f"roster {self.roster.number} of this part of the cluster is replaced by roster"
                f" {roster.number}: changes that were forced here are lost; check with groupcomm"
                " daemons list"
            )
        self._learned = roster
        self._write(RosterRecord(agreed=roster))

    # ---- the disk ----

    def _write(self, record: RosterRecord) -> None:
        self.record, self.unstored = record, True
        self._submitter.wake()

    def to_store(self, now: float) -> RosterRecord | None:
        """Return the record that the disk is to hold; None if it does, or waits after a failure."""
        return self.record if self.unstored and now >= self._store_at else None

    def not_stored(self, reason: str, now: float) -> None:
        """Note that the disk may not hold the record; it is written again later."""
        self.news.append(f"the roster cannot be stored: {reason}; this is tried again")
        self._store_at = now + STORE_AGAIN_S
        self._set_due()

    def stored(self, record: RosterRecord) -> None:
        """Note that the disk holds a record."""
        if record is not self.record:
            return
        self.unstored = False
        if self._learned is not None:
            learned, self._learned = self._learned, None
            self._end_change()
            self._use(learned, store=False)
            return
        if record.agreed is not None and record.agreed.id == self.roster.id:
            self.effects.append(TellRoster())
        chosen = self._chosen
        if (
            chosen is not None
            and chosen.roster is not None
            and record.pending is chosen.roster
            and not chosen.reported
        ):
            chosen.reported = True
            self._submit(StepKind.STORED, chosen.roster)

    def _end_change(self) -> None:
        self._chosen, self._flood_at = None, inf
        self._set_due()

    def _use(self, roster: Roster, *, store: bool = True) -> None:
        """Use a roster from now on: all daemons that may differ about it hold it on disk."""
        if self._removed or roster.id == self.roster.id:
            return  # it came in the agreed order, and from a daemon that used it first
        if store:
            self._write(RosterRecord(agreed=roster))
        self._proposed.clear()
        self._learned = None  # it is this one, or comes again
        self._removal, self._removal_at = None, inf
        self._set_due()
        me = self._name
        if roster.entry(me) is None:
            self._removed, self._in_view = True, False
            self.news.append(f"roster {roster.number} does not have this daemon: it was removed")
            self.effects.append(EndRemoved())
            return
        self.news.append(f"roster {roster.number} counts: {', '.join(roster.names)}")
        self.roster = roster
        self.effects.append(UseRoster(roster, stored=not store))

    # ---- time ----

    def step(self, now: float) -> None:
        """Flood the chosen roster again while daemons of the view lack it; call it at `due`."""
        chosen, removal = self._chosen, self._removal
        if self._store_at <= now:
            self._store_at = -inf
        if now >= self._removal_at:
            self._removal, self._removal_at = None, inf
            if removal is not None and self._learned is None:
                self._learn(removal)
        if now >= self._flood_at:
            self._flood_at = inf
            if chosen is not None and chosen.is_own and chosen.roster is not None:
                self._flood(chosen.roster)
                self._flood_at = now + FLOOD_AGAIN_S
        self._set_due()

    def describe(self, members: Collection[str]) -> dict[str, object]:
        """Return the roster for operators, with the daemons that are in the view."""
        roster = self.roster
        return {
            "number": roster.number,
            "forced": roster.forced,
            "policy": attrs.asdict(roster.policy),
            "settled": roster.settled,
            "daemons": [
                {
                    "name": entry.name,
                    "site": entry.site,
                    "addresses": list(entry.addresses),
                    "counts": entry.counts,
                    "votes": entry.share.votes,
                    "held": entry.share.held,
                    "away": entry.share.away,
                    "in_view": entry.name in members,
                }
                for entry in roster.entries
            ],
            "links": [
                {"sites": [one, other], "delay_ms": delay_us / 1000}
                for one, other, delay_us in roster.links
            ],
            "removed": [each.name for each in roster.removed if roster.was_removed(each.name)],
            "invitations": [
                {
                    "id": each.id.hex(),
                    "name": each.name,
                    "site": each.site,
                    "expires_s": each.expires_s,
                    "used": bool(each.holder),
                }
                for each in roster.invitations
            ],
            "in_view": self._in_view,
            "changing": self.is_changing,
            "lacking": list(self.lacking),
        }
