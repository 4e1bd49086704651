"""The end of a view, on random histories with real orders, against a model that shares nothing.

Some daemons come along; they unite what they hold, recover it, are bound, and walk.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import cast

import attrs
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Stamp
from groupcomm.config.core import Timing
from groupcomm.engine.delivery import Delivery
from groupcomm.engine.view_change import ViewChange
from groupcomm.link.forwarding import Forwarding
from groupcomm.link.routes import Routes
from groupcomm.membership.recovered_set import RecoveredSet
from groupcomm.ring.reception import Reception
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket, decode_data_untrusted
from tests.groupcomm.membership import naive
from tests.groupcomm.membership.histories import SAFE, Daemon, History, Id

SEEDS = st.integers(0, 2**32 - 1)
STEPS = 70


class Leaver:
    """A daemon at the end of its view, as its Ending sees its Delivery.

    Attributes:
        regular: its deliveries when the regular part was over.
    """

    complete = True

    def __init__(self, history: History, me: int) -> None:
        self.me = me
        self.daemon: Daemon = history.daemons[me]
        self.order, self.streams = self.daemon.order, self.daemon.streams
        self.regular: list[Id] | None = None
        self.told: list[Stamp | None] = []
        self.groups = self
        reception = Reception((me,), me, self.streams, Timing())
        forwarding = Forwarding(history.view, me, Routes(history.view, me), self.streams, Timing())
        self.view_change = ViewChange(history.view, me, cast(Delivery, self), reception, forwarding)
        self.before = list(self.daemon.given)

    def receive_horizon(self, ring: int, value: int, upto: int) -> None:
        self.daemon.count(ring, value, upto)

    def learn_groups(self, packets: Iterable[DataPacket]) -> None:
        """See Delivery: nothing is local here."""

    def receive_announcements(self, bundles: list[Bundle]) -> None:
        """See Delivery: all have come before."""

    def catch_up(self) -> Iterator[None]:
        """See Delivery: nothing was left."""
        return iter(())

    finish_bundle = catch_up

    def deliver_bundle(self, bundle: Bundle) -> None:
        assert bundle.released
        self.daemon.release(bundle)

    def pop_waits(self, boundary: Stamp | None) -> tuple[list[Bundle], list[Bundle]]:
        assert self.regular is None
        self.told.append(boundary)
        return [], []

    def send_positions(self, bundles: list[Bundle], *, transitional: bool) -> Iterator[None]:
        assert transitional == (self.regular is not None)
        return iter(bundles)  # type: ignore[arg-type] # there are none

    def end(self) -> None:
        """All is delivered."""

    def finish(self) -> None:
        """Deliver all that is left."""
        assert [*self.view_change.finish(self.turn)] == []

    def turn(self) -> None:
        """The regular part is over."""
        assert self.regular is None
        self.regular = list(self.daemon.given)

    def recover(
        self, recovered_set: RecoveredSet, transitional_members: Iterable["Leaver"]
    ) -> None:
        """Get missing packets from their lowest holders, and no others."""
        for fellow in transitional_members:
            for ring, number in recovered_set.duties(fellow.me):
                packet = decode_data_untrusted(fellow.streams[ring].packets[number].raw)
                if self.streams[ring].accept(packet):
                    self.order.classify(packet)
        assert not any(self.view_change.missing(recovered_set)), "duties cover all that is missing"


@attrs.frozen
class Attempt:
    """Those who tried to go on together."""

    history: History
    leavers: list[Leaver]
    recovered_set: RecoveredSet
    transitional_members: frozenset[int]

    @property
    def held(self) -> set[naive.Number]:
        """All packets of the union, also those forgotten."""
        return {number for number in self.history.packets if self.recovered_set.holds(*number)}

    @property
    def expected(self) -> set[Id]:
        """Return the deliveries of the model."""
        transitional_members = self.transitional_members | self.recovered_set.obligation
        return naive.walk(self.history.known, self.held, transitional_members)

    def finish(self) -> None:
        """All are bound, and walk."""
        for leaver in self.leavers:
            assert leaver.view_change.prepare(self.recovered_set, self.transitional_members)
            leaver.finish()


def attempt(history: History, members: Collection[int], bound: Collection[int]) -> Attempt:
    """Some come along and recover; those in `bound` tell the others that they hold the union."""
    leavers = [Leaver(history, me) for me in sorted(members)]
    return again(history, leavers, bound)


def again(history: History, leavers: list[Leaver], bound: Collection[int]) -> Attempt:
    """The same for some who may have tried before."""
    recovered_set = RecoveredSet({leaver.me: leaver.view_change.past for leaver in leavers})
    transitional_members = frozenset(leaver.me for leaver in leavers)
    for leaver in leavers:
        leaver.recover(recovered_set, leavers)
        if leaver.me in bound:
            leaver.view_change.accept_obligation(recovered_set, transitional_members)
    return Attempt(history, leavers, recovered_set, transitional_members)


def some(history: History) -> list[int]:
    """Daemons at random, one at least."""
    everybody = range(len(history.daemons))
    return sorted(history.random.sample(everybody, history.random.randint(1, len(everybody))))


def lived(seed: int, *, forget: bool = True) -> History:
    history = History(seed, forget=forget)
    history.run(STEPS)
    return history


@given(SEEDS)
def test_all_who_come_along_deliver_what_the_model_does_and_each_bundle_once(seed: int) -> None:
    history = lived(seed)
    members = some(history)
    ended = attempt(history, members, members)
    expected = ended.expected
    ended.finish()
    for leaver in ended.leavers:
        given = Counter(leaver.daemon.given)
        assert max(given.values(), default=1) == 1
        assert given.keys() == expected
        assert len(leaver.told) == 1


@given(SEEDS)
def test_the_boundary_follows_from_the_recovered_set_alone_and_is_the_same_for_all(
    seed: int,
) -> None:
    history = lived(seed)
    members = some(history)
    pasts = [Leaver(history, me).view_change.past for me in members]
    ended = attempt(history, members, members)
    horizons, frontiers = [], []
    for ring, prefix in enumerate(ended.recovered_set.prefix):
        values = [history.view.clock]
        for past in pasts:
            values += [value for upto, value in past.holdings[ring].notices if upto <= prefix]
        if prefix:
            values.append(history.known[ring, prefix].time)
        horizons.append(max(values))
        frontiers.append(max(past.holdings[ring].frontier for past in pasts))
    held = {number: history.known[number] for number in ended.held}
    boundary = naive.boundary(held, min(horizons), min(frontiers))
    ended.finish()
    for leaver in ended.leavers:
        assert leaver.regular is not None
        assert leaver.told[0] == boundary
        for part, bundles in ((True, leaver.regular), (False, leaver.daemon.given)):
            for bundle in set(bundles) - (set() if part else set(leaver.regular)):
                packet = history.known[bundle[:2]]
                if bundle not in leaver.before:
                    early = boundary is None or (packet.time, packet.ring) < boundary
                    assert early == part


@given(SEEDS)
def test_the_agreed_order_and_its_part_before_the_boundary_are_the_same_for_all(seed: int) -> None:
    history = lived(seed)
    members = some(history)
    ended = attempt(history, members, members)
    ended.finish()
    orders = {tuple(history.agreed(leaver.daemon.given)) for leaver in ended.leavers}
    assert len(orders) == 1
    (order,) = orders
    stamps = [(history.known[one[:2]].time, one[0], one[2]) for one in order]
    assert stamps == sorted(stamps)
    regular = {tuple(history.agreed(leaver.regular or [])) for leaver in ended.leavers}
    assert len(regular) == 1


@given(SEEDS)
def test_nothing_that_was_delivered_before_is_dropped_and_safe_is_safe(seed: int) -> None:
    """Also what somebody delivered as SAFE who does not come along: all that do deliver it."""
    history = lived(seed)
    members = some(history)
    ended = attempt(history, members, members)
    expected = ended.expected
    for leaver in ended.leavers:
        assert expected.issuperset(leaver.before)
    safe = {
        bundle
        for daemon in history.daemons
        for bundle in daemon.given
        if history.level(bundle) == SAFE
    }
    assert expected >= safe


@given(SEEDS)
def test_what_the_order_would_deliver_of_the_recovered_set_is_never_dropped(seed: int) -> None:
    """A daemon that held the union, with all notices and frontiers, and nothing else."""
    history = lived(seed, forget=False)
    ended = attempt(history, some(history), ())
    expected = ended.expected
    fresh = Daemon(history.view)
    for number in sorted(ended.held, key=lambda _: history.random.random()):
        fresh.take(history.packets[number])
    for ring, notices in enumerate(ended.recovered_set.notices):
        for upto, value in notices:
            fresh.count(ring, value, upto)
        fresh.order.frontiers.raise_to(ring, ended.recovered_set.frontiers[ring])
    fresh.order.drain()
    assert expected.issuperset(fresh.given)


@given(SEEDS)
def test_obligations_are_kept_after_a_failed_attempt(seed: int) -> None:
    """Some are bound, one has installed its view; the others try anew, with others and without.

    All that the one has delivered is delivered by those who were bound with it.
    """
    history = lived(seed)
    first = some(history)
    failed = attempt(history, first, first)
    gone, bound = failed.leavers[0], failed.leavers[1:]
    assert gone.view_change.prepare(failed.recovered_set, failed.transitional_members)
    gone.finish()
    if not bound:
        return
    before = {leaver.me: leaver for leaver in failed.leavers}
    others = [Leaver(history, me) for me in some(history) if me not in before]
    later = again(history, sorted([*bound, *others], key=lambda leaver: leaver.me), ())
    for leaver in bound:
        assert leaver.view_change.past.obligation == tuple(first)
    for leaver in later.leavers:
        leaver.view_change.accept_obligation(later.recovered_set, later.transitional_members)
        assert set(leaver.view_change.past.obligation) == set(first) | later.transitional_members
    expected = later.expected
    later.finish()
    for leaver in later.leavers:
        assert set(leaver.daemon.given) == expected
    assert expected.issuperset(gone.daemon.given)
    regular = history.agreed(gone.regular or [])
    for leaver in later.leavers:
        assert history.agreed(leaver.regular or [])[: len(regular)] == regular


@given(SEEDS)
def test_who_has_forgotten_more_decides_the_same(seed: int) -> None:
    """One forgets as much as it may, just before; what comes out does not change."""
    outcomes = []
    for forget in (False, True):
        history = lived(seed, forget=False)
        members = some(history)
        for me in members:
            daemon = history.daemons[me]
            daemon.order.drain()
            if forget and me % 2 == 0:
                for stream in daemon.streams:
                    stream.forget(daemon.order.frontiers.least)
        ended = attempt(history, members, members)
        ended.finish()
        outcomes.append([sorted(leaver.daemon.given) for leaver in ended.leavers])
    assert outcomes[0] == outcomes[1]
