"""Sealing: who may open what, and when a receiver remembers a sender."""

import struct

import google_crc32c
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from groupcomm.config.core import CoreConfig, Rekeying
from groupcomm.config.view import Incarnation, Start
from groupcomm.engine.protection import make_protection
from groupcomm.errors import ConfigError
from groupcomm.security import sealing
from groupcomm.security.keys import KeyRing, derive_key
from groupcomm.security.layout import (
    HEAD_BYTES,
    MAX_DATAGRAM_BYTES,
    SEAL_BYTES,
    SUITE_AES_GCM,
    SUITE_NONE,
    Channel,
)
from groupcomm.security.plain import MAX_PEERS, PlainOpener
from tests.groupcomm.security.daemons import (
    ALICE,
    BOB,
    CAROL,
    CLUSTER,
    EARLIER,
    FIRST,
    KEYS,
    aes_opener,
    aes_sealer,
    each_suite,
    opener,
    refused,
    sealer,
)

PURPOSE = b"groupcomm datagram v1"


@each_suite
@pytest.mark.parametrize("packet", [b"", b"x", b"packet" * 200])
@pytest.mark.parametrize("receiver", [None, BOB])
def test_what_was_sealed_comes_out(suite: int, packet: bytes, receiver: int | None) -> None:
    datagram = sealer(suite).seal(packet, receiver)
    assert len(datagram) <= HEAD_BYTES + len(packet) + SEAL_BYTES
    opened = opener(suite).open_untrusted(datagram)
    assert (opened.sender, opened.incarnation, opened.counter) == (ALICE, FIRST, 1)
    assert opened.packet == packet


@each_suite
@pytest.mark.parametrize("edge", [2**31, 2**32, 2**63, 2**64 - 3])
def test_counters_rise_by_one_over_every_edge(suite: int, edge: int) -> None:
    sender, receiver = sealer(suite, counter=edge - 2), opener(suite)
    datagrams = [sender.seal(b"p") for _ in range(4)]
    counters = [receiver.open_untrusted(datagram).counter for datagram in datagrams]
    assert counters == [edge - 1, edge, edge + 1, edge + 2]


@pytest.mark.parametrize("channel", Channel)
def test_the_layout_of_an_encrypted_datagram(channel: Channel) -> None:
    """Head, place, nonce, context and key, all written out."""
    for receiver, scope, named in ((None, 0, b""), (BOB, 1, struct.pack("!Q", BOB))):
        datagram = aes_sealer(counter=4).seal(b"packet", channel, receiver)
        head = struct.pack(
            "!BBBHQQQQQ", 1, 1, scope, 7, CLUSTER, ALICE, FIRST.restarts, FIRST.random_id, 5
        ) + struct.pack("!BI", channel, 0)
        assert datagram.startswith(head)
        key = derive_key(KEYS.keys[7], CLUSTER, ALICE, FIRST, channel, 0)
        nonce = struct.pack("!4xQ", 5)
        context = head + PURPOSE + named
        assert AESGCM(key).decrypt(nonce, datagram[len(head) :], context) == b"packet"


def test_the_layout_of_a_datagram_in_the_clear() -> None:
    assert google_crc32c.value(b"123456789") == 0xE3069283  # RFC 3720, CRC32C
    for receiver, scope, named in ((None, 0, b""), (BOB, 1, struct.pack("!Q", BOB))):
        datagram = sealer(SUITE_NONE).seal(b"packet", receiver)
        head = struct.pack(
            "!BBBHQQQQQ", 1, 0, scope, 0, CLUSTER, ALICE, FIRST.restarts, FIRST.random_id, 1
        )
        crc = google_crc32c.value(head + PURPOSE + named + b"packet")
        assert datagram == head + b"packet" + struct.pack("!I", crc)


