"""The cost of many forgeries, and the share that present daemons keep."""

import pytest

from groupcomm.config.core import Rekeying
from groupcomm.config.view import incarnation_of
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import Channel
from groupcomm.security.opening import DERIVED_PER_S
from tests.groupcomm.security.daemons import (
    ALICE,
    EARLIER,
    FIRST,
    aes_opener,
    aes_sealer,
    each_suite,
    opener,
    refused,
    sealer,
)

SENDER = slice(13, 21)
START = slice(21, 37)
EPOCH = slice(46, 50)


def changed(datagram: bytes, part: slice, number: int) -> bytes:
    """The same with another number in a part of its head."""
    size = part.stop - part.start
    return datagram[: part.start] + number.to_bytes(size) + datagram[part.stop :]


@pytest.mark.parametrize("part", [SENDER, START, EPOCH], ids=["sender", "start", "epoch"])
def test_keys_are_derived_for_so_many_a_second(part: slice) -> None:
    receiver, sender = aes_opener(), aes_sealer()
    real, model = (sender.seal(b"p", Channel.RING) for _ in range(2))
    for number in range(DERIVED_PER_S):
        assert refused(receiver, changed(model, part, 10 + number)) == "tag"
    assert refused(receiver, changed(model, part, 5000)) == "busy"
    assert receiver.open_untrusted(real).packet == b"p", "who is known is heard all the same"
    receiver.now = 1.5 / DERIVED_PER_S
    reasons = [refused(receiver, changed(model, part, number)) for number in (6, 7, 8)]
    assert reasons == ["tag", "tag", "busy"]


def test_a_start_that_is_new_is_heard_a_second_later() -> None:
    receiver, real = aes_opener(), aes_sealer().seal(b"p", Channel.RING)
    stranger = aes_sealer(incarnation=incarnation_of(2, 9)).seal(b"p", Channel.RING)
    for number in range(DERIVED_PER_S):
        refused(receiver, changed(real, SENDER, 10 + number))
    assert refused(receiver, stranger) == "busy"
    receiver.now = 1.0
    assert not receiver.open_untrusted(stranger).proven


def test_forged_epochs_do_not_delay_the_next_one() -> None:
    short = Rekeying(epoch_packets=1)
    sender, receiver = aes_sealer(rekeying=short), aes_opener(rekeying=short)
    first, second, third, fourth = (sender.seal(b"p", Channel.RING) for _ in range(4))
    receiver.open_untrusted(first)
    for number in range(2 * DERIVED_PER_S):
        refused(receiver, changed(first[:44] + b"\xff" + first[45:], EPOCH, 5 + number))
        refused(receiver, second[:-1] + b"?")
    assert refused(receiver, fourth) == "busy"
    for following in (second, third, fourth):
        assert receiver.open_untrusted(following).packet == b"p"


@each_suite
def test_forged_starts_do_not_drive_out_those_in_use(suite: int) -> None:
    """They are compared by identity, and `incarnation_of` keeps those that were used lately."""
    kept = incarnation_of(FIRST.restarts, FIRST.random_id)
    receiver, real = opener(suite), sealer(suite, incarnation=EARLIER).seal(b"p")
    for number in range(DERIVED_PER_S + 500):
        refused(receiver, changed(real, START, 2**64 * number + 77))
    assert incarnation_of(FIRST.restarts, FIRST.random_id) is kept


def test_a_key_that_was_retired_opens_no_next_epoch() -> None:
    short = Rekeying(epoch_packets=1)
    sender, receiver = aes_sealer(rekeying=short), aes_opener(rekeying=short)
    first, second = (sender.seal(b"p", Channel.RING) for _ in range(2))
    receiver.open_untrusted(first)
    refused(receiver, second[:-1] + b"?")
    lanes = next(peer for peer in receiver._peers.values() if peer.sender == ALICE).lanes
    assert lanes[Channel.RING].coming
    receiver.use(KeyRing({0: bytes(32)}, active=0))
    assert refused(receiver, second) == "key"
    assert not lanes[Channel.RING].coming, "nothing is left of it"
