"""Tokens by columns: they come back, fit the packet whatever they hold, and tell all in turn."""

import contextlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.config.view import MAX_RINGS, MOST_OF_SITE, SAFE_PACKET_BYTES
from groupcomm.errors import BadDatagram
from groupcomm.wire.columns import (
    MOST_NUMBER,
    MOST_TIME,
    TURNS,
    Far,
    decode_column_untrusted,
    encode_column,
    far_columns,
)
from groupcomm.wire.token import MAX_REQUESTS, MOST_WANTED, Row, Token, decode_token_untrusted
from tests.groupcomm.wire.packets import KEY, U64

COLUMNS = st.lists(U64 | st.sampled_from((0, 1, 2**32, 2**64 - 1)), min_size=1, max_size=5)


@given(COLUMNS, st.binary(max_size=3))
def test_a_column_comes_back(numbers: list[int], more: bytes) -> None:
    packet = b"head" + encode_column(numbers)
    assert decode_column_untrusted(packet + more, 4, len(numbers)) == (numbers, len(packet))


@given(COLUMNS | st.lists(st.integers(1, 300), min_size=1), st.integers(0, 2**20) | st.just(9))
def test_a_column_tells_its_least_number_and_of_the_others_never_more(
    numbers: list[int], most: int
) -> None:
    packet = encode_column(numbers, most)
    found, _ = decode_column_untrusted(packet, 0, len(numbers), most)
    least = min(filter(None, numbers), default=0)
    assert found == [min(number, least + most) for number in numbers]


@given(st.binary(max_size=40), st.integers(1, 4))
def test_any_bytes_are_a_column_with_one_form_or_bad(packet: bytes, rows: int) -> None:
    with contextlib.suppress(BadDatagram):
        numbers, end = decode_column_untrusted(packet, 0, rows)
        assert encode_column(numbers) == packet[:end]


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"\x80",
        b"\x80\x00",
        b"\xfe" + b"\xff" * 8 + b"\x07",
        b"\xff" * 10 + b"\x01",
        b"\x03\x02\x03",
        b"\x03\x01\x01",
        b"\x03\x01\x80\x80\x01",
        b"\x01\x00\x01",
        b"\x03\x00\x00",
    ],
    ids=[
        *("none", "cut", "longer", "65 bits", "11 bytes"),
        *("no least", "all equal", "too far apart", "least 0", "all 0"),
    ],
)
def test_a_column_that_could_not_be_written_is_refused(packet: bytes) -> None:
    with pytest.raises(BadDatagram):
        decode_column_untrusted(packet, 0, 2, MOST_NUMBER)


def token(rows: int, columns: int, *, requests: int = 0, seed: int = 1) -> Token:
    """A token of a busy ring in a busy cluster that has run for long."""
    rng = Random(seed)
    ring = rng.randrange(max(1, columns - 1))
    return Token(
        ring=ring,
        hop=2**40,
        last=10**9,
        last_sender=1,
        clock=2**51,
        burst=10**6,
        rows=[
            Row(
                frontier=2**51 + rng.randrange(MOST_TIME),
                sent=rng.randrange(10**6 // rows),
                held=[2**60 + rng.randrange(MOST_NUMBER) for _ in range(columns)],
            )
            for _ in range(rows)
        ],
        requests=[(0, 10**6 + 2 * at, 10**6 + 2 * at) for at in range(requests)],
        wanted=list(range(rows)),
        far=Far(0, len(far_columns(ring, columns)), 0),
    )


SHAPES = [(64, 1), (MOST_OF_SITE, 1), (MOST_OF_SITE, 3), (10, 101), (4, MAX_RINGS + 1), (1, 256)]


@pytest.mark.parametrize("limit", [100, 600, SAFE_PACKET_BYTES])
@pytest.mark.parametrize("requests", [0, 1, 20, MAX_REQUESTS])
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_a_token_fits_each_path_whatever_the_sizes(
    rows: int, columns: int, requests: int, limit: int
) -> None:
    asked = token(rows, columns, requests=requests)
    packet = asked.encode(KEY, limit)
    assert len(packet) <= max(limit, 159 + 12 * rows) <= SAFE_PACKET_BYTES
    found = decode_token_untrusted(packet)
    assert found.far is not None
    assert found.far.told >= min(len(far_columns(asked.ring, columns)), 1)
    assert found.requests == asked.requests[: len(found.requests)]
    assert len(found.requests) >= min(requests, 1)
    assert found.wanted == asked.wanted[:MOST_WANTED]
    assert [row.sent for row in found.rows] == [row.sent for row in asked.rows]
    assert [row.frontier for row in found.rows] == [row.frontier for row in asked.rows]
    near = {asked.ring, columns - 1}
    for row, told in zip(asked.rows, found.rows, strict=True):
        assert all(told.held[place] == row.held[place] for place in near)
        assert all(told.held[place] in (row.held[place], 0) for place in range(columns))


@pytest.mark.parametrize(
    ("rows", "columns", "limit"),
    [(*shape, SAFE_PACKET_BYTES) for shape in SHAPES] + [(MOST_OF_SITE, 3, 100), (8, 12, 100)],
)
def test_each_far_column_has_its_turn_of_two_rounds(rows: int, columns: int, limit: int) -> None:
    passed, far = token(rows, columns), far_columns(token(rows, columns).ring, columns)
    runs, waiting, visits = dict.fromkeys(far, 0), set(far), 0
    while waiting:
        assert passed.far is not None
        passed.far = passed.far.passed(rows, len(far))
        found = decode_token_untrusted(passed.encode(KEY, limit))
        for place in far:
            runs[place] = runs[place] + 1 if found.rows[0].held[place] else 0
        waiting -= {place for place in far if runs[place] >= TURNS * rows}
        passed.far = found.far
        visits += 1
        assert visits <= 3 * TURNS * rows * len(far), "all daemons of the ring have seen it in time"


def test_what_a_token_leaves_out_is_known_from_the_one_before() -> None:
    before, now = token(3, 5), token(3, 5, seed=2)
    now.ring = before.ring
    expected = [
        Row(
            frontier=max(row.frontier, known.frontier),
            sent=row.sent,
            held=[max(pair) for pair in zip(row.held, known.held, strict=True)],
        )
        for row, known in zip(now.rows, before.rows, strict=True)
    ]
    now.keep(before.rows)
    assert [(r.frontier, r.sent, r.held) for r in now.rows] == [
        (r.frontier, r.sent, r.held) for r in expected
    ]
