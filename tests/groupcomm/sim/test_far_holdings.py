"""A ring reports in time what it holds of another's stream: senders do not wait for the report."""

import attrs
import pytest

from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.settings import plain_settings
from tests.groupcomm.sim.checked_cluster import CheckedCluster

DELAY_S = 0.02

LARGE_PACKET = 9000
"""The bytes of a message: few may be in flight, and an unbundled one has a packet of its own."""


def most_behind(
    checked: CheckedCluster, members: list[SimulatedClient], each_s: float, size: int
) -> int:
    """Return the most messages that the last member lacks while the first sends for 0.5 s."""
    count = round(0.5 / each_s)
    lacking = []
    for sent in range(1, count + 1):
        members[0].multicast(["g"], b"x" * size, level=ServiceLevel.AGREED)
        checked.cluster.run(each_s)
        got = sum(isinstance(event, Message) for event in members[-1].events)
        lacking.append(sent - got)
    checked.finish()
    assert sum(isinstance(event, Message) for event in members[-1].events) == count
    return max(lacking[count // 2 :])  # from then on its windows have found their sizes


def rings(checked: CheckedCluster) -> list[int]:
    """Return the number of daemons in each ring."""
    view = checked.cluster.daemons[0].core.view
    assert view is not None
    return [len(ring) for ring in view.rings]


@pytest.mark.long
def test_a_ring_that_only_receives_from_another_site() -> None:
    """It has no reason of its own to have its token go round."""
    settings = plain_settings(daemons=4, sites=2, delay_s=DELAY_S)
    checked = CheckedCluster(attrs.evolve(settings, packet_limit=LARGE_PACKET))
    members = checked.connect(4)
    for member in members:
        member.join("g")
    checked.cluster.run(0.5)
    assert rings(checked) == [2, 2]
    on_its_way = DELAY_S / 0.0004
    assert most_behind(checked, members, 0.0004, 100) < 1.5 * on_its_way


def test_two_rings_of_one_site() -> None:
    """Two daemons that did not hear each other in time; their packets may be large, and few."""
    checked = CheckedCluster(attrs.evolve(plain_settings(daemons=3), packet_limit=60_000))
    checked.cluster.network.cut([(1, 2), (2, 1)])
    members = checked.connect(3)
    for member in members:
        member.join("g")
    checked.cluster.run(1.0)
    assert rings(checked) == [2, 1]
    assert most_behind(checked, members, 0.001, 100) < 8