def test_without_keys_only_the_suite_without_encryption_works() -> None:
    start = Start(name="a", incarnation=FIRST)
    for suite, keys, text in (
        (1, None, "needs a key ring"),
        (2, KEYS, "needs an identity"),
        (3, KEYS, "suite is 3; it must be 0"),
    ):
        with pytest.raises(ConfigError, match=text):
            make_protection(CoreConfig(suite=suite), start, keys, 0.0)
    plain = make_protection(CoreConfig(suite=0), start, None, 0.0)
    other = make_protection(CoreConfig(suite=0), Start(name="b", incarnation=FIRST), None, 0.0)
    opened = other.open_untrusted(plain.seal("b", b"p"))
    assert opened is not None
    assert opened.packet == b"p"


# ---- who may open what ----


@each_suite
def test_a_unicast_is_for_its_receiver_alone(suite: int) -> None:
    """Else a captured token could be given to a daemon that it was not meant for."""
    sender, bob, carol = sealer(suite), opener(suite), opener(suite, own=CAROL)
    token = sender.seal(b"token", BOB)
    assert refused(carol, token) == "tag"
    for scope in (0, 2, 255):
        assert refused(carol, token[:2] + bytes((scope,)) + token[3:]) == "tag"
        assert refused(bob, token[:2] + bytes((scope,)) + token[3:]) == "tag"
    assert bob.open_untrusted(token).packet == b"token"
    for_all = sender.seal(b"data")
    assert refused(bob, for_all[:2] + b"\1" + for_all[3:]) == "tag"
    assert [one.open_untrusted(for_all).packet for one in (bob, carol)] == [b"data"] * 2


@each_suite
def test_clusters_do_not_hear_each_other(suite: int) -> None:
    datagram = sealer(suite, cluster=CLUSTER + 1).seal(b"p")
    receiver = opener(suite)
    assert refused(receiver, datagram) == "cluster"
    renamed = datagram[:5] + struct.pack("!Q", CLUSTER) + datagram[13:]
    assert refused(receiver, renamed) == "tag"


def test_keys_decide_who_is_heard() -> None:
    receiver = opener()
    foreign = KeyRing({7: b"f" * 32, 8: b"f" * 32}, active=7)
    assert refused(receiver, sealer(keys=foreign).seal(b"p")) == "tag"
    unknown = KeyRing({8: b"f" * 32}, active=8)
    assert refused(receiver, sealer(keys=unknown).seal(b"p")) == "key"


def test_a_key_that_is_not_active_opens_too() -> None:
    """While keys change, daemons seal with different ones; counters go on."""
    receiver, sender = aes_opener(), aes_sealer(keys=KeyRing(KEYS.keys, 0))
    for active, counter in ((0, 1), (7, 2), (0, 3)):
        sender.use(KeyRing(KEYS.keys, active))
        datagram = sender.seal(b"p", Channel.RING)
        assert receiver.open_untrusted(datagram).counter == counter
        assert refused(receiver, datagram) == "replay"


def test_suites_and_versions_are_not_mixed() -> None:
    assert refused(opener(SUITE_NONE), sealer(SUITE_AES_GCM).seal(b"p")) == "suite"
    assert refused(opener(SUITE_AES_GCM), sealer(SUITE_NONE).seal(b"p")) == "suite"
    datagram = sealer().seal(b"p")
    for version in (0, 2, 255):
        assert refused(opener(), bytes((version,)) + datagram[1:]) == "version"


@each_suite
def test_a_daemon_ignores_itself_but_not_its_earlier_start(suite: int) -> None:
    receiver = opener(suite, own=ALICE)
    assert refused(receiver, sealer(suite).seal(b"p")) == "own"
    assert receiver.open_untrusted(sealer(suite, incarnation=EARLIER).seal(b"p")).sender == ALICE


# ---- what a receiver remembers ----


@each_suite
def test_a_datagram_is_opened_once(suite: int) -> None:
    sender, receiver = sealer(suite), opener(suite)
    first, second, third = (sender.seal(b"p") for _ in range(3))
    for datagram in (second, first, third):
        receiver.open_untrusted(datagram)
    for datagram in (first, second, third):
        assert refused(receiver, datagram) == "replay"


