"""Clusters whose daemons have identities: faults, eviction, thieves, and the data they can read."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import attrs
import pytest

from groupcomm.config.core import Rekeying
from groupcomm.config.view import Incarnation
from groupcomm.engine.protection import IdentityProtection
from groupcomm.errors import BadDatagram, LocalProtocolError
from groupcomm.names import cluster_number
from groupcomm.security.identity import DaemonCredentials, Roll, public_of
from groupcomm.security.identity import StartId as Identified
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import Channel
from groupcomm.security.secret_sealing import SecretOpener
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import Options, plain_settings
from groupcomm_tools.campaign import run_campaign
from tests.groupcomm.sim.captured import Captured, give, running
from tests.groupcomm.sim.checked_cluster import with_few_notices
from tests.groupcomm.sim.test_rotation import Load, messages

QUICK: Final = Rekeying(lifetime_s=0.2)


def cluster_with_identities(daemons: int = 3, sites: int = 1) -> Cluster:
    settings = with_few_notices(plain_settings(daemons=daemons, sites=sites, delay_s=0.01))
    cluster = Cluster(attrs.evolve(settings, suite=2), start=False)
    cluster.config = attrs.evolve(cluster.config, rekeying=QUICK)
    cluster.start()
    return cluster


def gate_of(cluster: Cluster, index: int) -> IdentityProtection:
    gate = running(cluster.daemons[index]).core._protection
    assert isinstance(gate, IdentityProtection)
    return gate


def evict(cluster: Cluster, by: int, name: str) -> None:
    process = running(cluster.daemons[by])
    process.core.key_manager.evict(name)
    process.wake()


@pytest.mark.parametrize("sites", [None, pytest.param(3, marks=pytest.mark.long)])
def test_no_property_is_violated_with_any_faults(sites: int | None) -> None:
    options = Options(suite=2, sites=sites)
    for result in run_campaign(range(1, 3 if sites is None else 2), options, workers=1):
        found = [f"{finding.property}: {finding.text}" for finding in result.findings]
        assert not found, (
            f"groupcomm simulate --suite 2 --seeds {result.settings.seed} finds {found}"
        )
        assert result.deliveries >= 50


@pytest.mark.parametrize("sites", [1, 2])
def test_all_members_get_new_secrets_in_each_view_and_nothing_is_lost(sites: int) -> None:
    cluster = cluster_with_identities(4, sites)
    load, view = Load(cluster), cluster.view
    load.run(0.5)
    cluster.run(1.0)
    assert cluster.view is view
    for index in range(4):
        gate = gate_of(cluster, index)
        assert gate.awaited == []
        assert gate._exchange.sealing == gate._exchange._number >= 2
        assert set(gate_counters(cluster, index)) <= {"unproven", "hello"}
    heard = [messages(client) for client in load.clients]
    assert len(heard[0]) == load.sent
    assert all(each == heard[0] for each in heard)


def gate_counters(cluster: Cluster, index: int) -> dict[str, int]:
    return dict(cluster.daemons[index].core.counters.rejected)


def test_an_evicted_daemon_reads_nothing_more_and_does_not_come_back() -> None:
    cluster = cluster_with_identities(4)
    load, captured = Load(cluster), Captured(cluster)
    load.run(0.3)
    gone = cluster.daemons[3]
    spy = gate_of(cluster, 3)
    evict(cluster, 1, gone.name)
    load.run(0.3)
    cluster.run(1.7)
    assert running(gone).core.key_manager.is_evicted, "it is told, if it listens"
    assert cluster.agree([0, 1, 2])
    for index in range(3):
        keeper = cluster.daemons[index].core.key_manager
        assert not keeper.is_evicted
        assert keeper.describe(())["identities"]["evicted"]
        credentials = cluster.daemons[index].credentials
        assert credentials is not None
        assert not credentials.roll.is_trusted(gone.name), "the file says so, too"
    begun = len(captured.sent)
    load.run(0.2)
    for _, source, _, datagram in captured.sent[begun:]:
        if source != 3:
            with pytest.raises(BadDatagram):  # although it has all secrets that it ever had
                spy.open_untrusted(datagram)
    view = cluster.daemons[0].core.view
    gone.kill()
    gone.boot()
    cluster.run(2.0)
    assert cluster.daemons[0].core.view is view, "nobody even notices that it tries"
    assert gate_counters(cluster, 0)["identity"] > 0
    recent = captured.arrived(0, source=3)[-200:]
    effect = give(cluster, captured, cluster.daemons[0], recent)
    assert (effect.changed, effect.said) == ([], [])
    assert sum(effect.rejected.values()) == len(recent)


def test_the_others_go_on_while_one_is_evicted() -> None:
    cluster = cluster_with_identities(4, 2)
    load = Load(cluster)
    load.run(0.2)
    evict(cluster, 0, cluster.daemons[2].name)
    load.run(1.0)
    cluster.run(2.0)
    others = [messages(load.clients[index]) for index in (0, 1)]
    assert len(others[0]) > 0.6 * load.sent
    assert others[0] == others[1]


def test_who_was_apart_learns_who_was_evicted_meanwhile() -> None:
    cluster = cluster_with_identities(4)
    apart = [(a, 3) for a in range(3)] + [(3, a) for a in range(3)]
    cluster.network.cut(apart)
    cluster.form([0, 1, 2])
    evict(cluster, 0, cluster.daemons[2].name)
    cluster.form([0, 1])
    cluster.network.mend(apart)
    cluster.form([0, 1, 3])
    cluster.run(0.5)
    assert running(cluster.daemons[3]).core.key_manager.describe(())["identities"]["evicted"]
    cluster.run(2.0)
    assert cluster.agree([0, 1, 3]), "two that would take it do not, as one of them knows"


def test_what_cannot_be_evicted_is_refused() -> None:
    cluster = cluster_with_identities(3)
    names = [host.name for host in cluster.daemons]
    evict(cluster, 0, names[2])
    cluster.form([0, 1])
    for name, text in (
        (names[0], "evict it from another host"),
        (names[2], "is evicted already"),
        ("nobody", f"nobody has no identity; known are {names[0]}, {names[1]}"),
    ):
        with pytest.raises(LocalProtocolError, match=text):
            evict(cluster, 0, name)
    keeper = Cluster(attrs.evolve(plain_settings(), suite=1)).daemons[0].core.key_manager
    with pytest.raises(LocalProtocolError, match="no identity"):
        keeper.evict(names[1])


def test_a_rebuilt_host_comes_back_with_a_new_identity() -> None:
    cluster = cluster_with_identities(3)
    host = cluster.daemons[2]
    evict(cluster, 0, host.name)
    cluster.form([0, 1])
    host.kill()
    old = running(cluster.daemons[0]).core.key_manager._protection.roll
    assert old is not None
    private = b"r" * 32
    daemons = {**old.daemons, host.name: public_of(private)}
    for index in (0, 1):
        keeper = running(cluster.daemons[index]).core.key_manager
        assert keeper.keys is not None
        keeper.load(keeper.keys, Roll(daemons))
    assert host.credentials is not None
    roll = Roll(daemons, old.evicted)
    host.credentials = DaemonCredentials(private, roll, host.credentials.entropy)
    host.boot()
    cluster.form()


def test_files_are_taken_over_together_or_not_at_all() -> None:
    keeper = cluster_with_identities(2).daemons[0].core.key_manager
    keys, roll = keeper.keys, keeper.roll
    assert keys is not None
    assert roll is not None
    others = {name: public for name, public in roll.daemons.items() if name != min(roll.daemons)}
    more = KeyRing({**keys.keys, 2: b"k" * 32}, 1)
    renewed = Roll({**roll.daemons, max(roll.daemons): public_of(b"r" * 32)})
    for wrong_keys, wrong_roll, text in (
        (more, Roll(others), "this daemon, with its public key"),
        (KeyRing({2: b"k" * 32}, 2), renewed, "key 1 seals, and the file lacks it"),
    ):
        with pytest.raises(LocalProtocolError, match=text):
            keeper.load(wrong_keys, wrong_roll)
        assert (keeper.keys, keeper.roll) == (keys, roll)
    keeper.load(more, renewed)
    assert (keeper.keys, keeper.roll) == (more, renewed)


def test_who_has_the_key_file_alone_is_nobody() -> None:
    """A daemon of a listed name with the right key and an identity that it made itself."""
    cluster = cluster_with_identities(3)
    host = cluster.daemons[2]
    host.kill()
    cluster.form([0, 1])
    view = cluster.daemons[0].core.view
    assert host.credentials is not None
    private, roll = b"t" * 32, host.credentials.roll
    own = Roll({**roll.daemons, host.name: public_of(private)})
    host.credentials = DaemonCredentials(private, own, host.credentials.entropy)
    captured = Captured(cluster)
    host.boot()
    cluster.run(3.0)
    assert cluster.daemons[0].core.view is view
    assert gate_counters(cluster, 0)["identity"] > 0
    sent = [len(d) for _, source, target, d in captured.sent if source == 2 and target == 0]
    back = [len(d) for _, source, target, d in captured.sent if source == 0 and target == 2]
    assert sum(back) <= sum(sent) + sum(len(d) for _, s, t, d in captured.sent if (s, t) == (0, 1))


class Stolen:
    """Stands for an exchange: one secret is tried for everything."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret

    def secret_of(self, start: Identified, number: int) -> bytes:
        return self.secret


