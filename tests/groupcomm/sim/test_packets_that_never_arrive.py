"""A network card that loses long datagrams for good, and passes tokens: nobody is silent.

Tokens, beacons and joins have less than 300 bytes here, the packets that are lost have more.
"""

from collections.abc import Callable

import pytest

from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm.membership.states import GatherReason
from groupcomm.ring import token_handling
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.network.links import SimulatedLink
from groupcomm.sim.settings import plain_settings
from tests.verification.mutants.catalogue import find_mutant

LIMIT_BYTES = 300
PAYLOAD = bytes(600)
RELEASED_WITHIN_S = 3.0
"""Three token timeouts, and the view that follows."""

Path = Callable[[int, int], bool]


def members_of(cluster: Cluster, wait_s: float = 0.5) -> list[SimulatedClient]:
    clients = [cluster.connect(f"user{daemon}", daemon) for daemon in range(len(cluster.daemons))]
    cluster.run(wait_s)
    for client in clients:
        client.join("g")
    cluster.run(wait_s - 0.2)
    return clients


def spoil(cluster: Cluster, concerned: Path) -> None:
    """Have the paths from one daemon to another that are concerned lose long datagrams."""
    pairs = [pair for pair in cluster.network.paths if concerned(*pair)]
    cluster.network.narrow(pairs, LIMIT_BYTES)


def got(client: SimulatedClient) -> set[bytes]:
    """Return the payloads that a program has received."""
    return {event.data for event in client.events if isinstance(event, Message)}


def reasons(cluster: Cluster) -> int:
    """Return how often a daemon has left out another one, as its packets did not arrive."""
    machines = [host.core.membership for host in cluster.daemons]
    return sum(machine.reasons[GatherReason.NOT_RECEIVED] for machine in machines)


def sizes(cluster: Cluster) -> set[int]:
    """Return the numbers of daemons in the views that there are."""
    views = [host.core.view for host in cluster.daemons]
    return {len(view.daemons) for view in views if view is not None}


def from_the_first(source: int, _: int) -> bool:
    return source == 0


def to_the_first(_: int, target: int) -> bool:
    return target == 0


@pytest.mark.parametrize(
    "concerned", [from_the_first, pytest.param(to_the_first, marks=pytest.mark.long)]
)
def test_packets_that_never_arrive_hold_up_nobody_for_long(concerned: Path) -> None:
    cluster = Cluster(plain_settings(daemons=3, seed=1))
    first, *others = members_of(cluster)
    spoil(cluster, concerned)
    for client in (first, *others):
        client.multicast(["g"], PAYLOAD, level=ServiceLevel.AGREED)
    cluster.run(0.1)
    for number, client in enumerate((first, *others)):
        client.multicast(["g"], b"%d" % number, level=ServiceLevel.SAFE)
    cluster.run(RELEASED_WITHIN_S)
    assert [{b"1", b"2", PAYLOAD} <= got(client) for client in others] == [True, True]
    assert {b"0", PAYLOAD} <= got(first), "it goes on alone"


@pytest.mark.verification
def test_without_the_rule_nobody_gets_anything() -> None:
    """The test above finds the mutant of which the faults of no seed last long enough."""
    wrong = find_mutant("unreceived-member-stays")
    with wrong.active():
        cluster = Cluster(plain_settings(daemons=3, seed=1))
        first, *others = members_of(cluster)
        spoil(cluster, from_the_first)
        first.multicast(["g"], PAYLOAD, level=ServiceLevel.AGREED)
        cluster.run(0.1)
        others[0].multicast(["g"], b"1", level=ServiceLevel.AGREED)
        cluster.run(RELEASED_WITHIN_S)
        assert got(others[0]) == set()


def test_one_path_costs_no_view_as_others_answer_too() -> None:
    """The daemon at the far end of that path is the one that answers first."""
    cluster = Cluster(plain_settings(daemons=3, seed=1))
    clients = members_of(cluster)
    spoil(cluster, lambda source, target: (source, target) == (2, 1))
    clients[2].multicast(["g"], PAYLOAD, level=ServiceLevel.AGREED)
    cluster.run(0.5)
    assert [got(client) for client in clients] == [{PAYLOAD}] * 3
    assert reasons(cluster) == 0


