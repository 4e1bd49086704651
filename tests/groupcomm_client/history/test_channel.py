"""The bytes of a channel: only its two ends can make them, and junk is refused."""

import struct
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm_client.history import channel as module
from groupcomm_client.history.channel import (
    CHUNK_BYTES,
    HELLO_BYTES,
    BadChannel,
    PieceOpener,
    PieceSealer,
    channel_of_untrusted,
    hello,
    is_proved,
)

ID, KEY = b"i" * 16, b"k" * 32


def opened(opener: PieceOpener, parts: list[bytes]) -> list[bytes]:
    found = []
    for length, chunk in zip(parts[::2], parts[1::2], strict=True):
        assert opener.expect_untrusted(length) == len(chunk)
        if (piece := opener.open_untrusted(chunk)) is not None:
            found.append(piece)
    return found


def test_pieces_of_any_size_survive_their_way() -> None:
    sealer, opener = PieceSealer(KEY), PieceOpener(KEY)
    pieces = [Random(5).randbytes(n) for n in (1, 100, CHUNK_BYTES, CHUNK_BYTES + 1, 1)]
    pieces.append(bytes(3 * CHUNK_BYTES))
    for piece in pieces:
        assert opened(opener, sealer.seal(piece)) == [piece]


def test_chunks_are_sealed_each_with_a_nonce_of_its_own() -> None:
    sealer = PieceSealer(KEY)
    first, second = sealer.seal(b"same"), sealer.seal(b"same")
    assert first[1] != second[1]
    assert b"same" not in first[1]


@pytest.mark.parametrize("change", ["bit", "length", "again", "skipped", "key", "joined"])
def test_a_changed_chunk_does_not_open(change: str) -> None:
    sealer = PieceSealer(b"o" * 32 if change == "key" else KEY)
    opener = PieceOpener(KEY)
    length, chunk = sealer.seal(b"piece")
    if change == "bit":
        chunk = bytes([chunk[0] ^ 1]) + chunk[1:]
    elif change == "length":
        (size,) = struct.unpack("!I", length)
        length = struct.pack("!I", size - 1)
        chunk = chunk[:-1]
    elif change == "joined":
        length = bytes([length[0] | 0x80]) + length[1:]
    elif change == "again":
        opened(opener, [length, chunk])
    elif change == "skipped":
        length, chunk = sealer.seal(b"piece")
    with pytest.raises(BadChannel):
        opened(opener, [length, chunk])


@pytest.mark.parametrize("size", [0, 16, CHUNK_BYTES + 17, 2**31 - 1])
def test_no_memory_is_taken_for_a_length_that_cannot_be(size: int) -> None:
    with pytest.raises(BadChannel):
        PieceOpener(KEY).expect_untrusted(struct.pack("!I", size))


def test_a_piece_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 10)
    monkeypatch.setattr(module, "MAX_PIECE_BYTES", 50)
    with pytest.raises(BadChannel, match="more than 50"):
        opened(PieceOpener(KEY), PieceSealer(KEY).seal(bytes(200)))


def test_a_hello_proves_the_key_of_its_channel() -> None:
    data = hello(ID, KEY)
    assert len(data) == HELLO_BYTES
    assert channel_of_untrusted(data) == ID
    assert is_proved(data, KEY)
    assert not is_proved(data, b"o" * 32)
    assert not is_proved(data.replace(ID, b"j" * 16), KEY)


@given(st.binary(max_size=80))
def test_other_bytes_are_no_hello(data: bytes) -> None:
    if len(data) == HELLO_BYTES:
        assert not is_proved(data, KEY)
    with pytest.raises(BadChannel):
        channel_of_untrusted(data)
