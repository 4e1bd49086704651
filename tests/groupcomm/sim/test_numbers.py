"""Identities of programs after disks were restored or copied, while counters are ahead of time.

One daemon's clock was a day ahead once. So the counters of all are, for a day: no clock tells
which numbers were used.
"""

import pytest

from groupcomm.membership import reservation
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import DAY_S
from tests.groupcomm.sim.checked_cluster import CheckedCluster


class AfterADay(CheckedCluster):
    """Three daemons whose counters are a day ahead; the second one's disk gets restored.

    Attributes:
        host: the host of the second daemon.
        met: how often programs have connected to it.
    """

    def __init__(self) -> None:
        super().__init__(plain_settings(daemons=3))
        cluster = self.cluster
        self.met = 0
        self.host = cluster.daemons[1]
        self.host.clock.set_ahead(DAY_S)
        self.restart(self.host)
        self.host.clock.set_ahead(-DAY_S)
        self.restart(self.host)
        assert cluster.view.id.counter > self.host.core.physical.read(0.0) + 0.9 * DAY_S * 1e6

    def restart(self, host: SimulatedHost) -> None:
        host.kill()
        self.boot(host)

    def boot(self, host: SimulatedHost) -> None:
        host.boot()
        self.cluster.run(1.0)
        self.cluster.form()

    def meet(self) -> list[SimulatedClient]:
        """Programs connect to the daemon."""
        users = [f"{name}{self.met}" for name in ("anna", "ben", "cleo")]
        self.met += 1
        clients = [self.cluster.connect(user, self.host.index) for user in users]
        self.cluster.run(0.1)
        assert all(client.connected for client in clients)
        return clients


def test_a_start_with_an_old_disk_gives_no_number_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reservation, "JUMP_US", 1)  # the worst case
    checked = AfterADay()
    record = checked.host.disk.record
    checked.restart(checked.host)
    first = checked.meet()
    checked.host.kill()
    checked.cluster.run(1.0)
    checked.host.disk.record = record
    checked.boot(checked.host)
    second = checked.meet()
    assert not {client.identity for client in first} & {client.identity for client in second}
    checked.finish()


def test_nobody_can_tell_a_daemon_that_is_alone() -> None:
    checked = AfterADay()
    cluster, host = checked.cluster, checked.host
    record = host.disk.record
    checked.restart(host)
    checked.meet()
    host.kill()
    host.disk.record = record
    pairs = [(1, 0), (0, 1), (1, 2), (2, 1)]
    cluster.network.cut(pairs)
    host.boot()
    cluster.run(2.0)
    checked.meet()
    cluster.network.mend(pairs)
    cluster.run(2.0)
    checked.meet()
    checked.finish()


def test_a_clone_gives_no_number_of_the_daemon_that_it_is_a_copy_of() -> None:
    checked = AfterADay()
    cluster, host = checked.cluster, checked.host
    host.start_clone()
    checked.restart(host)
    checked.meet()
    assert host.clone is not None
    for client in (clone_of(cluster, host, user) for user in ("anna", "ben", "cleo")):
        host.clone.accept(client)
    cluster.run(1.0)
    host.kill_clone()
    checked.finish()


def clone_of(cluster: Cluster, host: SimulatedHost, user: str) -> SimulatedClient:
    client = SimulatedClient(cluster.loop, cluster.record, user, host.index, host.name)
    cluster.clients.append(client)
    return client
