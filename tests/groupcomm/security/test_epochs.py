"""Epochs and channels: which key seals, which opens, and when one is gone."""

from typing import Final

import pytest

from groupcomm.config.core import Rekeying
from groupcomm.errors import ConfigError
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import Channel
from groupcomm.security.opening import MAX_PEERS
from tests.groupcomm.security.daemons import (
    ALICE,
    BOB,
    CAROL,
    EARLIER,
    FIRST,
    KEYS,
    aes_opener,
    aes_sealer,
    refused,
)

SHORT: Final = Rekeying(epoch_packets=3, epoch_s=10.0, lifetime_s=1.0, failures=5)
RING: Final = Channel.RING
EPOCH: Final = slice(46, 50)


def test_limits_are_above_zero() -> None:
    with pytest.raises(ConfigError, match=r"epoch_s is 0\.0; it must be above 0"):
        Rekeying(epoch_s=0.0)
    assert Rekeying().epoch_packets == 2**23, "RFC 9001, section 6.6"


def test_an_epoch_ends_after_so_many_packets_of_one_channel() -> None:
    sender, receiver = aes_sealer(rekeying=SHORT), aes_opener(rekeying=SHORT)
    sender.seal(b"p", Channel.LINK)
    datagrams = [sender.seal(b"p", RING) for _ in range(7)]
    assert [int.from_bytes(each[EPOCH]) for each in datagrams] == [0, 0, 0, 1, 1, 1, 2]
    assert int.from_bytes(sender.seal(b"p", Channel.LINK)[EPOCH]) == 2, "all channels change"
    assert [receiver.open_untrusted(each).counter for each in datagrams] == list(range(1, 8))


def test_an_epoch_ends_after_a_time() -> None:
    sender = aes_sealer(rekeying=SHORT)
    for now, epoch in ((9.9, 0), (10.0, 1), (19.9, 1), (20.0, 2), (95.0, 3)):
        sender.tick(now)
        assert sender.epoch == epoch


def test_the_key_before_opens_what_was_on_its_way_and_is_then_erased() -> None:
    sender, receiver = aes_sealer(rekeying=SHORT), aes_opener(rekeying=SHORT)
    old = [sender.seal(b"p", RING) for _ in range(3)]
    new = sender.seal(b"p", RING)
    receiver.open_untrusted(old[0])
    receiver.open_untrusted(new)
    receiver.now = 1.9
    receiver.tick()
    assert receiver.open_untrusted(old[1]).counter == 2
    receiver.now = 2.0
    assert refused(receiver, old[2]) == "epoch"
    for lane in next(iter(receiver._peers.values())).lanes.values():
        assert lane.old is None


def test_an_old_key_is_erased_without_any_datagram() -> None:
    sender, receiver = aes_sealer(rekeying=SHORT), aes_opener(rekeying=SHORT)
    for _ in range(4):
        receiver.open_untrusted(sender.seal(b"p", RING))
    lane = next(iter(receiver._peers.values())).lanes[RING]
    assert lane.old is not None
    receiver.now = 2.0
    receiver.tick()
    assert lane.old is None


def test_a_receiver_that_missed_many_epochs_finds_the_present_one() -> None:
    sender, receiver = aes_sealer(rekeying=SHORT), aes_opener(rekeying=SHORT)
    receiver.open_untrusted(sender.seal(b"p", RING))
    for _ in range(3000):
        sender.seal(b"p", RING)
    assert receiver.open_untrusted(sender.seal(b"p", RING)).counter == 3002


def test_a_forged_epoch_changes_nothing() -> None:
    sender, receiver = aes_sealer(), aes_opener()
    receiver.open_untrusted(sender.seal(b"p", RING))
    genuine = sender.seal(b"p", RING)
    for epoch in (1, 2, 2**31, 2**32 - 1):
        forged = genuine[:46] + epoch.to_bytes(4) + genuine[50:]
        assert refused(receiver, forged) == "tag"
    assert receiver.open_untrusted(genuine).counter == 2


