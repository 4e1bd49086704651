"""Short rows of tokens: they come back, have one form, and what they leave no room for waits."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import BadDatagram
from groupcomm.wire.short_rows import decode_rows_untrusted, encode_rows
from groupcomm.wire.token import MAX_REQUESTS, Row, Token, decode_token_untrusted
from tests.groupcomm.wire.packets import KEY, U64

EDGES = st.sampled_from((0, 1, 63, 64, 2**32, 2**63 - 1, 2**63, 2**64 - 1))
TABLES = st.integers(1, 4).flatmap(
    lambda columns: st.lists(
        st.lists(U64 | EDGES, min_size=columns, max_size=columns), min_size=1, max_size=5
    )
)


@given(TABLES, st.binary(max_size=3))
def test_rows_come_back(table: list[list[int]], more: bytes) -> None:
    packet = b"head" + encode_rows(table)
    found = decode_rows_untrusted(packet + more, 4, len(table), len(table[0]))
    assert found == (table, len(packet))


@given(st.binary(max_size=40), st.integers(1, 4), st.integers(1, 3))
def test_any_bytes_are_rows_with_one_form_or_bad(packet: bytes, rows: int, columns: int) -> None:
    with contextlib.suppress(BadDatagram):
        table, end = decode_rows_untrusted(packet, 0, rows, columns)
        assert encode_rows(table) == packet[:end]


@pytest.mark.parametrize(
    "packet",
    [b"", b"\x80", b"\x80\x00", b"\xff" * 9 + b"\x02", b"\xff" * 10 + b"\x01"],
    ids=["none", "cut", "longer form", "65 bits", "11 bytes"],
)
def test_a_number_that_is_cut_or_too_long_is_refused(packet: bytes) -> None:
    with pytest.raises(BadDatagram):
        decode_rows_untrusted(packet, 0, 1, 1)


def test_rows_that_cannot_be_there_are_not_looked_for() -> None:
    with pytest.raises(BadDatagram, match="short"):
        decode_rows_untrusted(bytes(1000), 0, 1024, 66)


def token(rows: int, requests: int) -> Token:
    """A token of a busy ring: each daemon is a little further than the one before."""
    return Token(
        ring=0,
        hop=10**6,
        last=10**6,
        last_sender=1,
        clock=2**50,
        burst=10**6,
        rows=[
            Row(frontier=2**50 + 997 * at, sent=10_000 + at, held=[10**6 - 50 * (at % 7)])
            for at in range(rows)
        ],
        requests=[(0, 10**6 + 2 * at, 10**6 + 2 * at) for at in range(requests)],
        wanted=list(range(rows)),
        short=True,
    )


@pytest.mark.parametrize("requests", [0, 1, 20, MAX_REQUESTS])
def test_the_token_of_64_busy_daemons_fits_the_smallest_path(requests: int) -> None:
    asked = token(64, requests)
    packet = asked.encode(KEY, 1150)
    assert len(packet) <= 1150
    found = decode_token_untrusted(packet)
    assert found.requests == asked.requests[: len(found.requests)]
    assert len(found.requests) >= min(requests, 10)
    assert [(row.frontier, row.sent, row.held) for row in found.rows] == [
        (row.frontier, row.sent, row.held) for row in asked.rows
    ]
    asked.short = False
    assert len(asked.encode(KEY)) > 1340


def test_a_token_can_always_ask_for_something() -> None:
    assert len(decode_token_untrusted(token(200, 5).encode(KEY, 300)).requests) == 1
