"""Tokens sort as positions do; whether they rise is seen in the simulator."""

from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.config.view import MAX_RINGS
from groupcomm_client.coordination.tokens import (
    BUNDLE_BITS,
    COUNTER_BITS,
    RING_BITS,
    TOKEN_BITS,
    token_of,
)

numbers = st.integers(0, 2**COUNTER_BITS - 1)
positions = st.builds(
    Position,
    st.builds(ViewId, numbers, st.just("a"), st.just(1)),
    numbers,
    st.integers(0, 2**RING_BITS - 1),
    st.integers(0, 2**BUNDLE_BITS - 1),
    st.just(0),
)


@given(one=positions, other=positions)
def test_tokens_sort_as_positions_do(one: Position, other: Position) -> None:
    assert (token_of(one) < token_of(other)) == (one < other)


@given(at=positions)
def test_a_token_has_32_digits_that_sort_like_it_and_38_decimal_ones(at: Position) -> None:
    token = token_of(at)
    assert len(f"{token:032x}") == 32
    assert len(str(token)) <= 38
    assert 0 <= token < 2**TOKEN_BITS


def test_the_parts_are_wide_enough() -> None:
    """Each bundle of a packet has at least 21 bytes, and no datagram has more than 64 KiB."""
    assert MAX_RINGS <= 2**RING_BITS
    assert 2**BUNDLE_BITS > 65_536 / 21
