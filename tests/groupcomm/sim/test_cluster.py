"""Clusters in the simulator: the events of programs, with and without faults."""

import attrs
import msgspec
import pytest

from groupcomm.events import Closed, GroupView, Message, Ordered, Undeliverable
from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.faults.faults import FAULT_NAMES, Faults
from groupcomm.sim.settings import Options, plain_settings
from groupcomm.trace.events import Rejects, TraceEvent
from tests.verification.simulation.runs import run_seed

LARGE = 30_000
LOSSY = Faults(loss=0.3, reorder_packets=20)


def members(cluster: Cluster, count: int, group: str = "g") -> list[SimulatedClient]:
    """Connect programs, spread over the daemons, and have them join a group."""
    clients = [
        cluster.connect(f"user{number}", number % len(cluster.daemons)) for number in range(count)
    ]
    while not all(client.connected for client in clients):
        cluster.run(0.1)
    for client in clients:
        client.join(group)
    while not all(any(isinstance(e, GroupView) for e in client.events) for client in clients):
        cluster.run(0.1)
    return clients


def messages(client: SimulatedClient) -> list[bytes]:
    return [event.data for event in client.events if isinstance(event, Message)]


@pytest.mark.parametrize(
    ("sites", "faults"),
    [
        (1, Faults()),
        *(pytest.param(sites, Faults(), marks=pytest.mark.long) for sites in (2, 3)),
        *(pytest.param(sites, LOSSY, marks=pytest.mark.long) for sites in (1, 2)),
        (3, LOSSY),
    ],
)
def test_all_members_receive_one_sequence_of_agreed_messages(sites: int, faults: Faults) -> None:
    cluster = Cluster(plain_settings(daemons=5, sites=sites, seed=3, faults=faults))
    clients = members(cluster, 6)
    for turn in range(5):
        for client in clients:
            client.multicast(["g"], f"{turn} {client.user}".encode(), level=ServiceLevel.SAFE)
        cluster.run(0.01)
    cluster.end_faults()
    cluster.settle()
    sequences = [messages(client) for client in clients]
    assert len(sequences[0]) == 30
    assert all(sequence == sequences[0] for sequence in sequences)


def test_a_client_that_crashes_disappears_from_its_groups() -> None:
    cluster = Cluster(plain_settings(daemons=2))
    first, second = members(cluster, 2)
    second.set_reading(False)
    first.multicast(["g"], b"never read")
    cluster.run(0.1)
    second.crash()
    cluster.run(0.1)
    assert messages(second) == []
    view = first.events[-1]
    assert isinstance(view, GroupView)
    assert [member.name for member in view.members] == [first.name]
    assert [str(member) for member in view.changed] == [second.identity]


def test_a_client_that_does_not_read_is_closed_and_the_others_go_on() -> None:
    settings = plain_settings(daemons=2)
    cluster = Cluster(attrs.evolve(settings, session_cap_bytes=200_000))
    first, second = members(cluster, 2)
    second.set_reading(False)
    for _ in range(20):
        first.multicast(["g"], bytes(LARGE))
        cluster.run(0.1)
    second.set_reading(True)
    cluster.run(0.5)
    closed = second.events[-1]
    assert isinstance(closed, Closed)
    assert "slow" in closed.reason
    assert not second.alive
    assert len(messages(first)) == 20


def test_private_messages_arrive_or_come_back() -> None:
    cluster = Cluster(plain_settings(daemons=2))
    first, second = members(cluster, 2)
    first.multicast([second.name], b"psst")
    lost = first.multicast(["#nobody#alfa"], b"psst")
    cluster.run(0.5)
    assert messages(second) == [b"psst"]
    bounces = [event for event in first.events if isinstance(event, Undeliverable)]
    assert [(bounce.number, bounce.target) for bounce in bounces] == [(lost, "#nobody#alfa")]


def test_ordered_is_reported_to_the_sender_although_it_is_no_member() -> None:
    cluster = Cluster(plain_settings(daemons=3, sites=3))
    members(cluster, 3)
    outsider = cluster.connect("outsider", 1)
    cluster.run(0.5)
    number = outsider.multicast(["g"], b"for the record", ordered=True)
    cluster.run(0.5)
    ordered = [event for event in outsider.events if isinstance(event, Ordered)]
    assert [event.number for event in ordered] == [number]


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.long) for s in (2, 3))])
def test_every_forged_datagram_is_rejected_and_counted(seed: int) -> None:
    lines: list[bytes] = []
    options = Options(faults="attacker,corruption,duplication", duration_s=5.0)
    assert run_seed(seed, options, lines.append).findings == ()
    rejects = [
        event
        for line in b"".join(lines).splitlines()
        if isinstance(event := msgspec.json.decode(line, type=TraceEvent), Rejects)
    ]
    assert sum(event.injected for event in rejects) > 20
    assert all(event.bad == event.injected for event in rejects)


@pytest.mark.parametrize("fault", FAULT_NAMES)
def test_each_fault_alone_does_no_harm(fault: str) -> None:
    result = run_seed(11, Options(faults=fault, duration_s=1.0))
    assert result.findings == ()
    assert result.deliveries > 50
