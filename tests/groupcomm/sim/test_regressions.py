"""Runs that once went wrong, each directed at its cause: seeds drift, causes do not."""

import itertools

import attrs
import pytest

from groupcomm.config.core import CounterStarts
from groupcomm.engine import StoreKeys
from groupcomm.level import ServiceLevel
from groupcomm.membership.gather import MOST_FAILURES
from groupcomm.membership.membership import Membership
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.security import opening
from groupcomm.security.keys import KEY_BYTES, KeyRing
from groupcomm.security.layout import HEAD_BYTES
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.faults.paths import PathFaults
from groupcomm.sim.network.links import SimulatedLink
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND, random_for
from groupcomm.trace.events import Conf, Heal, TraceEvent
from groupcomm.wire.packet import PacketKind
from tests.groupcomm.sim.checked_cluster import CheckedCluster


def members_of(cluster: Cluster, *daemons: int) -> list[SimulatedClient]:
    clients = [cluster.connect(f"user{daemon}", daemon) for daemon in daemons]
    cluster.run(1.0)
    for client in clients:
        client.join("g")
    cluster.run(1.0)
    return clients


def test_a_name_that_another_program_has_is_refused_and_that_is_no_hang() -> None:
    """So a program that has crashed and comes back meets itself, if its daemon has no view yet."""
    checked = CheckedCluster(plain_settings(daemons=2))
    checked.cluster.connect("anna", 0)
    checked.cluster.run(0.5)
    again = checked.cluster.connect("anna", 0)
    checked.cluster.run(0.5)
    assert again.closed
    checked.finish()


def got(clients: list[SimulatedClient]) -> list[int]:
    return [sum(type(event).__name__ == "Message" for event in one.events) for one in clients]


@pytest.mark.parametrize(
    ("daemons", "phase"),
    [
        pytest.param(n, phase, marks=[pytest.mark.long] * ((n, phase) not in ((3, 0), (6, 10))))
        for phase in (0, 10, 20, 30)
        for n in (3, 6)
    ],
)
def test_a_silent_ring_is_asked_for_the_notice_that_was_lost(phase: int, daemons: int) -> None:
    """Ring 0 has forgotten all and says no more; its last notices were lost on their way."""
    cluster = Cluster(plain_settings(daemons=daemons, sites=3, seed=phase + 1))
    clients = members_of(cluster, *range(daemons))
    clients[1].multicast(["g"], b"x", level=ServiceLevel.SAFE)
    cluster.run(0.01 * (phase + 1))
    ring = cluster.view.rings[0]
    cut = [
        path
        for (near, far), path in cluster.network.paths.items()
        if near in ring and far not in ring
    ]
    for path in cut:
        path.faults = PathFaults(
            cluster.loop, random_for(phase, "cut"), Faults(loss=1.0), path.transfer
        )
    cluster.run(5.0)
    for path in cut:
        path.faults = None
    cluster.run(3.0)
    assert got(clients) == [1] * daemons


class WithoutNotices(PathFaults):
    """Horizon notices are lost, all else arrives; datagrams must not be encrypted."""

    def send(self, datagram: bytes) -> bool:
        return datagram[HEAD_BYTES] != PacketKind.HORIZON and super().send(datagram)


def test_a_daemon_that_missed_a_notice_asks_though_its_ring_has_settled() -> None:
    """Other members have forgotten all; only it never heard that ring 1 can deliver, too."""
    cluster = Cluster(plain_settings(daemons=4, sites=2))
    clients = members_of(cluster, 0, 1, 2, 3)
    path = cluster.network.paths[0, 1]
    path.faults = WithoutNotices(cluster.loop, random_for(1, "cut"), Faults(), path.transfer)
    clients[3].multicast(["g"], b"x", level=ServiceLevel.SAFE)
    cluster.run(6.0)
    path.faults = None
    cluster.run(1.0)
    assert got(clients) == [1] * 4


