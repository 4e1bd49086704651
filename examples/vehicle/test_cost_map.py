"""Copies of the map follow the original, whatever they miss."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.vehicle.cost_map import (
    CELLS,
    TILES,
    Copy,
    Original,
    Traffic,
    decode_untrusted,
    encode,
    place_of,
)

SIDE = st.integers(-100, CELLS + 100)
STEPS = st.lists(
    st.tuples(SIDE, SIDE, st.integers(0, 150), st.integers(0, 150), st.integers(0, 255)), max_size=8
)


@given(steps=STEPS, pieces=st.integers(1, 1024), lost=st.sets(st.integers(0, 16)))
def test_a_copy_that_is_whole_is_the_map_of_its_version(
    steps: list[tuple[int, int, int, int, int]], pieces: int, lost: set[int]
) -> None:
    original, copy, maps = Original(), Copy(), {}
    for number, step in enumerate(steps):
        original.fill(*step)
        messages = [original.delta(), original.piece(number * pieces, pieces)]
        maps[original.version] = bytes(original.cells)
        for index, message in enumerate(messages):
            if 2 * number + index not in lost:
                copy.apply(decode_untrusted(message))
        assert not copy.is_whole or copy.version is None or copy.cells == maps[copy.version]
    for first in range(0, TILES, pieces):
        copy.apply(decode_untrusted(original.piece(first, pieces)))
    assert copy.is_whole
    assert (copy.version, copy.checksum) == (original.version, original.checksum)


def test_what_is_missed_is_noticed_and_pieces_repair_it() -> None:
    original, copy = Original(), Copy()
    copy.apply(decode_untrusted(original.piece(0, TILES)))
    assert copy.is_whole
    original.fill(0, 0, 10, 10, 1)
    original.delta()  # this delta is lost
    original.fill(500, 500, 10, 10, 2)
    copy.apply(decode_untrusted(original.delta()))
    assert (copy.is_whole, copy.gaps) == (False, 1)
    copy.apply(decode_untrusted(original.piece(0, 600)))
    original.fill(10, 0, 10, 10, 3)  # a tile that a delta brings between two pieces stays known
    copy.apply(decode_untrusted(original.delta()))
    assert not copy.is_whole
    copy.apply(decode_untrusted(original.piece(600, TILES - 600)))
    assert (copy.is_whole, copy.gaps, copy.cells) == (True, 1, original.cells)


def test_what_is_old_changes_nothing() -> None:
    original, copy = Original(), Copy()
    original.fill(0, 0, 10, 10, 1)
    old = original.delta()
    original.fill(0, 0, 10, 10, 2)
    original.delta()
    copy.apply(decode_untrusted(original.piece(0, TILES)))
    copy.apply(decode_untrusted(old))
    assert (copy.is_whole, copy.version, copy.cells) == (True, 2, original.cells)


def test_only_tiles_that_changed_are_sent() -> None:
    original = Original()
    original.fill(60, 10, 10, 10, 7)  # a change over the edge of two tiles
    assert set(decode_untrusted(original.delta()).tiles) == {0, 1}
    assert decode_untrusted(original.delta()).tiles == {}


def test_a_rectangle_fills_its_cells_and_no_others() -> None:
    original = Original()
    original.fill(120, 50, 20, 30, 9)
    inside = {place_of(x, y) for x in range(120, 140) for y in range(50, 80)}
    assert len(inside) == 600
    assert all(original.cells[place] == 9 for place in inside)
    assert sum(original.cells) == 9 * 600


def test_traffic_changes_little_of_the_map() -> None:
    original, traffic = Original(), Traffic(seed=1)
    traffic.step(original)
    original.delta()
    traffic.step(original)
    assert 12 <= len(decode_untrusted(original.delta()).tiles) <= 100


@given(data=st.binary())
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    try:
        found = decode_untrusted(data)
    except ValueError:
        return
    assert encode(found.version, found.base, found.tiles) == data


@pytest.mark.parametrize("damage", ["cut", "bit"])
def test_damage_is_refused(damage: str) -> None:
    good = encode(5, 5, {3: bytes(4096)})
    assert decode_untrusted(good).tiles[3] == bytes(4096)
    bad = good[:-1] if damage == "cut" else good[:-1] + b"\x01"
    with pytest.raises(ValueError, match="damaged"):
        decode_untrusted(bad)


def test_a_map_of_one_tile_too_many_is_refused() -> None:
    with pytest.raises(ValueError, match="has not"):
        decode_untrusted(encode(1, 0, {TILES: bytes(4096)}))
