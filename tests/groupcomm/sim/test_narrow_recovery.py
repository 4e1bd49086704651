"""A view that ends while one site lacks much of it, behind a link that carries little."""

from collections import Counter

import attrs
import pytest

from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm.membership.states import GatherReason
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.network.links import SimulatedLink
from groupcomm.sim.settings import plain_settings
from groupcomm_tools.plan.kinds import kind_of

LACKING = 400
"""Packets of a kilobyte that the far site lacks: a third of a second of the link."""


def test_packets_that_wait_before_a_narrow_link_are_not_sent_again_and_again() -> None:
    link = SimulatedLink(sites=(0, 1), delay_s=0.03, bytes_per_s=1_300_000)
    cluster = Cluster(plain_settings(daemons=[1, 2], links=[link]))
    far, near = cluster.connect("far", 0), cluster.connect("near", 1)
    cluster.run(0.3)
    near.join("g")
    far.join("g")
    cluster.run(0.5)
    away = [(1, 0), (2, 0)]
    cluster.network.cut(away)
    for _ in range(LACKING):
        near.multicast(["g"], bytes(1000), level=ServiceLevel.FIFO)
    cluster.run(0.3)
    cluster.network.mend(away)
    kinds: Counter[str] = Counter()
    cluster.network.observers.append(lambda _s, _t, datagram, _: kinds.update([kind_of(datagram)]))
    cluster.daemons[2].kill()
    core = cluster.daemons[1].core
    core.membership.gather(GatherReason.TOKEN_LOST, core._now)
    cluster.run(2.0)
    assert cluster.agree([0, 1])
    assert sum(isinstance(event, Message) for event in far.events) == LACKING
    assert LACKING <= kinds["repair"] < 6 * LACKING, "it was ten times as many"


@pytest.mark.parametrize("queue_s", [0.04, 0.01])
def test_a_large_packet_passes_a_link_that_holds_a_part_of_it(queue_s: float) -> None:
    """Of what comes at once the link drops the end, each time (simulator seed 962009)."""
    link = SimulatedLink(sites=(0, 1), delay_s=0.02, bytes_per_s=1_300_000, queue_s=queue_s)
    plain = plain_settings(daemons=[1, 3], links=[link])
    cluster = Cluster(attrs.evolve(plain, packet_limit=60_000))
    near = cluster.connect("near", 0)
    far = [cluster.connect(f"far{daemon}", daemon) for daemon in (1, 2)]
    cluster.run(0.3)
    for client in (near, *far):
        client.join("g")
    cluster.run(0.5)
    away = [(0, daemon) for daemon in (1, 2, 3)]
    cluster.network.cut(away)
    near.multicast(["g"], bytes(58_000), level=ServiceLevel.FIFO)
    cluster.run(0.1)
    cluster.network.mend(away)
    cluster.daemons[3].kill()
    core = cluster.daemons[1].core
    core.membership.gather(GatherReason.TOKEN_LOST, core._now)
    cluster.run(5.0)
    assert cluster.agree([0, 1, 2])
    for client in far:
        assert sum(isinstance(event, Message) for event in client.events) == 1
