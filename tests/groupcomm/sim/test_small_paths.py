"""Large rings on paths that pass no large datagrams: nothing that daemons send is larger."""

import attrs
import pytest

from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings

HEADS_BYTES = 60
"""The bytes by which a datagram is longer than the packet in it, at most."""


def all_views_stay(daemons: int, packet_bytes: int, seconds: float) -> None:
    """Form a view where longer datagrams are lost, use it, and assert that it lasts."""
    settings = attrs.evolve(plain_settings(daemons=daemons), packet_limit=packet_bytes)
    cluster, path_bytes = Cluster(settings, start=False), packet_bytes + HEADS_BYTES
    cluster.network.narrow(cluster.network.paths, path_bytes)
    longest = 0

    def observe(_source: int, _target: int, datagram: bytes, _goes_on: bool) -> None:
        nonlocal longest
        longest = max(longest, len(datagram))

    cluster.network.observers.append(observe)
    cluster.start(form=False)
    cluster.run(0.5)
    hosts = range(daemons)
    assert cluster.agree(hosts)
    views = [host.process.core.view for host in cluster.daemons if host.process is not None]
    members = [cluster.connect(f"user{at}", at) for at in (0, daemons // 2, daemons - 1)]
    cluster.run(0.2)
    for member in members:
        member.join("g")
    cluster.run(0.2)
    for _ in range(10):
        for member in members:
            for level in (ServiceLevel.AGREED, ServiceLevel.SAFE):
                member.multicast(["g"], bytes(packet_bytes // 2), level=level)
        cluster.run(seconds / 10)
    assert cluster.agree(hosts)
    now = [host.process.core.view for host in cluster.daemons if host.process is not None]
    assert [view and view.key for view in now] == [view and view.key for view in views]
    assert longest <= path_bytes


def test_a_ring_whose_rows_fill_a_packet_stays_where_longer_datagrams_are_lost() -> None:
    all_views_stay(36, 800, 0.5)


@pytest.mark.long
def test_a_ring_of_64_daemons_stays_where_longer_datagrams_are_lost() -> None:
    all_views_stay(64, 1340, 3.0)
