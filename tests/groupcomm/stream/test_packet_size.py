"""Packet size: large while nothing is lost, small where segments are, safe in a black hole."""

from random import Random

import pytest

from groupcomm.config.view import SAFE_PACKET_BYTES
from groupcomm.stream.packet_size import NARROW_S, SEALED_BYTES, PacketSize

USUAL = 1340 + SEALED_BYTES
SAFE = SAFE_PACKET_BYTES + SEALED_BYTES
JUMBO, LOOPBACK = 8972, 65_507


def size_of(path: int | None = None, most: int = 60_000) -> PacketSize:
    size = PacketSize(1340)
    if path is not None:
        size.use_path(path)
    size.begin_view(most)
    return size


def after(loss: float, visits: int = 3000, path: int = 1472) -> PacketSize:
    """Return the size after many visits in which this share of the segments was lost."""
    size, rng = size_of(path), Random(1)
    for _ in range(visits):
        count = max(1, 256 * 1024 // size.bytes)
        lost = sum(rng.random() > (1 - loss) ** size.segments for _ in range(count))
        size.numbered = count
        size.token_returned(count * size.bytes, lost * size.bytes, 0.0)
    return size


def test_nothing_changes_without_segments() -> None:
    size = size_of(most=1340)
    for _ in range(100):
        size.token_returned(10_000, 10_000, 0.0)
    size.end_view()
    assert (size.bytes, size.datagram_bytes, size.segments) == (1340, USUAL, 1)


@pytest.mark.parametrize(("path", "datagram"), [(1472, USUAL), (1372, 1372), (JUMBO, JUMBO)])
def test_paths_are_used_as_far_as_they_matter(path: int, datagram: int) -> None:
    size = size_of(path)
    assert (size.bytes, size.datagram_bytes) == (60_000, datagram)
    assert size.segments == -(-(60_000 + SEALED_BYTES) // (datagram - 29))


def test_loopback_needs_no_segments() -> None:
    size = size_of(LOOPBACK)
    assert (size.bytes, size.least, size.segments) == (60_000, 60_000, 1)


@pytest.mark.parametrize(
    ("loss", "least", "most"),
    [(0.0, 60_000, 60_000), (0.001, 40_000, 60_000), (0.01, 5_000, 60_000), (0.3, 1340, 1340)],
)
def test_packets_are_as_large_as_losses_allow(loss: float, least: int, most: int) -> None:
    assert least <= after(loss).bytes <= most


def test_a_single_loss_decides_nothing() -> None:
    size = size_of()
    for _ in range(10):
        size.numbered = 1
        size.token_returned(60_000, 0, 0.0)
    size.token_returned(60_000, 60_000, 0.0)
    assert size.bytes == 60_000


def test_packets_grow_again_when_losses_end() -> None:
    size = after(0.3)
    for _ in range(300):
        size.numbered = 200
        size.token_returned(200 * size.bytes, 0, 0.0)
    assert size.bytes == 60_000


def test_packets_of_large_bundles_count_with_what_they_have() -> None:
    size = size_of()
    for _ in range(200):
        size.numbered = 4
        size.token_returned(4 * 24_000, 2 * 24_000, 0.0)
    assert size.bytes == 1340
    assert size.usual == 24_000
    assert size.segments > 10


def test_a_black_hole_is_left_in_two_steps_and_tried_again_later() -> None:
    size = size_of(JUMBO)
    found = []
    for _ in range(3):
        size.sent_in_vain(5.0)
        found.append(size.datagram_bytes)
    assert found == [USUAL, SAFE, SAFE]
    size.token_returned(0, 0, 5.0 + NARROW_S - 0.1)
    assert size.datagram_bytes == SAFE
    size.token_returned(0, 0, 5.0 + NARROW_S)
    assert size.datagram_bytes == JUMBO


def test_loopback_has_no_black_holes() -> None:
    size = size_of(LOOPBACK)
    size.sent_in_vain(0.0)
    assert size.datagram_bytes == LOOPBACK


def test_datagrams_are_safe_while_views_change() -> None:
    size = size_of(JUMBO)
    size.end_view()
    assert size.datagram_bytes == SAFE
    size.begin_view(60_000)
    assert (size.datagram_bytes, size.bytes) == (JUMBO, 60_000)
    size.sent_in_vain(0.0)
    size.end_view()
    size.begin_view(60_000)
    assert size.datagram_bytes == USUAL, "what was found counts in the next view, too"


def test_a_view_without_segments_has_small_packets() -> None:
    size = size_of()
    size.begin_view(1340)
    assert size.bytes == 1340
    size.begin_view(60_000)
    assert size.bytes == 60_000