def two_rings_in_one_site() -> Cluster:
    """Six daemons whose clock is ahead of physical time, so that it goes by ticks."""
    ahead = CounterStarts(clock=2**62)
    cluster = Cluster(attrs.evolve(plain_settings(daemons=6), starts=ahead))
    for near, far in itertools.product((0, 1, 2), (3, 4, 5)):
        if (near, far) != (2, 3):
            cluster.network.cut([(near, far), (far, near)])
    cluster.run(2.0)
    view = cluster.daemons[2].core.view
    assert view is not None
    assert view.rings == ((0, 1, 2), (3, 4, 5))
    return cluster


def test_an_overdue_round_of_the_token_is_not_taken_for_a_pause() -> None:
    """A holder that promises more lets its own frontier rise, and the round that was to collect it
    was due long before: a deadline in the past.
    """
    cluster = two_rings_in_one_site()
    clients = members_of(cluster, *range(6))
    for _ in range(5):
        clients[5].multicast(["g"], b"x", level=ServiceLevel.AGREED)
        cluster.run(0.5)
    paused = [host.core.membership.reasons[GatherReason.PAUSED] for host in cluster.daemons]
    assert paused == [0] * 6
    assert got(clients) == [5] * 6


def test_a_notice_that_was_lost_in_one_ring_only_is_passed_on_again() -> None:
    """A daemon that passes notices on accepts each once; so a repeated one has to have news."""
    cluster = two_rings_in_one_site()
    clients = members_of(cluster, *range(6))
    paths = [cluster.network.paths[fellow, 0] for fellow in (1, 2)]
    for path in paths:
        path.faults = WithoutNotices(cluster.loop, random_for(1, "cut"), Faults(), path.transfer)
    clients[1].multicast(["g"], b"x", level=ServiceLevel.AGREED)
    cluster.run(0.2)
    for path in paths:
        path.faults = None
    cluster.run(2.0)
    assert got(clients) == [1] * 6


def begin_attempts_with_all(cluster: Cluster) -> list[Membership]:
    """Return memberships of the first two daemons that agreed with the third, which was away."""
    cluster.run(1.0)
    pairs = [(0, 2), (2, 0), (1, 2), (2, 1)]
    cluster.network.cut(pairs)
    cluster.run(3.0)
    cluster.network.mend(pairs)
    memberships = [host.core.membership for host in cluster.daemons[:2]]
    while any(membership.coming is None for membership in memberships):
        cluster.run(0.001)
    return memberships


@pytest.mark.parametrize("core", [(0, 1), (0, 1, 2)], ids=["one is outside", "nobody is outside"])
def test_all_is_well_only_once_attempts_begun_before_are_over(core: tuple[int, ...]) -> None:
    """Simulator seed 3209: one with a daemon outside outlasted the second granted after Heal."""
    events: list[TraceEvent] = []
    cluster = Cluster(plain_settings(daemons=3, sites=3), events.append)
    memberships = begin_attempts_with_all(cluster)
    begun = [membership.gathered_at for membership in memberships]
    cluster.heal(core)
    for membership, at in zip(memberships, begun, strict=True):
        assert membership.state is MembershipState.OPERATIONAL or membership.gathered_at > at
    (heal,) = [event for event in events if isinstance(event, Heal)]
    cluster.run(0.99)
    cluster.settle()
    late = [e for e in events if isinstance(e, Conf) and e.t >= heal.t + SECOND]
    assert [event.p for event in late if event.p in heal.core] == []


def test_an_attempt_after_many_failures_over_long_ways_is_waited_for() -> None:
    """Simulator seed 3101670, three sites: it outlasted the two seconds granted after Heal."""
    cluster = Cluster(plain_settings(daemons=3, sites=3, delay_s=0.2))
    memberships = begin_attempts_with_all(cluster)
    begun = [membership.gathered_at for membership in memberships]
    for membership in memberships:
        membership._backoff.failures = MOST_FAILURES
    cluster.heal([0, 1])
    for membership, at in zip(memberships, begun, strict=True):
        assert membership.state is MembershipState.OPERATIONAL or membership.gathered_at > at


