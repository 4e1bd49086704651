"""Keys are changed while a cluster works: no view changes, nothing is lost, all come along."""

from collections.abc import Sequence
from typing import Final

import pytest

from groupcomm.config.core import Rekeying
from groupcomm.engine.inputs import PromoteKey, RetireKey
from groupcomm.errors import LocalProtocolError
from groupcomm.events import Message
from groupcomm.security.keys import KeyRing
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from tests.groupcomm.sim.captured import Captured, give, running, sealed_cluster
from tests.groupcomm.sim.checked_cluster import with_few_notices

OLD: Final = bytes(range(32))  # the key of the simulator's hosts
NEW: Final = b"n" * 32
GROUP: Final = "g"
QUICK: Final = Rekeying(lifetime_s=0.2)


class Load:
    """A program at each daemon sends all the time, and is in the group."""

    def __init__(self, cluster: Cluster, hosts: Sequence[int] = ()) -> None:
        self.cluster = cluster
        hosts = hosts or range(len(cluster.daemons))
        self.clients = [cluster.connect(f"u{index}", index) for index in hosts]
        cluster.run(0.3)
        for client in self.clients:
            client.join(GROUP)
        cluster.run(0.5)
        self.sent = 0

    def run(self, seconds: float) -> None:
        """A message of each program every five milliseconds."""
        for _ in range(int(seconds * 200)):
            for client in self.clients:
                client.multicast([GROUP], b"%d" % self.sent)
                self.sent += 1
            self.cluster.run(0.005)


def messages(client: SimulatedClient) -> list[bytes]:
    return [event.data for event in client.events if isinstance(event, Message)]


def load_keys(cluster: Cluster, hosts: Sequence[int], *, active: int = 1) -> None:
    for index in hosts:
        running(cluster.daemons[index]).core.key_manager.load(KeyRing({1: OLD, 2: NEW}, active))
        running(cluster.daemons[index]).wake()


def sealing(cluster: Cluster, hosts: Sequence[int]) -> list[int]:
    """Return the key that each daemon seals with."""
    return [cluster.daemons[index].core.key_manager.describe(())["active"] for index in hosts]


def command(cluster: Cluster, index: int, verb: str, number: int, **options: bool) -> None:
    process = running(cluster.daemons[index])
    process.core.command(
        PromoteKey(number) if verb == "promote" else RetireKey(number=number, **options)
    )
    process.wake()


@pytest.mark.parametrize(
    ("sites", "suite"), [(1, 1), *(pytest.param(2, s, marks=pytest.mark.long) for s in (1, 2))]
)
def test_a_rotation_under_load_changes_no_view_and_loses_nothing(sites: int, suite: int) -> None:
    settings = with_few_notices(plain_settings(daemons=4, sites=sites, delay_s=0.01))
    cluster = sealed_cluster(settings, QUICK, suite=suite)
    load, captured, view = Load(cluster), Captured(cluster), cluster.view
    load.run(0.2)
    load_keys(cluster, range(4))
    load.run(0.2)
    command(cluster, 2, "promote", 2)
    load.run(0.3)
    assert sealing(cluster, range(4)) == [2] * 4
    load.run(0.4)
    command(cluster, 1, "retire", 1, without_missing=False)
    load.run(0.3)
    cluster.run(2.0)
    assert cluster.view is view
    for host in cluster.daemons:
        assert list(host.core.key_manager.describe(())["keys"]) == ["2"]
        assert set(host.core.counters.rejected) <= {"unproven", "hello"}
    heard = [messages(client) for client in load.clients]
    assert len(heard[0]) == load.sent
    assert heard[0] == heard[1] == heard[2] == heard[3]
    key_ids = {int.from_bytes(d[3:5]) for _, _, _, d in captured.sent}
    assert key_ids == {1, 2}


def test_all_seal_with_the_new_key_from_one_position_on() -> None:
    """Whichever daemon is first: none promotes before all members have said that they can open."""
    cluster = sealed_cluster(plain_settings(daemons=3), QUICK)
    load_keys(cluster, [0, 1])
    cluster.run(0.5)
    with pytest.raises(LocalProtocolError, match=f"not known at {cluster.daemons[2].name}"):
        command(cluster, 0, "promote", 2)
    load_keys(cluster, [2])
    cluster.run(0.5)
    assert sealing(cluster, range(3)) == [1, 1, 1]
    with pytest.raises(LocalProtocolError, match="key 1 is still in use at"):
        command(cluster, 0, "retire", 1, without_missing=False)
    command(cluster, 0, "promote", 2)
    cluster.run(0.1)
    assert sealing(cluster, range(3)) == [2, 2, 2]
    with pytest.raises(LocalProtocolError, match="still be on their way: wait"):
        command(cluster, 1, "retire", 1, without_missing=False)
    with pytest.raises(LocalProtocolError, match="only one with a higher number"):
        command(cluster, 1, "promote", 1)


def test_another_key_of_the_same_number_is_not_the_same_key() -> None:
    cluster = sealed_cluster(plain_settings(daemons=2), QUICK)
    load_keys(cluster, [0])
    running(cluster.daemons[1]).core.key_manager.load(KeyRing({1: OLD, 2: b"x" * 32}, 1))
    cluster.run(0.5)
    with pytest.raises(LocalProtocolError, match="not known at"):
        command(cluster, 0, "promote", 2)


