"""Attacks by a holder of the ring's key file without a trusted identity."""

from typing import Final

import pytest

from groupcomm.config.core import Rekeying
from groupcomm.config.view import DaemonId
from groupcomm.names import cluster_number
from groupcomm.security.layout import Channel
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.wire.hello import SIGNATURE_BYTES, Hello, Introduction
from tests.groupcomm.sim.captured import running
from tests.groupcomm.sim.test_identities import cluster_with_identities, gate_counters
from tests.groupcomm.sim.test_rotation import Load, messages
from tests.verification.simulation.attackers.keyholder import RingKeySealer

FAR: Final = 2**63
"""A counter that no daemon reaches: a window that moved there takes nothing genuine any more."""


def forged_introduction(cluster: Cluster, claimed: DaemonId, target: DaemonId, epoch: int) -> bytes:
    """Return an introduction in the name of a daemon's present start, with no signature."""
    keys = running(cluster.daemons[0]).core.key_manager.keys
    number = cluster_number(cluster.config.cluster)
    sealer = RingKeySealer(
        keys, number, claimed.number, claimed.incarnation, counter=FAR - 1, rekeying=Rekeying()
    )
    for _ in range(epoch):
        sealer._begin_epoch()
    told = Introduction(
        hello=Hello(start=target.incarnation, asks=1), view=bytes(16), pair=1, public=bytes(32)
    )
    return sealer.seal(told.encode() + bytes(SIGNATURE_BYTES), Channel.HELLO, target.number)


def forge_in_all_names(cluster: Cluster, epoch: int) -> None:
    """Give every daemon one forged introduction in the name of each other one."""
    starts = [running(host).core.start.daemon for host in cluster.daemons]
    for index, target in enumerate(starts):
        for claimed in starts:
            if claimed is not target:
                forged = forged_introduction(cluster, claimed, target, epoch)
                cluster.daemons[index].put(cluster.loop.now, forged)


@pytest.mark.parametrize("epoch", [0, *(pytest.param(e, marks=pytest.mark.long) for e in (1, 7))])
def test_unsigned_introductions_change_nothing(epoch: int) -> None:
    """A new view needs introductions: they are accepted even after one forgery for each pair."""
    cluster = cluster_with_identities(4)
    load = Load(cluster)
    load.run(0.2)
    forge_in_all_names(cluster, epoch)
    cluster.run(0.1)
    for index in range(4):
        assert gate_counters(cluster, index)["identity"] >= 3
    apart = [(3, other) for other in range(3)]
    cluster.network.cut(apart)
    cluster.form([0, 1, 2])
    cluster.network.mend(apart)
    cluster.form()
    load.run(0.5)
    cluster.run(10.0)
    assert cluster.agree(range(4)), "they stand apart, as no new secret has arrived"
    for index in range(4):
        assert gate_counters(cluster, index).get("replay", 0) == 0
    heard = [messages(client) for client in load.clients]
    assert len(heard[0]) > load.sent / 2
    assert all(each == heard[0] for each in heard)


def test_an_introduction_counts_once_although_its_window_moves_late() -> None:
    """A copy of a signed introduction is a replay."""
    cluster = cluster_with_identities(2)
    sent: list[bytes] = []
    cluster.network.observers.append(
        lambda source, target, datagram, goes_on: sent.append(datagram) if target == 0 else None
    )
    cluster.daemons[1].kill()
    cluster.daemons[1].boot()
    cluster.form()
    cluster.run(0.5)
    place = 45  # the place of the channel, after the head
    hellos = [datagram for datagram in sent if datagram[place] == Channel.HELLO]
    assert hellos
    before = gate_counters(cluster, 0).get("replay", 0)
    for datagram in hellos:
        cluster.daemons[0].put(cluster.loop.now, datagram)
    cluster.run(0.1)
    replays = gate_counters(cluster, 0).get("replay", 0) - before
    older = sum(datagram[21:37] != hellos[-1][21:37] for datagram in hellos)
    assert replays == len(hellos) - older
