"""Work that takes virtual time: whatever honest programs do, no step is long, and no view ends."""

from collections.abc import Callable, Sequence
from itertools import cycle

import attrs
import pytest

from groupcomm.events import GroupView, Message
from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from tests.verification.simulation.role_breaks import steps_have_no_bound

MEMBERS, BURST = 40, 400
UNIT_US = 200
"""A slow machine: the burst takes 3 s of its members' daemon's processor."""

COMERS, CHANGES = 70, 40
"""More than 64 members: changes of their group are written together."""

RETURNING, SLOWER_US = 200, 800


def cluster_of_slow_machines(unit_us: int = UNIT_US) -> Cluster:
    """Return three daemons in one view."""
    cluster = Cluster(attrs.evolve(plain_settings(daemons=3, seed=1), unit_us=unit_us))
    cluster.run(1.0)
    return cluster


def views_of_a_burst() -> int:
    """Return the number of times that daemons leave a view while a burst reaches its members."""
    cluster = cluster_of_slow_machines()
    members = [cluster.connect(f"u{number}", 1) for number in range(MEMBERS)]
    sender = cluster.connect("sender", 0)
    cluster.run(0.5)
    for member in members:
        member.join("g")
        cluster.run(0.02)
    first = views(cluster)
    for number in range(BURST):
        sender.multicast(["g"], b"%d" % number, level=ServiceLevel.AGREED)
        sender.multicast(["h"], b"", level=ServiceLevel.AGREED)  # so that they share no bundle
    run_until(cluster, lambda: all(received(member) == BURST for member in members))
    assert [received(member) for member in members] == [BURST] * MEMBERS
    return views(cluster) - first


def views_of_a_churn() -> int:
    """Return the same while a member of a large group leaves it and joins it, again and again."""
    cluster = cluster_of_slow_machines()
    members = [cluster.connect(f"u{number}", 1) for number in range(COMERS)]
    cluster.run(2.0)
    for member in members:
        member.join("g")
    first = views(cluster)
    run_until(cluster, lambda: all(size_of_view(member) == COMERS for member in members))
    for _ in range(CHANGES):
        members[0].leave("g")
        members[0].join("g")
    cluster.run(6.0)
    assert [size_of_view(member) for member in members] == [COMERS] * COMERS
    return views(cluster) - first


def views_of_a_storm() -> int:
    """Return the same, but for the one view that is due, while all programs of a daemon that was
    killed connect to the others at once.
    """
    cluster = cluster_of_slow_machines(SLOWER_US)
    connect_all(cluster, [1])
    first = views(cluster, [0, 2])
    cluster.daemons[1].kill()
    connect_all(cluster, [0, 2])
    cluster.run(2.0)
    return views(cluster, [0, 2]) - first - 2


def connect_all(cluster: Cluster, daemons: Sequence[int]) -> None:
    """Connect many programs at once, and wait until each is a member of its group."""
    places = zip(range(RETURNING), cycle(daemons), strict=False)
    programs = [cluster.connect(f"u{number}", at) for number, at in places]
    run_until(cluster, lambda: all(program.connected for program in programs))
    for number, program in enumerate(programs):
        program.join(f"g{number % 20}")
    run_until(cluster, lambda: all(program.groups for program in programs))
    assert all(program.groups for program in programs)


def run_until(cluster: Cluster, done: Callable[[], bool]) -> None:
    """Run until something is done, or for 20 s."""
    for _ in range(100):
        if done():
            return
        cluster.run(0.2)


def views(cluster: Cluster, hosts: Sequence[int] = range(3)) -> int:
    """Return the number of times that daemons have left a view."""
    return sum(cluster.daemons[at].core.membership.reasons.total() for at in hosts)


def received(client: SimulatedClient) -> int:
    return sum(isinstance(event, Message) for event in client.events)


def size_of_view(client: SimulatedClient) -> int:
    """Return the number of members in the last view of a group."""
    found = [event for event in client.events if isinstance(event, GroupView)]
    return len(found[-1].members) if found else 0


LOADS = [views_of_a_burst, views_of_a_churn, views_of_a_storm]


@pytest.mark.parametrize("views_of", LOADS)
def test_no_load_ends_a_view(views_of: Callable[[], int]) -> None:
    assert views_of() == 0


@pytest.mark.verification
@pytest.mark.parametrize("views_of", LOADS)
def test_without_the_bounds_of_a_step_it_would(views_of: Callable[[], int]) -> None:
    with steps_have_no_bound.active():
        assert views_of() > 0
