"""Views that change, one cause at a time: the time until the next one, and the unchanged parts."""

import gc
import sys
from collections.abc import Callable, Iterable
from functools import partial
from itertools import permutations
from random import Random
from types import FunctionType, MethodType, ModuleType

import pytest

from groupcomm.config.core import Timing
from groupcomm.events import Cause, GroupView, Message
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.membership.states import MembershipState
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.network.links import USUAL_JITTER
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND
from groupcomm.trace.events import Conf, Left, TraceEvent

TIMEOUT_S = Timing().token_timeout_s
CRASH_BOUND_S = TIMEOUT_S + 0.1
LEAVE_BOUND_S = 0.05
FAR_LEAVE_BOUND_S = 1.0
"""50 ms away: the time until all there hold its packets, and the way of four messages."""

MERGE_BOUND_S = 1.5
LOOK_S = 0.0101
"""`Cluster.form` looks every 10 ms, so its result may be this much too long."""


class Watched:
    """A cluster, its trace, and one member of a group at each daemon."""

    def __init__(self, daemons: int, sites: int = 1, seed: int = 1, delay_s: float = 0.05) -> None:
        self.trace: list[TraceEvent] = []
        settings = plain_settings(daemons=daemons, sites=sites, seed=seed, delay_s=delay_s)
        self.cluster = Cluster(settings, self.trace.append)
        self.members = [self.cluster.connect(f"user{at}", at) for at in range(daemons)]
        self.cluster.run(0.5)
        for member in self.members:
            member.join("g")
        self.cluster.run(0.5)

    def views(self) -> int:
        """Return the number of installed regular views, each counted once."""
        confs = [event for event in self.trace if isinstance(event, Conf)]
        return len({conf.view for conf in confs if conf.kind == "R"})

    def others(self, daemon: int) -> list[int]:
        return [at for at in range(len(self.members)) if at != daemon]

    def load(self, every_s: float, burst: int, size: int) -> Callable[[], None]:
        """Have all members multicast bursts for ever; return a function that stops them."""
        going = [True]
        rng = Random(1)
        every_us = int(every_s * SECOND)

        def send(member: SimulatedClient, _: object = None) -> None:
            if going:
                for _ in range(burst):
                    if member.writable:
                        member.multicast(["g"], bytes(size), level=rng.choice(LEVELS))
                self.cluster.loop.at(self.cluster.loop.now + every_us, partial(send, member))

        for member in self.members:
            member.on_event = lambda event: None
            send(member)
        return going.clear


def between(*parts: Iterable[int]) -> list[tuple[int, int]]:
    """Return the paths between parts of a cluster, both ways."""
    side = {host: at for at, part in enumerate(parts) for host in part}
    return [(a, b) for a, b in permutations(side, 2) if side[a] != side[b]]


def test_twenty_crashes_and_a_new_view_at_the_survivors_in_time() -> None:
    delays: list[float] = []
    for seed in range(1, 5):
        cluster = Watched(5, seed=seed).cluster
        rng = Random(seed)
        for _ in range(5):
            cluster.run(rng.uniform(0.1, 0.5))
            victim = rng.randrange(5)
            cluster.daemons[victim].kill()
            delays.append(cluster.form([at for at in range(5) if at != victim]))
            cluster.daemons[victim].boot()
            cluster.form()
    assert len(delays) == 20
    assert sorted(delays)[18] <= CRASH_BOUND_S + LOOK_S


@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
)
def test_a_daemon_that_leaves_is_gone_at_once_and_nothing_of_it_is_lost(seed: int) -> None:
    watched = Watched(4, seed=seed)
    cluster, rng = watched.cluster, Random(seed)
    leaver, *others = rng.sample(watched.members, 4)
    for number in range(10):
        leaver.multicast(["g"], str(number).encode(), level=ServiceLevel.AGREED)
    cluster.run(0.0001)
    process = cluster.daemons[leaver.daemon].process
    assert process is not None
    process.leave()
    assert cluster.form(watched.others(leaver.daemon)) <= LEAVE_BOUND_S + LOOK_S
    cluster.run(0.1)
    for member in others:
        got = [event.data for event in member.events if isinstance(event, Message)]
        assert got == [str(number).encode() for number in range(10)]
    assert [event.p for event in watched.trace if isinstance(event, Left)] == [process.name]
    assert not leaver.alive