def test_seals_that_do_not_fit_wear_a_key_out_until_the_next_epoch() -> None:
    sender, receiver = aes_sealer(rekeying=SHORT), aes_opener(rekeying=SHORT)
    receiver.open_untrusted(sender.seal(b"p", RING))
    genuine = sender.seal(b"p", RING)
    forged = genuine[:-1] + bytes((genuine[-1] ^ 1,))
    assert [refused(receiver, forged) for _ in range(6)] == ["tag"] * 5 + ["worn"]
    assert refused(receiver, genuine) == "worn"
    sender.tick(10.0)
    assert receiver.open_untrusted(sender.seal(b"p", RING)).counter == 3


@pytest.mark.parametrize("sealed", Channel)
@pytest.mark.parametrize("claimed", [0, 1, 2, 3, 4, 5, 255])
def test_what_is_sealed_for_one_channel_opens_on_no_other(sealed: Channel, claimed: int) -> None:
    receiver, datagram = aes_opener(), aes_sealer().seal(b"p", sealed)
    moved = datagram[:45] + bytes((claimed,)) + datagram[46:]
    for target in (receiver, aes_opener(knows=())):
        if claimed == sealed:
            assert target.open_untrusted(moved).channel == sealed
        else:
            assert refused(target, moved) == ("tag" if 1 <= claimed <= 4 else "channel")


def test_channels_have_windows_of_their_own() -> None:
    sender, receiver = aes_sealer(), aes_opener()
    late = sender.seal(b"late", Channel.LINK)
    for _ in range(5000):
        receiver.open_untrusted(sender.seal(b"p", RING))
    assert receiver.open_untrusted(late).packet == b"late"


# ---- strangers ----


def test_of_a_stranger_nothing_is_remembered() -> None:
    receiver, datagram = aes_opener(knows=()), aes_sealer().seal(b"p", RING)
    assert [receiver.open_untrusted(datagram).proven for _ in range(2)] == [False, False]
    assert receiver._peers == {}
    assert refused(receiver, datagram[:-1] + bytes((datagram[-1] ^ 1,))) == "tag"


def test_after_a_proof_all_that_was_sent_before_is_stale() -> None:
    sender, receiver = aes_sealer(), aes_opener(knows=())
    old = [sender.seal(b"p", channel) for channel in Channel for _ in range(3)]
    assert not receiver.trust(ALICE, FIRST, dict.fromkeys(Channel, 3))
    assert {refused(receiver, each) for each in old} == {"replay"}
    opened = receiver.open_untrusted(sender.seal(b"p", RING))
    assert (opened.proven, opened.counter) == (True, 4)


def test_starts_that_are_over_make_room_and_keep_their_windows_until_then() -> None:
    sender, receiver = aes_sealer(), aes_opener()
    datagram = sender.seal(b"p", RING)
    receiver.open_untrusted(datagram)
    receiver.forget(ALICE, FIRST)
    assert refused(receiver, datagram) == "replay"
    forgot = [receiver.trust(CAROL + n, FIRST, {}) for n in range(MAX_PEERS)]
    assert forgot.index(True) == MAX_PEERS - 2, "the two starts of Alice had places"
    assert not receiver.open_untrusted(datagram).proven
    assert len(receiver._peers) == MAX_PEERS


# ---- keys that come and go ----


def test_a_retired_key_opens_nothing_any_more() -> None:
    sender, receiver = aes_sealer(keys=KeyRing(KEYS.keys, 0)), aes_opener()
    receiver.open_untrusted(sender.seal(b"p", RING))
    late = sender.seal(b"p", RING)
    sender.use(KEYS)
    assert receiver.open_untrusted(sender.seal(b"p", RING)).counter == 3
    receiver.use(KeyRing({7: KEYS.keys[7]}, 7))
    assert refused(receiver, late) == "key"
    assert receiver.open_untrusted(sender.seal(b"p", RING)).counter == 4
    evicted = aes_sealer(keys=KeyRing({0: KEYS.keys[0]}, 0), sender=BOB, incarnation=EARLIER)
    assert refused(receiver, evicted.seal(b"p", RING)) == "key"
    pretends = aes_sealer(keys=KeyRing({7: KEYS.keys[0]}, 7), incarnation=EARLIER)
    assert refused(receiver, pretends.seal(b"p", RING)) == "tag"
