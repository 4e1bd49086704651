"""Replays of all datagrams, at any later time: they change nothing, and each is counted."""

from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from groupcomm.config.core import Rekeying
from groupcomm.level import LEVELS
from groupcomm.security import exchange, sealing
from groupcomm.security.layout import HEAD_BYTES, SUITE_AES_GCM, Channel
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.cluster.disk import Damage
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.settings import plain_settings
from tests.groupcomm.sim.captured import Captured, Effect, give, running, sealed_cluster
from tests.groupcomm.sim.checked_cluster import with_few_notices

GROUP = "g"
CHANNELS = set(Channel)


def replay_all(cluster: Cluster, captured: Captured, host: SimulatedHost) -> Effect:
    """Give a host all its earlier datagrams; nothing may change, each datagram must count."""
    datagrams = captured.arrived(host.index)
    effect = give(cluster, captured, host, datagrams)
    assert effect.changed == []
    assert effect.stale == sum(effect.rejected.values()) == len(datagrams) > 0
    assert sum(map(len, effect.said)) <= sum(map(len, datagrams))
    return effect


def busy(cluster: Cluster) -> None:
    """Have programs at all daemons send for a while, at all levels."""
    clients = [
        cluster.connect(f"u{cluster.loop.now}", host.index)
        for host in cluster.daemons
        if host.is_up
    ]
    cluster.run(0.3)
    for client in clients:
        client.join(GROUP)
    cluster.run(0.5)
    for number in range(30):
        for client in clients:
            client.multicast([GROUP], b"%d" % number, level=LEVELS[number % len(LEVELS)])
        cluster.run(0.01)
    cluster.run(1.0)


@pytest.mark.parametrize(
    ("sites", "suite"), [(1, 1), pytest.param(2, 1, marks=pytest.mark.long), (2, 2)]
)
def test_nothing_is_taken_twice(sites: int, suite: int) -> None:
    """At once, a second later, in the next view, after a restart of the receiver, of the sender."""
    settings = with_few_notices(plain_settings(daemons=4, sites=sites, delay_s=0.01))
    cluster = sealed_cluster(
        settings, Rekeying(epoch_s=0.7, lifetime_s=0.1), suite=suite, start=False
    )
    captured = Captured(cluster)
    cluster.start()
    busy(cluster)
    channels = CHANNELS if sites > 1 else CHANNELS - {Channel.LINK}
    assert {datagram[HEAD_BYTES] for _, _, _, datagram in captured.sent} == channels
    assert {datagram[1] for _, _, _, datagram in captured.sent} == {suite}

    # In suite 2 datagrams before their secret were not accepted; then that secret is erased.
    stale = {"replay"} if suite == SUITE_AES_GCM else {"replay", "epoch"}
    for host in cluster.daemons:
        assert set(replay_all(cluster, captured, host).rejected) <= stale
    cluster.run(1.0)
    for host in cluster.daemons:
        assert set(replay_all(cluster, captured, host).rejected) <= stale

    cluster.daemons[3].kill()
    cluster.form([0, 1, 2])
    cluster.run(0.5)
    for host in cluster.daemons[:3]:
        assert set(replay_all(cluster, captured, host).rejected) <= stale

    cluster.daemons[1].kill()
    cluster.form([0, 2])
    cluster.daemons[1].boot()
    cluster.form([0, 1, 2])
    cluster.run(0.5)
    restarted = replay_all(cluster, captured, cluster.daemons[1])
    assert restarted.rejected["unproven"] > 0, "nothing is known of the daemon that is down"
    assert len(restarted.said) <= 8, "it is asked, but not for each datagram"

    for host in (cluster.daemons[0], cluster.daemons[2]):
        old = captured.arrived(host.index, source=1)
        effect = give(cluster, captured, host, old)
        assert effect.changed == []
        assert effect.rejected.keys() <= stale, "the windows of the old start are kept"
        assert sum(effect.rejected.values()) == len(old)
        assert effect.said == []
    cluster.run(1.0)
    assert cluster.agree([0, 1, 2])


def test_a_whole_moment_replayed_to_a_daemon_alone_admits_nobody() -> None:
    """All others are down; the attacker plays their last view, join by join."""
    cluster = sealed_cluster(plain_settings(daemons=3))
    captured = Captured(cluster)
    busy(cluster)
    cluster.daemons[1].kill()
    cluster.daemons[2].kill()
    cluster.daemons[0].kill()
    cluster.run(1.0)
    cluster.daemons[0].boot()
    cluster.form([0])
    alone = cluster.daemons[0].core.view
    moment = captured.arrived(0)
    for datagram in moment:
        running(cluster.daemons[0]).put(cluster.loop.now + 1, datagram)
        cluster.run(0.001)
    core = cluster.daemons[0].core
    assert core.view is alone
    assert core.counters.rejected == {"unproven": len(moment)}
    assert all(peer.heard_at < 0 for peer in core.membership.peers.values())


def test_what_a_flood_of_old_datagrams_brings_forth_is_little() -> None:
    """A daemon is asked 8 times at once and 50 times a second at most, however much is replayed."""
    cluster = sealed_cluster(plain_settings(daemons=3))
    captured = Captured(cluster)
    busy(cluster)
    cluster.daemons[2].kill()
    cluster.daemons[0].kill()
    cluster.run(1.0)
    cluster.daemons[0].boot()
    cluster.form([0, 1])
    old = captured.arrived(0, source=2)
    began = len(captured.sent)
    for _ in range(100):
        running(cluster.daemons[0])._handle(old, [])
        cluster.run(0.01)
    asked = [d for _, who, whom, d in captured.sent[began:] if (who, whom) == (0, 2)]
    hellos = [datagram for datagram in asked if datagram[HEAD_BYTES] == 4]
    assert 0 < len(hellos) <= 8 + 50 * 1.2
    assert cluster.agree([0, 1])


@pytest.mark.parametrize("suite", [pytest.param(1, marks=pytest.mark.long), 2])
def test_no_nonce_is_used_twice_with_a_key_whatever_happens_to_daemons_and_disks(
    monkeypatch: pytest.MonkeyPatch, suite: int
) -> None:
    """Crashes, clones, disks that are lost or rolled back, epochs that end."""
    used: list[tuple[bytes, bytes]] = []

    def recording(key: bytes) -> object:
        cipher = AESGCM(key)

        def encrypt(nonce: bytes, data: bytes, context: bytes) -> bytes:
            used.append((key, nonce))
            return cipher.encrypt(nonce, data, context)

        return SimpleNamespace(encrypt=encrypt, decrypt=cipher.decrypt)

    monkeypatch.setattr(sealing, "AESGCM", recording)
    monkeypatch.setattr(exchange, "AESGCM", recording)
    rekeying = Rekeying(epoch_packets=200, epoch_s=0.5)
    cluster = sealed_cluster(plain_settings(daemons=3), rekeying, suite=suite)
    host = cluster.daemons[0]
    for turn in range(6):
        busy(cluster)
        host.start_clone()
        cluster.run(0.5)
        host.kill_clone()
        cluster.run(0.5)
        host.kill()
        cluster.run(0.2)
        if turn % 2:
            host.damage_disk(Damage.LOST if turn == 3 else Damage.OLD)
        host.boot()
        cluster.run(2.0)
    cluster.form()
    assert host.starts > 6
    assert len({key for key, _ in used}) > 100
    assert len(used) == len(set(used)) > 3000
