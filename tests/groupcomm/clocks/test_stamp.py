"""Positions as text: what a program writes down and gives back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Position, ViewId, format_position, parse_position

NUMBERS = st.integers(0, 2**40)


@given(NUMBERS, st.sampled_from(["a", "hall-2"]), NUMBERS, st.tuples(*[NUMBERS] * 4))
def test_a_position_goes_through_text(
    counter: int, daemon: str, number: int, place: tuple[int, int, int, int]
) -> None:
    position = Position(ViewId(counter, daemon, number), *place)
    assert parse_position(format_position(position)) == position


@pytest.mark.parametrize("text", ["", "7", "7.a.ff", "7.a.ff/1.2.3", "7.a.ff/1.2.3.x", "/1.2.3.4"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="position"):
        parse_position(text)