def test_parts_that_were_apart_agree_when_they_meet() -> None:
    """A partition begins between the promotion and its place in the order, at half the daemons."""
    cluster = sealed_cluster(plain_settings(daemons=4), QUICK)
    load = Load(cluster)
    load_keys(cluster, range(4))
    load.run(0.3)
    pairs = [(a, b) for a in (0, 1) for b in (2, 3)]
    pairs += [(b, a) for a, b in pairs]
    command(cluster, 0, "promote", 2)
    cluster.network.cut(pairs)
    load.run(1.5)
    assert sealing(cluster, [0, 1]) == [2, 2]
    assert sealing(cluster, [2, 3]) == [1, 1], "they have not heard of it"
    cluster.network.mend(pairs)
    cluster.form()
    load.run(0.5)
    assert sealing(cluster, range(4)) == [2] * 4


def heard(load: Load, hosts: Sequence[int]) -> list[list[bytes]]:
    return [messages(load.clients[index]) for index in hosts]


@pytest.mark.parametrize("at_half", ["promote", "retire"])
def test_a_partition_in_the_middle_of_a_rotation_loses_nothing_of_a_part(at_half: str) -> None:
    """Under load; each part keeps its one view, and all go on with the new key alone."""
    cluster = sealed_cluster(plain_settings(daemons=4), QUICK)
    load = Load(cluster)
    load_keys(cluster, range(4))
    load.run(0.1)
    if at_half == "retire":
        command(cluster, 0, "promote", 2)
        cluster.run(0.5)
    began, pairs = load.sent, [(a, b) for a in (0, 1) for b in (2, 3)]
    pairs += [(b, a) for a, b in pairs]
    options = {"without_missing": False} if at_half == "retire" else {}
    number = 2 if at_half == "promote" else 1
    command(cluster, 0, at_half, number, **options)
    cluster.network.cut(pairs)
    load.run(0.8)  # longer than daemons wait for a token
    cluster.run(1.0)
    for hosts in ((0, 1), (2, 3)):
        one, other = heard(load, hosts)
        assert one == other
        assert {b"%d" % n for n in range(began, load.sent) if n % 4 in hosts} <= set(one)
        assert cluster.agree(hosts)
    cluster.network.mend(pairs)
    cluster.form()
    merged, view = load.sent, cluster.view
    load.run(0.2)
    cluster.run(0.4)
    command(cluster, 3, "retire", 1, without_missing=False)
    load.run(0.1)
    cluster.run(1.0)
    assert cluster.view is view
    since = [[data for data in one if int(data) >= merged] for one in heard(load, range(4))]
    assert since[0] == since[1] == since[2] == since[3]
    assert sorted(map(int, since[0])) == list(range(merged, load.sent))
    for host in cluster.daemons:
        assert list(host.core.key_manager.describe(())["keys"]) == ["2"]


def test_a_rotation_without_a_daemon_that_is_down_goes_on_under_load() -> None:
    cluster = sealed_cluster(plain_settings(daemons=3), QUICK)
    cluster.daemons[2].kill()
    cluster.form([0, 1])
    load = Load(cluster, [0, 1])
    view = cluster.daemons[0].core.view
    load.run(0.1)
    load_keys(cluster, [0, 1])
    load.run(0.2)
    command(cluster, 1, "promote", 2)
    load.run(0.2)
    cluster.daemons[2].boot()  # with the old key alone: it is told so, and no daemon accepts it
    load.run(0.5)
    cluster.run(1.0)
    assert cluster.daemons[0].core.view is view
    assert cluster.daemons[2].core.key_manager.missing_key is not None
    one, other = (messages(client) for client in load.clients)
    assert one == other
    assert sorted(map(int, one)) == list(range(load.sent))


def test_a_daemon_that_was_down_learns_which_key_it_lacks() -> None:
    cluster = sealed_cluster(plain_settings(daemons=3), QUICK)
    cluster.daemons[2].kill()
    cluster.form([0, 1])
    load_keys(cluster, [0, 1])
    cluster.run(0.5)
    command(cluster, 0, "promote", 2)
    cluster.run(1.0)
    cluster.daemons[2].boot()
    cluster.run(1.0)
    lost = cluster.daemons[2].core.key_manager
    assert lost.missing_key is not None
    assert lost.missing_key[1] == 2
    assert cluster.agree([0, 1])

    cluster.daemons[2].kill()
    cluster.daemons[2].keys = KeyRing({1: OLD, 2: NEW}, 1)  # as if an operator had copied it
    cluster.daemons[2].boot()
    cluster.form()
    cluster.run(0.5)
    assert sealing(cluster, range(3)) == [2, 2, 2]
    assert cluster.daemons[2].core.key_manager.missing_key is None


def test_who_has_only_a_retired_key_neither_opens_nor_joins() -> None:
    cluster = sealed_cluster(plain_settings(daemons=3), QUICK)
    captured = Captured(cluster)
    cluster.daemons[2].kill()
    cluster.form([0, 1])
    load_keys(cluster, [0, 1])
    cluster.run(0.5)
    command(cluster, 0, "promote", 2)
    cluster.run(0.5)
    with pytest.raises(LocalProtocolError, match="would be locked out"):
        command(cluster, 0, "retire", 1, without_missing=False)
    command(cluster, 0, "retire", 1, without_missing=True)
    cluster.run(0.5)
    view = cluster.daemons[0].core.view
    before = cluster.daemons[0].core.counters.rejected["key"]
    cluster.daemons[2].boot()
    cluster.run(2.0)
    assert cluster.daemons[0].core.view is view
    assert cluster.daemons[0].core.counters.rejected["key"] > before
    evicted = cluster.daemons[2].core
    assert evicted.view is not None
    assert [daemon.name for daemon in evicted.view.daemons] == [cluster.daemons[2].name]
    assert evicted.key_manager.missing_key is None, "nobody can tell it any more"
    assert evicted.key_manager.named_key == 2
    recent = captured.arrived(2)[-50:]
    effect = give(cluster, captured, cluster.daemons[2], recent)
    assert effect.rejected == {"key": len(recent)}
