"""Links between sites in whole clusters: losses are repaired, and packets find a way around."""

from collections.abc import Sequence

import pytest

from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.network.links import SimulatedLink
from groupcomm.sim.settings import plain_settings
from tests.groupcomm.sim.checked_cluster import CheckedCluster, with_few_notices

DELAY_S = 0.02


def texts(client: SimulatedClient) -> list[str]:
    return [event.data.decode() for event in client.events if isinstance(event, Message)]


class Sites:
    """Two daemons in each of three sites, and a member at each."""

    def __init__(self, links: Sequence[SimulatedLink] | None = None) -> None:
        settings = plain_settings(daemons=6, sites=3, delay_s=DELAY_S, links=links)
        self.checked = CheckedCluster(with_few_notices(settings))
        self.cluster = self.checked.cluster
        self.members = self.checked.connect(6)
        self.checked.join("g", self.members)
        self.sent: list[str] = []

    @property
    def views(self) -> int:
        """Return the number of views that some daemon has left so far."""
        return sum(host.core.membership.reasons.total() for host in self.cluster.daemons)

    def cut(self, one: int, other: int) -> None:
        """Nothing passes between two hosts any more."""
        self.cluster.network.cut([(one, other), (other, one)])

    def talk(self, seconds: float) -> None:
        """Have every client send at each level, one after the other."""
        levels = (ServiceLevel.RELIABLE, ServiceLevel.CAUSAL, ServiceLevel.SAFE)
        for turn in range(int(seconds / 0.02)):
            sender = self.members[turn % 6]
            text = str(len(self.sent))
            sender.multicast(["g"], text.encode(), level=levels[turn % 3])
            self.sent.append(text)
            self.cluster.run(0.02)

    def finish(self) -> None:
        """All have everything, and nothing was wrong on the way."""
        self.cluster.run(1.0)
        for member in self.members:
            assert sorted(texts(member), key=int) == self.sent
        self.checked.finish()


def test_a_way_around_a_lost_link_is_found_and_nobody_leaves_the_view() -> None:
    sites = Sites()
    before = sites.views
    sites.talk(0.5)
    sites.cut(0, 2)
    sites.talk(1.2)
    assert sites.views == before
    assert len(texts(sites.members[2])) > 60, "they did not wait for the link to come back"
    sites.cluster.network.mend([(0, 2), (2, 0)])
    sites.talk(0.5)
    assert sites.views == before
    sites.finish()


@pytest.mark.long
def test_a_link_that_flaps_costs_no_view_either() -> None:
    sites = Sites()
    before = sites.views
    for _ in range(2):
        sites.cut(0, 4)
        sites.talk(0.9)
        sites.cluster.network.mend([(0, 4), (4, 0)])
        sites.talk(0.4)
    assert sites.views == before
    sites.finish()


def test_a_link_that_leads_one_way_is_not_used() -> None:
    sites = Sites()
    before = sites.views
    sites.cluster.network.cut([(4, 2)])
    sites.talk(1.2)
    assert sites.views == before
    sites.finish()


def test_without_a_way_around_the_view_ends_and_the_next_one_takes_other_daemons() -> None:
    sites = Sites()
    before = sites.views
    sites.cut(0, 2)
    sites.cut(2, 4)
    sites.cluster.run(3.0)
    assert sites.views > before
    view = sites.cluster.daemons[0].core.view
    assert view is not None
    assert len(view.daemons) == 6
    sites.talk(0.5)
    sites.checked.finish()


@pytest.mark.long
def test_packets_take_the_quicker_way_around() -> None:
    links = [
        SimulatedLink(sites=(0, 1), delay_s=0.1),
        SimulatedLink(sites=(0, 2), delay_s=0.02),
        SimulatedLink(sites=(1, 2), delay_s=0.02),
    ]
    cluster = Cluster(plain_settings(daemons=(1, 1, 1), links=links))
    sender, receiver = cluster.connect("near", 0), cluster.connect("far", 1)
    cluster.run(2.0)
    receiver.join("g")
    cluster.run(2.0)
    sender.multicast(["g"], b"x", level=ServiceLevel.RELIABLE)
    cluster.run(0.06)
    assert texts(receiver) == ["x"]
