"""The specification of views: who proposes one, agrees to it, and installs it.

The actions are the changes of state of `groupcomm/membership/membership.py`:

    gather   a daemon begins an attempt, and floods its join
    commit   it agrees to a proposal, which is made from one join of each member
    recover  it announces that it holds the recovered set (RECOVERED)
    install  all members have announced that: the view begins

Why the same id never names two views: the counter of a view is above all counters that its members
have named in their joins, and a daemon that announces RECOVERED has used that counter: each later
join of it names it. Before that it may still agree to another proposal, which may have the same
counter and id. So two proposals with one id may be agreed to, but at most one of them can be
installed, since each member announces RECOVERED for at most one proposal in one attempt.

Left out: who hears whom, and the clocks and timeouts by which the code chooses when to take an
action. These decide about liveness only.
"""

import enum
from typing import NamedTuple

import attrs

from tests.verification.specification.form import Specification, State

Seat = tuple[str, int]
"""A daemon, by the identity of its start, and its attempt."""

Id = tuple[int, str]
"""The id of a view: its counter, and its lowest daemon."""


class Phase(enum.Enum):
    """The states of membership, named like those of the code."""

    GATHER = enum.auto()
    COMMIT = enum.auto()
    RECOVERED = enum.auto()
    OPERATIONAL = enum.auto()


class Join(NamedTuple):
    """A join.

    Attributes:
        old: the view that its daemon comes from; None for none, or if it shares none with others.
        counter: the highest counter that it has used.
    """

    old: Id | None
    counter: int


class Proposal(NamedTuple):
    """A proposal: one join of each member.

    Attributes:
        seats: the joins.
        counter: the counter of the view.
        form: everything else that members of the view have to agree upon: its rings and links.
    """

    seats: frozenset[Seat]
    counter: int
    form: object

    @property
    def members(self) -> frozenset[str]:
        """Return the members."""
        return frozenset(daemon for daemon, _ in self.seats)

    @property
    def id(self) -> Id:
        """Return the id of the view."""
        return self.counter, min(daemon for daemon, _ in self.seats)


class Installed(NamedTuple):
    """A view that a daemon has installed.

    Attributes:
        proposal: the members and the id of the view.
        old: the view before it; None for none.
        transitional: the members that came from there together, itself included; empty for none.
    """

    proposal: Proposal
    old: Id | None
    transitional: frozenset[str]


@attrs.define(eq=False)
class ViewsState(State):
    """The variables, by daemon; a daemon that has not begun has no entry.

    Attributes:
        phase: its state.
        attempt: the number of its attempt.
        used: the highest counter of a view that it may have used.
        agreed: the proposal that it has agreed to last.
        view: its view.
        joins: all joins that were ever sent, by daemon and attempt.
        promised: all announcements RECOVERED, by daemon, attempt and proposal.
        history: the views that each daemon has installed, in order.
    """

    phase: dict[str, Phase] = attrs.Factory(dict)
    attempt: dict[str, int] = attrs.Factory(dict)
    used: dict[str, int] = attrs.Factory(dict)
    agreed: dict[str, Proposal] = attrs.Factory(dict)
    view: dict[str, Id] = attrs.Factory(dict)
    joins: dict[Seat, Join] = attrs.Factory(dict)
    promised: set[tuple[str, Proposal]] = attrs.Factory(set)
    history: dict[str, tuple[Installed, ...]] = attrs.Factory(dict)


class ViewsCondition(enum.Enum):
    """The conditions of the actions."""

    USED_IS_NAMED = "a join names the highest counter that its daemon has used"
    OLD_IS_NAMED = "a join names the view that its daemon comes from, or none"
    MAY_AGREE = (
        "a daemon agrees to a proposal while it gathers, or in place of one that it has"
        " agreed to and not announced RECOVERED for"
    )
    OWN_JOIN = "a daemon agrees only to a proposal with its own present join"
    ALL_JOINS = "a proposal is made from joins that were sent"
    COUNTER = "the counter of a proposal is one above all that its joins name"
    HAS_AGREED = "a daemon announces RECOVERED once for each proposal that it agrees to"
    HAS_RECOVERED = "a daemon installs a view for which it has announced RECOVERED itself"
    ALL_RECOVERED = (
        "a view is installed once all members have announced RECOVERED for this very proposal"
    )


class Views(Specification[ViewsState]):
    """The actions."""

    def gather(self, state: ViewsState, daemon: str, join: Join) -> None:
        """Begin an attempt: flood a join. A daemon that starts begins with its first one."""
        self.need(join.counter >= state.used.get(daemon, 0), ViewsCondition.USED_IS_NAMED)
        self.need(join.old in (None, state.view.get(daemon)), ViewsCondition.OLD_IS_NAMED)
        attempt = state.attempt[daemon] = state.attempt.get(daemon, 0) + 1
        state.joins[daemon, attempt] = join
        state.phase[daemon] = Phase.GATHER
        state.agreed.pop(daemon, None)

    def commit(self, state: ViewsState, daemon: str, proposal: Proposal) -> None:
        """Agree to a proposal."""
        may_agree = state.phase.get(daemon) in (Phase.GATHER, Phase.COMMIT)
        self.need(may_agree, ViewsCondition.MAY_AGREE)
        seats = proposal.seats
        self.need((daemon, state.attempt.get(daemon, 0)) in seats, ViewsCondition.OWN_JOIN)
        self.need(seats <= state.joins.keys(), ViewsCondition.ALL_JOINS)
        counters = [state.joins[seat].counter for seat in seats if seat in state.joins]
        self.need(proposal.counter == max(counters, default=0) + 1, ViewsCondition.COUNTER)
        state.phase[daemon] = Phase.COMMIT
        state.agreed[daemon] = proposal

    def recover(self, state: ViewsState, daemon: str) -> None:
        """Announce that this daemon holds the recovered set; `recovery.py` says what that is."""
        proposal = state.agreed.get(daemon)
        has_agreed = state.phase.get(daemon) is Phase.COMMIT and proposal is not None
        self.need(has_agreed, ViewsCondition.HAS_AGREED)
        if proposal is None:
            return
        state.phase[daemon] = Phase.RECOVERED
        state.used[daemon] = proposal.counter
        state.promised.add((daemon, proposal))

    def install(self, state: ViewsState, daemon: str) -> None:
        """Install the view."""
        proposal = state.agreed.get(daemon)
        self.need(state.phase.get(daemon) is Phase.RECOVERED, ViewsCondition.HAS_RECOVERED)
        if proposal is None:
            return
        others = proposal.members - {daemon}
        recovered = all((other, proposal) in state.promised for other in others)
        self.need(recovered, ViewsCondition.ALL_RECOVERED)
        old = state.view.get(daemon)
        installed = Installed(proposal, old, transitional(state, daemon, proposal))
        state.history[daemon] = (*state.history.get(daemon, ()), installed)
        state.view[daemon] = proposal.id
        state.phase[daemon] = Phase.OPERATIONAL


def transitional(state: ViewsState, daemon: str, proposal: Proposal) -> frozenset[str]:
    """Return the transitional members of a daemon: those whose joins name the view of its own."""
    old = next((state.joins[seat].old for seat in proposal.seats if seat[0] == daemon), None)
    if old is None:
        return frozenset((daemon,)) if daemon in state.view else frozenset()
    return frozenset(seat[0] for seat in proposal.seats if state.joins[seat].old == old)