def test_a_daemon_leaves_while_its_fellow_goes_on_sending_to_another_site() -> None:
    """Packets of the other members are always in flight; the leaving daemon need not wait for
    them."""
    watched = Watched(4, sites=2)
    cluster = watched.cluster
    stop = watched.load(every_s=0.01, burst=1, size=100)
    cluster.run(0.5)
    process = cluster.daemons[0].process
    assert process is not None
    process.leave()
    assert cluster.form([1, 2, 3]) <= FAR_LEAVE_BOUND_S + LOOK_S
    stop()
    assert [event.p for event in watched.trace if isinstance(event, Left)] == [process.name]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "parts", [((0, 1), (2, 3, 4)), ((0,), (1, 2, 3, 4)), ((0, 4), (1, 3), (2,))]
)
def test_a_healed_partition_merges_when_idle(parts: tuple[tuple[int, ...], ...], seed: int) -> None:
    cluster = Watched(5, seed=seed).cluster
    cluster.network.cut(between(*parts))
    cluster.run(2.0)
    assert all(cluster.agree(part) for part in parts)
    cluster.network.mend(between(*parts))
    assert cluster.form() <= MERGE_BOUND_S


@pytest.mark.long
def test_a_healed_partition_merges_under_full_load() -> None:
    """A megabyte a second from each of five, at all levels; a merge waits for no idle moment."""
    watched = Watched(5)
    cluster = watched.cluster
    stop = watched.load(every_s=0.02, burst=20, size=1000)
    cluster.network.cut(between((0, 1), (2, 3, 4)))
    cluster.run(1.2)
    assert cluster.agree([0, 1])
    cluster.network.mend(between((0, 1), (2, 3, 4)))
    assert cluster.form() <= MERGE_BOUND_S
    stop()


def test_three_parts_of_nine_merge_at_once_under_load() -> None:
    watched = Watched(9)
    cluster = watched.cluster
    stop = watched.load(every_s=0.1, burst=3, size=300)
    parts = ((0, 3, 6), (1, 4, 7), (2, 5, 8))
    cluster.network.cut(between(*parts))
    cluster.run(2.0)
    assert all(cluster.agree(part) for part in parts)
    before = watched.views()
    cluster.network.mend(between(*parts))
    assert cluster.form() <= MERGE_BOUND_S
    stop()
    cluster.run(3.0)
    assert cluster.agree(range(9))
    assert watched.views() == before + 1, "one view, not two by two"


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("share", [pytest.param(0.3, marks=pytest.mark.long), 0.49])
def test_nobody_is_excluded_who_stalls_for_less_than_half_a_timeout(
    seed: int, share: float
) -> None:
    watched = Watched(5, seed=seed)
    cluster, before = watched.cluster, watched.views()
    stop = watched.load(every_s=0.05, burst=1, size=100)
    for victim in range(5):
        process = cluster.daemons[victim].process
        assert process is not None
        process.pause(cluster.loop.now + int(share * TIMEOUT_S * SECOND))
        cluster.run(2.0)
    stop()
    assert watched.views() == before


def test_two_that_never_hear_each_other_settle_with_one_that_hears_both() -> None:
    watched = Watched(3)
    cluster = watched.cluster
    cluster.network.cut([(0, 2), (2, 0)])
    cluster.run(5.0)
    before = watched.views()
    cluster.run(100 * TIMEOUT_S)
    assert watched.views() - before <= 3


def test_a_path_that_is_deaf_one_way_settles() -> None:
    watched = Watched(4)
    cluster = watched.cluster
    cluster.network.cut([(1, 3)])
    cluster.run(5.0)
    before = watched.views()
    cluster.run(100 * TIMEOUT_S)
    assert watched.views() - before <= 3