def opened(cluster: Cluster, datagrams: Iterable[bytes], secret: bytes) -> int:
    """Return the number of datagrams that a holder of the key file and one secret opens."""
    number, nobody = cluster_number(cluster.config.cluster), (0, Incarnation(0, 0))
    thief = SecretOpener(cluster.daemons[0].keys, number, nobody, Stolen(secret), QUICK)  # type: ignore[arg-type]
    count = 0
    for datagram in datagrams:
        with suppress(BadDatagram):
            count += thief.open_untrusted(datagram).channel != Channel.HELLO
    return count


def test_what_an_intruder_has_learned_is_of_no_use_in_the_next_view() -> None:
    """An intruder has all secrets of a daemon, its own and others'; then the intruder listens."""
    cluster = cluster_with_identities(3)
    captured, exchange = Captured(cluster), gate_of(cluster, 0)._exchange
    stolen = [exchange.secret]
    for peer in exchange._peers.values():
        stolen += peer.secrets.values()
    Load(cluster).run(0.1)
    assert opened(cluster, (d for *_, d in captured.sent), exchange.secret) > 50
    cluster.daemons[2].kill()
    cluster.form([0, 1])
    cluster.run(0.5)
    begun = len(captured.sent)
    clients = [cluster.connect(f"v{host}", host) for host in (0, 1)]
    cluster.run(0.3)
    for client in clients:
        client.join("h")
    cluster.run(0.3)
    later = [datagram for *_, datagram in captured.sent[begun:]]
    assert len(later) > 30
    assert [opened(cluster, later, secret) for secret in stolen] == [0] * len(stolen)
