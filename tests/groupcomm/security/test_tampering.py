"""No datagram of any kind survives a change, and none changes what the receiver knows."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import BadDatagram
from groupcomm.security.layout import CHANNEL_OF, HEAD_BYTES, SUITE_AES_GCM
from tests.groupcomm.security.daemons import BOB, SUITES, each_suite, opener, refused, sealer
from tests.groupcomm.wire.packets import CODECS, KEY, Codec

each_kind = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.kind.name)
each_scope = pytest.mark.parametrize("receiver", [None, BOB], ids=["for all", "for one"])

EXPECTED = {"version", "suite", "cluster", "key", "channel", "epoch", "tag"}
SEALED_HEAD_BYTES = HEAD_BYTES + 5 + 16  # with channel, epoch and tag


@each_suite
@each_scope
@each_kind
def test_each_flipped_bit_is_noticed(suite: int, receiver: int | None, codec: Codec) -> None:
    packet = codec.example.encode(KEY)
    datagram = sealer(suite, channel=CHANNEL_OF[codec.kind]).seal(packet, receiver)
    target = opener(suite)
    for bit in range(8 * len(datagram)):
        flipped = bytearray(datagram)
        flipped[bit // 8] ^= 1 << bit % 8
        assert refused(target, bytes(flipped)) in EXPECTED
    assert target.open_untrusted(datagram).packet == packet


@each_suite
def test_each_flipped_bit_of_a_full_datagram_is_noticed(suite: int) -> None:
    packet = bytes(range(256)) * 6
    datagram = sealer(suite).seal(packet[:1340])
    assert 1380 < len(datagram) <= 1410
    target = opener(suite)
    whole, bits = int.from_bytes(datagram), 8 * len(datagram)
    for bit in range(bits):
        assert refused(target, (whole ^ 1 << bit).to_bytes(len(datagram))) in EXPECTED
    assert target.open_untrusted(datagram).packet == packet[:1340]


@each_suite
@each_scope
@each_kind
def test_each_truncation_and_extension_is_noticed(
    suite: int, receiver: int | None, codec: Codec
) -> None:
    packet = codec.example.encode(KEY)
    datagram = sealer(suite).seal(packet, receiver)
    target = opener(suite)
    least = SEALED_HEAD_BYTES if suite == SUITE_AES_GCM else HEAD_BYTES
    for size in range(len(datagram)):
        assert refused(target, datagram[:size]) == ("short" if size < least else "tag")
    for more in (b"\0", b"\xff", bytes(4), bytes(16), datagram):
        assert refused(target, datagram + more) == "tag"
    assert target.open_untrusted(datagram).packet == packet


@given(suite=st.sampled_from(SUITES), datagram=st.binary(max_size=100), data=st.data())
def test_any_bytes_are_bad(suite: int, datagram: bytes, data: st.DataObject) -> None:
    """Also behind a true head, where they reach the cipher."""
    target = opener(suite)
    head = sealer(suite).seal(b"")[: data.draw(st.integers(1, HEAD_BYTES))]
    for one in (datagram, head + datagram):
        with pytest.raises(BadDatagram):
            target.open_untrusted(one)


@each_suite
def test_parts_of_two_datagrams_do_not_fit_together(suite: int) -> None:
    sender, target = sealer(suite), opener(suite)
    first, second = sender.seal(b"one packet"), sender.seal(b"two packet")
    for at in range(HEAD_BYTES - 8, len(first)):
        mixed = first[:at] + second[at:]
        with contextlib.suppress(BadDatagram):
            assert target.open_untrusted(mixed).packet in {b"one packet", b"two packet"}
            assert mixed in {first, second}
