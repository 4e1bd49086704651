"""Delays over several sites: the cost of a loss, and the gain of CAUSAL; virtual time is exact."""

from collections.abc import Sequence
from functools import partial

import pytest

from groupcomm.events import Event, Message
from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.network.links import SimulatedLink
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND

INTERVAL_S = 0.005
"""200 messages a second."""

SETTLE_S = 2.0
ARRIVE_S = 0.5


class Watch:
    """A member at the first daemon of each site, and the times at which each gets a message."""

    def __init__(self, sizes: Sequence[int], links: Sequence[SimulatedLink]) -> None:
        self.cluster = Cluster(plain_settings(daemons=sizes, links=links))
        firsts = [sum(sizes[:site]) for site in range(len(sizes))]
        self.members = [self.cluster.connect(f"user{at}", at) for at in firsts]
        self.cluster.run(SETTLE_S)
        for member in self.members:
            member.join("g")
        self.cluster.run(SETTLE_S)
        self.sent: list[float] = []
        self.got: list[dict[int, float]] = [{} for _ in self.members]
        for site, member in enumerate(self.members):
            member.on_event = partial(self._on_event, site)

    @property
    def now(self) -> float:
        return self.cluster.loop.now / SECOND

    def send(self, level: ServiceLevel) -> None:
        number = len(self.sent)
        self.sent.append(self.now)
        self.members[0].multicast(["g"], b"%d" % number, level=level)

    def _on_event(self, site: int, event: Event) -> None:
        if isinstance(event, Message):
            self.got[site][int(event.data)] = self.now

    def delays(self, site: int) -> list[float]:
        """Return seconds to a site's member, lowest first; each message got there."""
        got = self.got[site]
        assert len(got) == len(self.sent)
        return sorted(got[number] - sent for number, sent in enumerate(self.sent))


def p99_over_a_lossy_hop(level: ServiceLevel) -> float:
    """Beyond the path's own delay, in round trips of the hop, on a chain of four sites."""
    delays = (0.01, 0.02, 0.01)
    links = [
        SimulatedLink(sites=(at, at + 1), delay_s=delay, loss=0.05 if at == 1 else 0.0)
        for at, delay in enumerate(delays)
    ]
    watch = Watch((1, 2, 1, 1), links)
    for _ in range(400):
        watch.send(level)
        watch.cluster.run(INTERVAL_S)
    watch.cluster.run(ARRIVE_S)
    p99 = watch.delays(3)[int(0.99 * len(watch.sent))]
    return (p99 - sum(delays)) / (2 * delays[1])


@pytest.mark.long
def test_a_loss_costs_reliable_one_round_trip_of_its_hop_and_a_half() -> None:
    assert p99_over_a_lossy_hop(ServiceLevel.RELIABLE) <= 1.5


@pytest.mark.long
def test_a_loss_costs_fifo_a_round_trip_more() -> None:
    assert p99_over_a_lossy_hop(ServiceLevel.FIFO) <= 2.5


@pytest.mark.long
def test_causal_of_another_session_overtakes_agreed_when_a_third_site_is_far() -> None:
    links = [
        SimulatedLink(sites=(0, 1), delay_s=0.01),
        SimulatedLink(sites=(0, 2), delay_s=0.08),
        SimulatedLink(sites=(1, 2), delay_s=0.08),
    ]
    watch = Watch((2, 2, 1), links)
    other: SimulatedClient = watch.cluster.connect("other", 0)
    watch.cluster.run(SETTLE_S)
    for number in range(0, 200, 2):
        watch.send(ServiceLevel.AGREED)
        watch.sent.append(watch.now)
        other.multicast(["g"], b"%d" % (number + 1), level=ServiceLevel.CAUSAL)
        watch.cluster.run(0.02)
    watch.cluster.run(ARRIVE_S)
    got = watch.got[1]
    earlier = sum(got[number + 1] < got[number] for number in range(0, 200, 2))
    assert earlier >= 90