@pytest.mark.verification
def test_if_the_first_to_answer_never_leaves_it_to_others_that_path_costs_a_view(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(token_handling, "IN_VAIN", 10**9)
    cluster = Cluster(plain_settings(daemons=3, seed=1))
    clients = members_of(cluster)
    spoil(cluster, lambda source, target: (source, target) == (2, 1))
    clients[2].multicast(["g"], PAYLOAD, level=ServiceLevel.AGREED)
    cluster.run(0.5)
    assert got(clients[1]) == set()
    cluster.run(RELEASED_WITHIN_S)
    assert reasons(cluster) == 1


def test_both_come_together_once_the_card_passes_everything() -> None:
    cluster = Cluster(plain_settings(daemons=3, seed=1))
    first, *others = members_of(cluster)
    spoil(cluster, from_the_first)
    first.multicast(["g"], PAYLOAD, level=ServiceLevel.AGREED)
    cluster.run(2.0)
    assert reasons(cluster) >= 1
    assert sizes(cluster) == {1, 2}
    cluster.network.narrow(list(cluster.network.paths), float("inf"))
    cluster.run(2.0)
    assert sizes(cluster) == {3}
    first.multicast(["g"], b"again" + PAYLOAD, level=ServiceLevel.SAFE)
    cluster.run(0.2)
    assert [b"again" + PAYLOAD in got(client) for client in others] == [True, True]


# ---- between sites ----


def load(cluster: Cluster, clients: list[SimulatedClient]) -> None:
    """Each program sends a long message, and then a short one."""
    for client in clients:
        client.multicast(["g"], PAYLOAD, level=ServiceLevel.AGREED)
    cluster.run(0.1)
    for number, client in enumerate(clients):
        client.multicast(["g"], b"%d" % number, level=ServiceLevel.SAFE)


def test_a_link_that_loses_long_packets_is_routed_around() -> None:
    """Three sites with a link between any two: the view stays."""
    cluster = Cluster(plain_settings(daemons=(1, 1, 1), delay_s=0.01))
    clients = members_of(cluster)
    spoil(cluster, lambda *pair: sorted(pair) == [0, 1])
    load(cluster, clients)
    cluster.run(RELEASED_WITHIN_S)
    everything = {PAYLOAD, b"0", b"1", b"2"}
    assert [got(client) for client in clients] == [everything] * 3
    assert reasons(cluster) == 0


@pytest.mark.parametrize(
    "concerned",
    [
        pytest.param(lambda a, b: 0 in (a, b), marks=pytest.mark.long),
        lambda a, b: (a, b) == (0, 2),
    ],
)
def test_a_daemon_that_packets_of_other_sites_do_not_reach_holds_up_nobody_for_long(
    concerned: Path,
) -> None:
    """Its site has another daemon, over which the next view joins both sites.

    Packets of the old view reach it by others, although it hears their sender.
    """
    cluster = Cluster(plain_settings(daemons=(2, 2), delay_s=0.01))
    clients = members_of(cluster)
    spoil(cluster, concerned)
    load(cluster, clients)
    cluster.run(2 * RELEASED_WITHIN_S)
    assert reasons(cluster) >= 1
    assert [{b"1", b"2", b"3"} <= got(client) for client in clients[1:]] == [True] * 3


@pytest.mark.verification
def test_without_the_rule_of_links_nobody_gets_anything() -> None:
    with find_mutant("unreached-daemon-stays").active():
        cluster = Cluster(plain_settings(daemons=(1, 1, 1), delay_s=0.01))
        clients = members_of(cluster)
        spoil(cluster, lambda *pair: sorted(pair) == [0, 1])
        load(cluster, clients)
        cluster.run(1.5 * RELEASED_WITHIN_S)
        assert not {b"0", b"1", b"2"} & (got(clients[0]) | got(clients[1]))


def test_two_sites_go_on_apart_and_meet_once_the_card_passes_everything() -> None:
    cluster = Cluster(plain_settings(daemons=(1, 1), delay_s=0.01))
    clients = members_of(cluster)
    spoil(cluster, lambda source, _: source == 0)
    clients[0].multicast(["g"], PAYLOAD, level=ServiceLevel.AGREED)
    cluster.run(RELEASED_WITHIN_S)
    assert reasons(cluster) >= 1
    assert PAYLOAD in got(clients[0])
    cluster.network.narrow(list(cluster.network.paths), float("inf"))
    cluster.run(5.0)
    assert sizes(cluster) == {2}
    clients[0].multicast(["g"], b"again" + PAYLOAD, level=ServiceLevel.SAFE)
    cluster.run(0.5)
    assert [b"again" + PAYLOAD in got(client) for client in clients] == [True, True]


def test_a_link_that_loses_and_delays_much_is_left_in_peace() -> None:
    links = [SimulatedLink(sites=(0, 1), delay_s=0.5, loss=0.3)]
    cluster = Cluster(plain_settings(daemons=(1, 1), links=links))
    clients = members_of(cluster, 6.0)
    for number in range(40):
        for client in clients:
            client.multicast(["g"], b"%d" % number + PAYLOAD, level=ServiceLevel.AGREED)
        cluster.run(0.25)
    cluster.run(8.0)
    assert reasons(cluster) == 0
    assert [len(got(client)) for client in clients] == [40, 40]