def test_all_is_well_only_once_what_faults_have_delayed_has_come() -> None:
    """Simulator seed 720023, three sites: a token that was sent before Heal came after it, so late
    that it counted as lost, and the view that followed counted as a fault of the core.
    """
    events: list[TraceEvent] = []
    cluster = Cluster(plain_settings(daemons=3), events.append)
    members_of(cluster, 0, 1, 2)
    for target in (1, 2):  # all datagrams of daemon 0 from now on follow this one
        arrival = cluster.network.paths[0, target].transfer(b"late", 7 * SECOND // 10, False)
    cluster.heal((0, 1, 2))
    (heal,) = [event for event in events if isinstance(event, Heal)]
    assert heal.t >= arrival
    assert [e for e in events if isinstance(e, Conf) and e.t > heal.t - SECOND]
    cluster.run(0.2)
    cluster.settle()
    assert [e for e in events if isinstance(e, Conf) and e.t > heal.t + SECOND // 5] == []


def test_a_view_that_stands_still_is_no_agreement() -> None:
    """Simulator seed 8631: the last message came while the core looked for its next view."""
    cluster = Cluster(plain_settings(daemons=3))
    cluster.run(1.0)
    assert cluster.agree(range(3))
    host = cluster.daemons[1]
    host.core.membership.gather(GatherReason.PATH_LOST, host.clock.monotonic(cluster.loop.now))
    assert not cluster.agree(range(3))
    cluster.run(1.0)
    assert cluster.agree(range(3))


def test_what_a_new_start_has_no_time_for_was_not_forged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulator seed 720169, three sites: thousands of jammed datagrams came at once after a start,
    from daemons that it did not know yet, and were counted as forged.
    """
    monkeypatch.setattr(opening, "DERIVED_PER_S", 2)
    cluster = Cluster(attrs.evolve(plain_settings(daemons=3), suite=1))
    cluster.daemons[1].kill()
    cluster.daemons[1].boot()
    cluster.run(2.0)
    process = cluster.daemons[1].process
    assert process is not None
    assert process.core.counters.rejected["busy"] > 0
    assert process.bad() == 0


@pytest.mark.parametrize("delay_s", [0.074, 0.0784, 0.083])
def test_two_sites_whose_quick_way_has_gone_find_each_other_on_the_slow_one(delay_s: float) -> None:
    """Simulator seed 950085, three sites: timeouts follow the quickest way, which led over the
    third site. Each of two sites gave its agreement up for ever, as the other had begun a new
    attempt.
    """
    links = (
        SimulatedLink(sites=(0, 1), delay_s=delay_s),
        SimulatedLink(sites=(0, 2), delay_s=0.0093),
        SimulatedLink(sites=(1, 2), delay_s=0.0052),
    )
    cluster = Cluster(plain_settings(daemons=(2, 1, 1), links=links))
    cluster.run(1.0)
    cluster.daemons[3].kill()
    assert cluster.form([0, 1, 2]) < 3.0


@pytest.mark.parametrize("seed", range(8))
def test_what_a_dead_daemon_was_writing_changes_no_key_file_later(seed: int) -> None:
    """Simulator seed 1, suite 2, an evicted daemon: the file was changed after the next start had
    read it, so the new daemon counted as one that knew of the eviction.
    """
    cluster = Cluster(attrs.evolve(plain_settings(daemons=3), suite=1, seed=seed))
    host = cluster.daemons[1]
    assert host.process is not None
    assert host.keys is not None
    old, new = host.keys, KeyRing({**host.keys.keys, 2: bytes(KEY_BYTES)}, 1)
    host.process.key_files.store(StoreKeys(new), lambda _: pytest.fail("it was told of the change"))
    host.kill()
    kept = host.keys
    assert kept in (old, new)
    cluster.run(1.0)
    assert host.keys == kept
