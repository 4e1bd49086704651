"""All datagrams of another cluster, given to daemons that share no key with it: no effect."""

from collections.abc import Callable
from typing import Final

import attrs
import pytest

from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import HEAD_BYTES, SUITE_AES_GCM
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from groupcomm.wire.control import decode_control_untrusted
from groupcomm.wire.membership import ControlKind
from groupcomm.wire.packet import PacketKind
from tests.groupcomm.sim.captured import Captured, give, running, sealed_cluster
from tests.groupcomm.sim.checked_cluster import with_few_notices

KEY_ID: Final = slice(3, 5)
CLUSTER: Final = slice(5, 13)
CHECKSUM_BYTES: Final = 4
GROUP: Final = "g"

AT_ONCE: Final = 900
"""Datagrams a second; a daemon does not derive keys for more unknown starts."""


def live(cluster: Cluster) -> None:
    """Daemons start, programs join, send and leave, parts merge, a daemon leaves in order."""
    clients = [cluster.connect(f"u{host.index}", host.index) for host in cluster.daemons]
    cluster.run(0.3)
    for client in clients:
        client.join(GROUP)
    cluster.run(0.3)
    for level in LEVELS:
        for client in clients:
            client.multicast([GROUP], bytes(100), level=level)
    cluster.run(0.3)
    pairs = [(a, b) for a in (0, 1) for b in (2, 3)]
    pairs += [(b, a) for a, b in pairs]
    cluster.network.cut(pairs)
    cluster.run(2.0)
    for client in clients:  # alone with its member: in a view of one ring
        client.multicast([GROUP], bytes(100), level=ServiceLevel.SAFE)
    cluster.run(0.3)
    cluster.network.mend(pairs)
    cluster.form()
    clients[0].leave(GROUP)
    running(cluster.daemons[3]).leave()
    cluster.form([0, 1, 2])
    cluster.run(0.5)


def strangers(suite: int, key: KeyRing | None = None, name: str | None = None) -> list[bytes]:
    """Return all datagrams that such a cluster of daemons with the same names has sent, each
    once."""
    settings = with_few_notices(plain_settings(daemons=4, sites=2))
    settings = attrs.evolve(settings, suite=suite, seed=77)
    cluster = Cluster(settings, start=False)
    if name is not None:
        cluster.config = attrs.evolve(cluster.config, cluster=name)
    for host in cluster.daemons if key is not None else ():
        host.keys = key
    captured = Captured(cluster)
    cluster.start()
    live(cluster)
    return list(dict.fromkeys(datagram for _, _, _, datagram in captured.sent))


def renamed(cluster: Cluster, place: slice) -> Callable[[bytes], bytes]:
    """Writes the values of a cluster's daemons into a head."""
    captured = Captured(cluster)
    cluster.run(1.0)
    own = captured.sent[0][3][place]
    return lambda datagram: datagram[: place.start] + own + datagram[place.stop :]


@pytest.fixture(scope="module")
def ours() -> Cluster:
    """Four daemons with keys, at two sites, in one view."""
    cluster = sealed_cluster(with_few_notices(plain_settings(daemons=4, sites=2)))
    cluster.run(1.0)
    return cluster


def nothing_comes_of(ours: Cluster, datagrams: list[bytes], reasons: set[str]) -> None:
    captured, view = Captured(ours), ours.view
    assert len(datagrams) > 300
    for at in range(0, len(datagrams), AT_ONCE):
        some = datagrams[at : at + AT_ONCE]
        for host in ours.daemons:
            effect = give(ours, captured, host, some)
            assert effect.changed == []
            assert effect.said == [], "not a byte is answered"
            assert set(effect.rejected) == reasons
            assert sum(effect.rejected.values()) == len(some)
        ours.run(1.0)
    assert ours.view is view
    assert ours.agree(range(4))


def test_a_life_has_every_kind_of_packet_that_daemons_send() -> None:
    """The captured packets have joins, tokens, leaves and merges, so the tests below have them."""
    packets = [datagram[HEAD_BYTES:-CHECKSUM_BYTES] for datagram in strangers(0)]
    found = {packet[0] for packet in packets}
    assert found >= set(PacketKind) - {PacketKind.HELLO, PacketKind.RESEND, PacketKind.HEADERS}
    control = [packet for packet in packets if packet[0] == PacketKind.CONTROL]
    told = {decode_control_untrusted(packet).kind for packet in control}
    assert told >= {ControlKind.JOIN, ControlKind.COMMIT, ControlKind.LEAVE, ControlKind.BEACON}


def test_joins_tokens_leaves_and_merges_with_another_key_have_no_effect(ours: Cluster) -> None:
    for number in (1, 9):
        datagrams = strangers(SUITE_AES_GCM, KeyRing({number: b"x" * 32}, number))
        nothing_comes_of(ours, datagrams, {"tag" if number == 1 else "key"})


def test_those_of_a_cluster_of_another_name_have_none_either(ours: Cluster) -> None:
    datagrams = strangers(SUITE_AES_GCM, name="other")
    nothing_comes_of(ours, datagrams, {"cluster"})
    nothing_comes_of(ours, list(map(renamed(ours, CLUSTER), datagrams)), {"tag"})


def test_those_without_keys_have_none_either(ours: Cluster) -> None:
    datagrams = strangers(0)
    nothing_comes_of(ours, datagrams, {"suite"})
    pretends = [datagram[:1] + bytes((SUITE_AES_GCM,)) + datagram[2:] for datagram in datagrams]
    captured = Captured(ours)
    for host in ours.daemons:
        effect = give(ours, captured, host, pretends)
        assert (effect.changed, effect.said) == ([], [])
        assert sum(effect.rejected.values()) == len(pretends)
        assert not effect.stale