@each_suite
@pytest.mark.parametrize("known", [True, False])
def test_a_forged_counter_moves_no_window(suite: int, known: bool) -> None:
    sender, receiver = sealer(suite), opener(suite)
    before, genuine = sender.seal(b"p"), sender.seal(b"p")
    if known:
        receiver.open_untrusted(before)
    for counter in (2, 5000, 2**32, 2**63, 2**64 - 1):
        forged = genuine[:37] + struct.pack("!Q", counter) + genuine[45:-1] + b"?"
        assert refused(receiver, forged) == "tag"
    assert receiver.open_untrusted(genuine).counter == 2


@each_suite
def test_forged_senders_take_no_place(suite: int) -> None:
    receiver = opener(suite)
    datagram = sealer(suite).seal(b"p")
    for number in range(MAX_PEERS + 5):
        forged = datagram[:13] + struct.pack("!Q", number + 10) + datagram[21:]
        assert refused(receiver, forged) in ("tag", "busy")
    assert receiver.open_untrusted(datagram).packet == b"p"


def test_a_receiver_remembers_only_so_many_starts() -> None:
    receiver = PlainOpener(CLUSTER, (BOB, FIRST))
    starts = [Incarnation(number, number) for number in range(MAX_PEERS)]
    senders = [sealer(SUITE_NONE, incarnation=start) for start in starts]
    for sender in senders:
        receiver.open_untrusted(sender.seal(b"p"))
    late = sealer(SUITE_NONE, sender=CAROL)
    assert refused(receiver, late.seal(b"p")) == "full"
    assert receiver.open_untrusted(senders[0].seal(b"p")).counter == 2
    receiver.forget(ALICE, Incarnation(5, 6))  # nobody with this start exists
    receiver.forget(BOB, starts[5])
    assert refused(receiver, late.seal(b"p")) == "full"
    receiver.forget(ALICE, starts[5])
    assert receiver.open_untrusted(late.seal(b"p")).sender == CAROL


# ---- nonces ----


class RecordingCipher:
    """AES-GCM that notes every (key, nonce) it seals with."""

    used: list[tuple[bytes, bytes]]

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.cipher = AESGCM(key)

    def encrypt(self, nonce: bytes, data: bytes, context: bytes) -> bytes:
        self.used.append((self.key, nonce))
        return self.cipher.encrypt(nonce, data, context)


def test_no_nonce_is_used_twice_with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens to the restart count on disk: the random id makes every key new."""
    monkeypatch.setattr(RecordingCipher, "used", [], raising=False)
    monkeypatch.setattr(sealing, "AESGCM", RecordingCipher)
    starts = [
        Incarnation(1, 100),
        Incarnation(2, 101),  # the machine has restarted
        Incarnation(2, 102),  # the machine was cloned
        Incarnation(1, 103),  # the disk was rolled back
        Incarnation(0, 104),  # the disk was lost
    ]
    rekeying = Rekeying(epoch_packets=7)
    daemons = [
        aes_sealer(sender=number, incarnation=start, rekeying=rekeying)
        for number in (1, 2)
        for start in starts
    ]
    for count in range(50):
        for daemon in daemons:
            for channel in Channel:
                daemon.seal(b"packet", channel, None if count % 2 else BOB)
    assert daemons[0].epoch > 5
    assert len(RecordingCipher.used) == len(set(RecordingCipher.used)) == 2000


# ---- sizes ----


@each_suite
def test_sizes_are_limited(suite: int) -> None:
    receiver = opener(suite)
    assert refused(receiver, b"") == "short"
    assert refused(receiver, bytes(HEAD_BYTES - 1)) == "short"
    assert refused(receiver, bytes(MAX_DATAGRAM_BYTES + 1)) == "long"
    added = len(sealer(suite).seal(b""))
    sender = sealer(suite)
    largest = sender.seal(bytes(MAX_DATAGRAM_BYTES - added))
    assert len(receiver.open_untrusted(largest).packet) == MAX_DATAGRAM_BYTES - added
    assert refused(receiver, sender.seal(bytes(MAX_DATAGRAM_BYTES - added + 1))) == "long"
