"""Each fault that breaks views has its effect, and all of them end."""

from itertools import pairwise
from math import inf

import attrs
import pytest

from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.faults.faults import TOKEN_TIMEOUT_S, Faults
from groupcomm.sim.settings import Options, draw_settings, plain_settings
from groupcomm.sim.virtual_time import EPOCH_S, SECOND
from groupcomm.trace.events import Boot, Conf, Fail, Left, TraceEvent

pytestmark = pytest.mark.verification

LOOK_S = 0.02


class Suffering:
    """A cluster of five with these faults and without programs, and the observed effects."""

    def __init__(self, faults: Faults, seed: int = 1) -> None:
        self.trace: list[TraceEvent] = []
        settings = plain_settings(daemons=5, seed=seed, faults=faults)
        self.cluster = Cluster(attrs.evolve(settings, calm_s=3.0), self.trace.append)
        self.losses: set[float] = set()
        self.cut: set[frozenset[tuple[int, int]]] = set()
        self.paused: set[int] = set()
        self.clones = 0

    def run(self, seconds: float) -> "Suffering":
        """Note the effects of faults again and again."""
        for _ in range(int(seconds / LOOK_S)):
            self.cluster.run(LOOK_S)
            paths = self.cluster.network.paths
            self.losses.update(path.loss for path in paths.values())
            self.cut.add(frozenset(pair for pair, path in paths.items() if path.loss == 1.0))
            for host in self.cluster.daemons:
                if host.process is not None and host.process.paused:
                    self.paused.add(host.index)
                self.clones += host.clone is not None
        return self

    def count(self, kind: type[TraceEvent]) -> int:
        return sum(isinstance(event, kind) for event in self.trace)


def test_crashed_daemons_start_again() -> None:
    seen = Suffering(Faults(crash_s=1.0)).run(20.0)
    assert seen.count(Fail) >= 5
    assert seen.count(Boot) >= seen.count(Fail)
    assert seen.count(Left) == 0
    names = [event.p for event in seen.trace if isinstance(event, Boot)]
    assert len(set(names)) == len(names)


@pytest.mark.long
def test_daemons_die_at_many_kinds_of_moments() -> None:
    last: dict[str, TraceEvent] = {}
    moments: set[str] = set()
    wanted = {"later", "T", "R", "Table"}
    for seed in range(1, 41):
        if wanted <= moments:
            break
        for event in Suffering(Faults(crash_s=0.1), seed).run(8.0).trace:
            process = getattr(event, "p", "")
            if isinstance(event, Fail) and process in last:
                before = last[process]
                at_once = before.t == event.t
                kind = before.kind if isinstance(before, Conf) else type(before).__name__
                moments.add(kind if at_once else "later")
            last[process] = event
    assert wanted <= moments


def test_partitions_come_in_many_shapes_and_go() -> None:
    seen = Suffering(Faults(partition_s=3.0)).run(40.0)
    assert len(seen.cut) >= 8
    assert frozenset() in seen.cut
    assert seen.count(Fail) == 0
    assert seen.count(Conf) > 20


def test_one_direction_of_one_pair_loses_most() -> None:
    seen = Suffering(Faults(directed_loss=0.8)).run(10.0)
    assert seen.losses == {0.0, 0.8}


@pytest.mark.parametrize("timeouts", [0.1, pytest.param(1.0, marks=pytest.mark.long), 3.0])
def test_flapping_paths_come_and_go_with_their_period(timeouts: float) -> None:
    seen = Suffering(Faults(flap_s=timeouts * TOKEN_TIMEOUT_S))
    path = seen.cluster.network.paths
    changes: list[int] = []
    before = 0.0
    for _ in range(int(20.0 / 0.001)):
        seen.cluster.run(0.001)
        now = max(path.loss for path in path.values())
        if now != before:
            changes.append(seen.cluster.loop.now)
        before = now
    assert len(changes) >= 10
    gaps = [later - earlier for earlier, later in pairwise(changes)]
    half = timeouts * TOKEN_TIMEOUT_S / 2 * SECOND
    assert sum(abs(gap - half) <= 2000 for gap in gaps) >= len(gaps) // 3


def test_daemons_stand_still_and_go_on() -> None:
    seen = Suffering(Faults(pause_s=10 * TOKEN_TIMEOUT_S)).run(40.0)
    assert len(seen.paused) >= 3
    assert seen.count(Fail) == seen.count(Left) == 0


def test_daemons_leave_in_order_and_start_again() -> None:
    seen = Suffering(Faults(leave=True)).run(30.0)
    assert seen.count(Left) >= 5
    assert seen.count(Boot) - 5 in (seen.count(Left), seen.count(Left) - 1)
    assert seen.count(Fail) == 0


