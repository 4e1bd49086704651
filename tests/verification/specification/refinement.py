"""The check that a run is a behaviour of the specification: the real code refines it.

Each event of a run, and each step of a daemon's membership, is mapped to an action of the
specification. The action must be enabled in the state that the actions before it have led to. Acts
that the specification does not know, such as the deliveries below AGREED, change nothing there.

    what is seen                          views      order      recovery
    a daemon begins to gather             gather                gather
    it agrees to a proposal               commit                commit
    it announces RECOVERED                recover               recover
    Conf T                                                      turn
    Conf R                                install               finish
    Stamped, Horizon, Count                          the same   the same
    Hold                                             hold       repair, once it has gathered
    Release of AGREED or SAFE                        deliver    settle, after Conf T rest

An inner release (docs/properties.md) may be ahead of the order: it is mapped to its place there, as
the daemon releases something above it, or as the part or the view ends.

There is one state of views for the whole run, and one of order and recovery for each view, as long
as a daemon may be in it. The first action that is not enabled is reported, and ends the check.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from groupcomm.clocks.stamp import parse_view
from groupcomm.config.view import DaemonId, View
from groupcomm.level import ServiceLevel
from groupcomm.sim.checkers.report import Violation
from groupcomm.trace.events import (
    Conf,
    Count,
    Fail,
    Hold,
    Horizon,
    Left,
    Release,
    Stamped,
    TraceEvent,
)
from groupcomm.trace.recorders import RecordEvent, TraceProbe
from groupcomm.trace.steps import TraceClock
from groupcomm.wire import membership as wire
from groupcomm.wire.bundle import BundleKind
from tests.verification.specification.form import Disabled
from tests.verification.specification.order import (
    NOWHERE,
    Held,
    Kind,
    OrderCondition,
    PacketId,
    Place,
)
from tests.verification.specification.recovery import Past, Recovery, RecoveryState, Seats, Stage
from tests.verification.specification.views import Join, Proposal, Views, ViewsState

PROPERTY: Final = "specification"
"""The id under which a run that is no behaviour of the specification is reported."""

_AGREED = ServiceLevel.AGREED
_SAFE = ServiceLevel.SAFE


class RunCondition(enum.Enum):
    """Conditions of the mapping itself."""

    HAS_VIEW = "only a daemon with a view numbers, accepts and delivers packets"
    LEAVES_ITS_VIEW = "a daemon leaves the view that it is in"
    AGREED_MEMBERS = "a daemon's transitional members are those that it has agreed to"
    AGREED_VIEW = "a daemon installs the view that it has agreed to"


@attrs.define
class ObservedView:
    """A view of the run, with the state of its order and recovery.

    Attributes:
        text: its id, as traces write it.
        daemons: its daemons, by index.
        key: its key in packets.
        specification: the actions.
        state: the state.
        remaining: the daemons that may still act in it.
        undecided: for each set of seats what its first member had released when its regular part
            ended, and may be below the boundary or not.
    """

    text: str
    daemons: tuple[str, ...]
    key: bytes
    specification: Recovery
    state: RecoveryState
    remaining: set[str]
    undecided: dict[Seats, tuple[PacketId, ...]] = attrs.Factory(dict)


class Refinement:
    """The check of one run.

    Attributes:
        violations: the first act that the specification does not allow; empty if there is none.
        actions: the number of actions of the specification that were taken.
    """

    def __init__(self) -> None:
        self._views = Views()
        self._state = ViewsState()
        self._base = 0
        self._open: dict[str, ObservedView] = {}
        self._at: dict[str, ObservedView] = {}  # by daemon
        self._mapped: dict[type, Callable[[Any], None]] = {
            Stamped: self._on_stamped,
            Hold: self._on_hold,
            Horizon: self._on_horizon,
            Count: self._on_count,
            Release: self._on_release,
            Conf: self._on_conf,
            Fail: self._on_end,
            Left: self._on_end,
        }
        self._coming: dict[str, View] = {}  # the view that each daemon installs next
        # By daemon, the packets released ahead of the order, by place, and whether they are SAFE.
        self._ahead: dict[str, dict[Place, tuple[PacketId, bool]]] = {}
        self.violations: list[Violation] = []
        self.actions = 0

    # ---- acts ----

    def feed(self, event: TraceEvent) -> None:
        """Process the next event of the run."""
        mapped = self._mapped.get(type(event))
        if mapped is None or self.violations:
            return
        self.actions += 1
        try:
            mapped(event)
        except Disabled as disabled:
            self._report(f"no behaviour of the specification: {disabled}", event)

    def _report(self, text: str, *events: TraceEvent) -> None:
        self.violations.append(Violation(PROPERTY, text, events))

    def _try(self, daemon: str, name: str, act: Callable[[], None]) -> None:
        if self.violations:
            return
        self.actions += 1
        try:
            act()
        except Disabled as disabled:
            self._report(f"{daemon} may not {name}: {disabled}")

    # ---- steps of membership ----

    def gathered(self, daemon: str, join: wire.Join) -> None:
        """Process the beginning of an attempt."""
        self._try(daemon, "gather", lambda: self._gather(daemon, join))

    def _gather(self, daemon: str, join: wire.Join) -> None:
        observed = self._at.get(daemon)
        old = self._state.view.get(daemon)
        shares = observed is not None and join.past is not None and join.past.view == observed.key
        self._views.gather(self._state, daemon, Join(old if shares else None, join.counter))
        if observed is not None:
            past = _past_of(join.past, observed) if shares and join.past is not None else None
            observed.specification.gather(observed.state, daemon, join.attempt, past)

    def committed(
        self,
        daemon: str,
        proposal: wire.Proposal,
        view: View,
        members: tuple[str, ...],
        transitional: frozenset[int],
    ) -> None:
        """Process an agreement.

        Args:
            daemon: the daemon.
            proposal: the proposal.
            view: the view that results.
            members: its daemons, by index.
            transitional: the numbers of the transitional members.
        """

        def commit() -> None:
            by_number = {d.number: name for d, name in zip(view.daemons, members, strict=True)}
            attempts = {seat.number: seat.attempt for seat in proposal.seats}
            seats = frozenset((by_number[n], attempt) for n, attempt in attempts.items())
            form = tuple(seat.mutual for seat in proposal.seats)
            self._views.commit(self._state, daemon, Proposal(seats, view.id.counter, form))
            observed = self._at.get(daemon)
            if observed is not None:
                obliged = frozenset((by_number[n], attempts[n]) for n in transitional)
                observed.specification.commit(observed.state, daemon, obliged)

        self._try(daemon, "commit", commit)

    def recovered(self, daemon: str) -> None:
        """Process the announcement that the recovered set is held."""

        def recover() -> None:
            self._views.recover(self._state, daemon)
            observed = self._at.get(daemon)
            if observed is not None:
                observed.specification.recover(observed.state, daemon)

        self._try(daemon, "recover", recover)

    def begins(self, daemon: str, view: View) -> None:
        """Note the view whose Conf R comes next."""
        self._coming[daemon] = view

    def use_base(self, base: int) -> None:
        """Use another number than 0 as the one before the first of each stream."""
        self._base = base

    def probe(
        self,
        clock: TraceClock,
        record: RecordEvent,
        process: str,
        identities: Mapping[DaemonId, str],
    ) -> "ObservedProbe":
        """Return the probe of a daemon."""
        return ObservedProbe(clock, record, process, identities, self)

    # ---- views ----

    def _on_conf(self, event: Conf) -> None:
        daemon = event.p
        observed = self._at.get(daemon)
        if event.kind == "T":
            if observed is None or observed.text != event.old:
                raise Disabled(RunCondition.LEAVES_ITS_VIEW)
            state = observed.state
            seats = state.seats.get(daemon, frozenset())
            if frozenset(event.rings[0]) != {member for member, _ in seats}:
                raise Disabled(RunCondition.AGREED_MEMBERS)
            self._settle_ahead(observed, daemon)
            observed.specification.turn(state, daemon)
            return
        ahead = self._ahead.pop(daemon, {})
        if observed is not None:
            for place in sorted(ahead):
                self._release(observed, daemon, *ahead[place])
            observed.specification.finish(observed.state, daemon)
        self._views.install(self._state, daemon)
        self._enter(event)

    def _settle_ahead(self, observed: ObservedView, daemon: str) -> None:
        """Deliver what was released ahead of the order, and is below the boundary.

        Whether it is may be unknown, if nobody has released a packet below it yet:
        then the first daemon that knows decides for all with its recovered set.
        """
        specification, state = observed.specification, observed.state
        seats, ahead = state.seats.get(daemon, frozenset()), self._ahead.get(daemon, {})
        for place in sorted(ahead):
            delivered = state.delivered.get(daemon, ())
            others = state.turned.get(seats, ())[len(delivered) :]
            if specification.is_beyond(state, daemon, place, surely=False) and not (
                others and others[0] == ahead[place][0]
            ):
                break
            self._release(observed, daemon, *ahead.pop(place))
        delivered, turned = state.delivered.get(daemon, ()), state.turned.get(seats)
        if turned is None:
            open_places = [
                place
                for place in sorted(ahead)
                if not specification.is_beyond(state, daemon, place, surely=True)
            ]
            observed.undecided[seats] = tuple(ahead[place][0] for place in open_places)
            return
        more, undecided = delivered[len(turned) :], observed.undecided[seats]
        if more and delivered[: len(turned)] == turned and undecided[: len(more)] == more:
            state.turned[seats], observed.undecided[seats] = delivered, undecided[len(more) :]

    def _enter(self, event: Conf) -> None:
        """Enter the view that a daemon has installed; compare it with the one agreed to."""
        daemon, view = event.p, self._coming[event.p]
        proposal = self._state.agreed[daemon]
        counter, name, _ = parse_view(event.view)
        members = tuple(member for ring in event.rings for member in ring)
        if (
            proposal.members != frozenset(members)
            or proposal.id[0] != counter
            or proposal.id[1].rpartition("/")[0] != name
        ):
            raise Disabled(RunCondition.AGREED_VIEW)
        for other in [each for each in self._open.values() if daemon in each.remaining]:
            if other.text != event.view:
                self._forget(daemon, other)
        observed = self._open.get(event.view)
        if observed is None:
            indices = [index for ring in view.rings for index in ring]
            by_index = tuple(member for _, member in sorted(zip(indices, members, strict=True)))
            observed = self._open[event.view] = ObservedView(
                event.view,
                by_index,
                view.key,
                Recovery(event.rings, self._base, view.clock, inside=view.versions.has_local_safe),
                RecoveryState(),
                set(members),
            )
        self._at[daemon] = observed

    def _on_end(self, event: Fail | Left) -> None:
        self._at.pop(event.p, None)
        self._ahead.pop(event.p, None)
        for other in list(self._open.values()):
            self._forget(event.p, other)

    def _forget(self, daemon: str, observed: ObservedView) -> None:
        """Note that a daemon acts in a view no more; those that no daemon acts in are forgotten."""
        view = parse_view(observed.text)
        current = self._at.get(daemon)
        if current is not None and parse_view(current.text) < view:
            return  # it may still come to this one
        observed.remaining.discard(daemon)
        if not observed.remaining:
            self._open.pop(observed.text, None)

    def _observed(self, daemon: str) -> ObservedView:
        """Return the view of a daemon; raise Disabled if it has none."""
        observed = self._at.get(daemon)
        if observed is None:
            raise Disabled(RunCondition.HAS_VIEW)
        return observed

    # ---- packets ----

    def _on_stamped(self, event: Stamped) -> None:
        observed = self._observed(event.p)
        packet = (event.ring, event.number)
        observed.specification.stamp(observed.state, event.p, packet, event.time)

    def _on_hold(self, event: Hold) -> None:
        observed = self._observed(event.p)
        specification, state = observed.specification, observed.state
        act = specification.repair if event.p in state.frozen else specification.hold
        act(state, event.p, (event.ring, event.number), event.time)

    def _on_horizon(self, event: Horizon) -> None:
        observed = self._observed(event.p)
        observed.specification.announce(
            observed.state, event.p, event.ring, event.value, event.upto
        )

    def _on_count(self, event: Count) -> None:
        observed = self._observed(event.p)
        observed.specification.count(observed.state, event.p, event.ring, event.value, event.upto)

    def _on_release(self, event: Release) -> None:
        if event.level < _AGREED or event.number == 0:
            return
        daemon, safe = event.p, event.level == _SAFE
        observed = self._observed(daemon)
        specification, state = observed.specification, observed.state
        packet: PacketId = (event.ring, event.number)
        place, ahead = (event.time, event.ring), self._ahead.setdefault(daemon, {})
        is_regular = state.stage.get(daemon) is not Stage.TURNED
        is_above = state.done.get(daemon, NOWHERE) < place
        if is_above and is_regular and _is_inner(event, specification):
            if safe:
                self._need_safe(observed, daemon, packet, event.time)
            ahead[place] = packet, safe or ahead.get(place, (packet, False))[1]
            return
        for lower in sorted(each for each in ahead if each < place):
            self._release(observed, daemon, *ahead.pop(lower))
        _, was_safe = ahead.pop(place, (packet, False))  # a join may follow messages in a packet
        if state.done.get(daemon) == place:
            if safe and state.kind.get(packet) is Kind.AGREED:
                state.kind[packet] = Kind.SAFE  # a packet is SAFE if one of its bundles is
                specification.confirm(state, daemon, packet)
            return
        self._release(observed, daemon, packet, safe or was_safe)

    def _need_safe(self, observed: ObservedView, daemon: str, packet: PacketId, time: int) -> None:
        """Raise Disabled unless a SAFE packet may be delivered ahead of the order."""
        specification, state = observed.specification, observed.state
        if daemon not in state.frozen:
            is_safe = specification.can_all(state, daemon, packet)
        else:
            is_safe = specification.is_safe(specification.recovered(state, daemon), packet, time)
        specification.need(is_safe, OrderCondition.ALL_CAN)

    def _release(self, observed: ObservedView, daemon: str, packet: PacketId, safe: bool) -> None:
        specification, state = observed.specification, observed.state
        if daemon not in state.frozen:
            specification.deliver(state, daemon, packet, safe)
        elif state.stage[daemon] is Stage.TURNED:
            specification.rest(state, daemon, packet, safe)
        else:
            specification.settle(state, daemon, packet, safe)


def _is_inner(event: Release, specification: Recovery) -> bool:
    """Return whether a release in the regular part is inner."""
    message = event.level >= _AGREED and event.kind < BundleKind.CONNECT
    return message and len(specification.rings) > 1 and event.p in specification.rings[event.ring]


def _past_of(past: wire.Past, observed: ObservedView) -> Past:
    """Return what a join says of a view in the terms of the specification."""
    held: list[Held] = []
    for holding in past.holdings:
        prefix, early = holding.forgotten, set[int]()
        for first, last in holding.spans:
            if first == prefix + 1:
                prefix = last
            else:
                early.update(range(first, last + 1))
        held.append(Held(prefix, frozenset(early)))
    return Past(
        tuple(held),
        tuple(frozenset((v, upto) for upto, v in h.notices if v) for h in past.holdings),
        tuple(holding.frontier for holding in past.holdings),
        frozenset(observed.daemons[index] for index in past.obligation),
        tuple(max((upto for upto, v in h.notices if not v), default=0) for h in past.holdings),
    )


class ObservedProbe(TraceProbe):
    """The probe of a daemon in a run that is checked: it also tells the steps of membership."""

    __slots__ = ("_refinement",)

    def __init__(
        self,
        clock: TraceClock,
        record: RecordEvent,
        process: str,
        identities: Mapping[DaemonId, str],
        refinement: Refinement,
    ) -> None:
        super().__init__(clock, record, process, identities)
        self._refinement = refinement

    def gathered(self, join: wire.Join) -> None:
        """See MembershipProbe."""
        self._refinement.gathered(self._process, join)

    def committed(self, proposal: wire.Proposal, view: View, transitional: frozenset[int]) -> None:
        """See MembershipProbe."""
        members = tuple(self._identities[daemon] for daemon in view.daemons)
        self._refinement.committed(self._process, proposal, view, members, transitional)

    def recovered(self) -> None:
        """See MembershipProbe."""
        self._refinement.recovered(self._process)

    def installed(self, view: View) -> None:
        """See Probe."""
        self._refinement.begins(self._process, view)
        super().installed(view)