@pytest.mark.parametrize("victim", [0, 2, 4])
def test_over_slow_links_a_view_takes_four_ways_once_a_crash_is_noticed(victim: int) -> None:
    delay_s = 0.08
    watched = Watched(5, sites=2, delay_s=delay_s)
    cluster, survivors = watched.cluster, watched.others(victim)
    cluster.daemons[victim].kill()
    while all(cluster.daemons[at].core.state is MembershipState.OPERATIONAL for at in survivors):
        cluster.run(0.001)
    noticed = cluster.loop.now
    cluster.form(survivors)
    installed = [event.t for event in watched.trace if isinstance(event, Conf)][-4:]
    assert (max(installed) - noticed) / SECOND <= 4 * delay_s * (1 + USUAL_JITTER)


def test_sites_that_were_apart_merge() -> None:
    watched = Watched(6, sites=3, delay_s=0.08)
    cluster = watched.cluster
    parts = ((0, 1), (2, 3), (4, 5))
    cluster.network.cut(between(*parts))
    cluster.run(4.0)
    assert all(cluster.agree(part) for part in parts)
    cluster.network.mend(between(*parts))
    assert cluster.form() <= MERGE_BOUND_S


def size_of(root: object, stop: frozenset[int]) -> int:
    """Return the bytes of all objects that are reached from an object, except those that `stop`
    names and code."""
    seen, edge, size = {id(root), *stop}, [root], 0
    while edge:
        found = edge.pop()
        size += sys.getsizeof(found)
        for part in gc.get_referents(found):
            code = isinstance(part, type | ModuleType | FunctionType | MethodType)
            if not code and id(part) not in seen:
                seen.add(id(part))
                edge.append(part)
    return size


@pytest.mark.long
def test_memory_returns_to_its_level_after_thirty_view_changes() -> None:
    watched = Watched(4)
    cluster = watched.cluster

    def change(times: int) -> list[int]:
        stop = watched.load(every_s=0.1, burst=1, size=200)
        for _ in range(times):
            cluster.network.cut(between((0, 1), (2, 3)))
            cluster.form([0, 1])
            cluster.form([2, 3])
            cluster.network.mend(between((0, 1), (2, 3)))
            cluster.form()
        stop()
        cluster.run(3.0)
        processes = [host.process for host in cluster.daemons if host.process is not None]
        return [size_of(p.core, frozenset([id(p.probe)])) for p in processes]

    before = change(10)
    after = change(20)
    assert len(before) == 4
    assert all(late <= 1.1 * early for early, late in zip(before, after, strict=True))


def last_view(client: SimulatedClient, group: str) -> GroupView:
    """The last view of a group that a program has received."""
    *_, found = [e for e in client.events if isinstance(e, GroupView) and e.group == group]
    return found


def test_a_view_says_whether_its_group_is_as_it_was_and_who_came_from_where() -> None:
    cluster = Cluster(plain_settings(daemons=4))
    members = [cluster.connect(f"user{at}", at, origins=True) for at in range(4)]
    cluster.run(0.5)
    for at, member in enumerate(members):
        for group in ("all", "low" if at < 2 else "high"):
            member.join(group)
    cluster.run(0.5)
    cluster.network.cut(between((0, 1), (2, 3)))
    cluster.run(2.0)
    assert not any(last_view(member, "all").unchanged for member in members)
    cluster.network.mend(between((0, 1), (2, 3)))
    cluster.form()
    cluster.run(0.5)
    near = [last_view(members[0], "low").members, last_view(members[2], "high").members]
    for at, member in enumerate(members):
        whole = last_view(member, "all")
        assert (whole.cause, whole.unchanged) == (Cause.NETWORK, False)
        assert whole.vs_sets == (near[at // 2], near[1 - at // 2])
        own = last_view(member, "low" if at < 2 else "high")
        assert (own.cause, own.unchanged, own.vs_sets) == (Cause.NETWORK, True, (own.members,))