@pytest.mark.long
def test_disks_are_lost_and_rolled_back_and_seldom_cloned() -> None:
    restarts: dict[str, int] = {}
    lost = back = clones = 0
    for seed in range(1, 13):
        if min(lost, back) >= 3 and clones:
            break
        seen = Suffering(Faults(disk=True), seed).run(10.0)
        clones += seen.clones
        restarts.clear()
        for event in seen.trace:
            if isinstance(event, Boot):
                name, count = event.p.split("/")[0], int(event.incarnation.split(".")[0])
                lost += count == 1 and name in restarts
                back += 1 < count <= restarts.get(name, 0)
                restarts[name] = max(count, restarts.get(name, 0))
    assert lost >= 3
    assert back >= 3
    assert clones > 0


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_all_faults_end_at_once_and_nobody_is_harmed_any_more(seed: int) -> None:
    faults = Faults(
        partition_s=5.0,
        directed_loss=1.0,
        flap_s=0.5,
        crash_s=8.0,
        pause_s=12.0,
        disk=True,
        leave=True,
        jam_s=5.0,
    )
    seen = Suffering(faults, seed).run(20.0)
    cluster = seen.cluster
    cluster.end_faults()
    healed = len(seen.trace)
    assert all(path.loss == 0.0 for path in cluster.network.paths.values())
    cluster.run(3.0)
    assert cluster.agree(range(5))
    assert not any(host.process is None or host.process.paused for host in cluster.daemons)
    cluster.run(8.0)
    after = seen.trace[healed:]
    assert not [event for event in after if isinstance(event, Fail | Left | Boot)]
    changes = [event.t for event in after if isinstance(event, Conf)]
    assert max(changes, default=0) < cluster.loop.now - 5 * SECOND


def test_a_single_daemon_suffers_only_what_one_can_suffer() -> None:
    faults = Faults(partition_s=1.0, directed_loss=1.0, flap_s=0.5, pause_s=1.0, leave=True)
    cluster = Cluster(plain_settings(daemons=1, faults=faults))
    cluster.run(8.0)
    cluster.end_faults()
    cluster.run(1.0)
    assert cluster.agree([0])


def test_a_card_loses_long_datagrams_and_is_well_again() -> None:
    seen = Suffering(Faults(card_bytes=300))
    narrow: set[frozenset[tuple[int, int]]] = set()
    paths = seen.cluster.network.paths
    for _ in range(400):
        seen.run(0.1)
        narrow.add(frozenset(pair for pair, path in paths.items() if path.largest_bytes == 300))
    assert frozenset() in narrow
    assert {1, 4} <= {len(pairs) for pairs in narrow}, "one path, and all of one direction"
    seen.cluster.end_faults()
    assert all(path.largest_bytes == inf for path in paths.values())


def test_a_clock_stands_still_and_is_right_again() -> None:
    seen = Suffering(Faults(frozen_s=5.0))
    clocks = [host.clock for host in seen.cluster.daemons]
    late: set[int] = set()
    for _ in range(200):
        seen.run(0.1)
        now = seen.cluster.loop.now
        right = EPOCH_S + now / SECOND
        late.update(at for at, clock in enumerate(clocks) if clock.wall(now) < right - 0.5)
    assert late
    seen.cluster.end_faults()
    now = seen.cluster.loop.now
    assert all(abs(clock.wall(now) - EPOCH_S - now / SECOND) < 0.01 for clock in clocks)


def test_faults_of_hosts_are_drawn_only_where_they_are_asked_for() -> None:
    drawn = [draw_settings(seed, Options(faults="all")).faults for seed in range(1, 30)]
    assert not any(faults.card_bytes or faults.frozen_s for faults in drawn)
    every = [draw_settings(seed, Options(faults="every")).faults for seed in range(1, 30)]
    assert 5 < sum(bool(faults.card_bytes) for faults in every) < 25
    assert [
        attrs.evolve(faults, card_bytes=0, frozen_s=0.0, vanish_s=0.0) for faults in every
    ] == drawn
    assert draw_settings(1, Options(faults="card")).faults.card_bytes >= 100


@pytest.mark.long
def test_a_daemon_that_stands_still_for_an_hour_comes_back() -> None:
    seen = Suffering(Faults())
    cluster = seen.cluster
    cluster.run(5.0)
    paused = cluster.daemons[0].process
    assert paused is not None
    paused.pause(cluster.loop.now + 3600 * SECOND)
    cluster.run(3599.0)
    assert {host.completed for host in cluster.daemons[1:]} != {cluster.daemons[0].completed}
    cluster.run(5.0)
    assert len({host.completed for host in cluster.daemons}) == 1
    assert seen.count(Fail) == 0
