"""What a program printed is compared with what its page says."""

import pytest

from tests.documentation.output import described_length, is_as_expected


@pytest.mark.parametrize(
    ("expected", "printed", "fits"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a  \nb", True),
        ("a\nb\n", "a\nc\n", False),
        ("a\n", "a\nb\n", False),
        ("a ... c\n", "a b b c\n", True),
        ("a ... c\n", "a b\nb c\n", False),
        ("a\n...\nc\n", "a\nb\nb\nc\n", True),
        ("a\n...\nc\n", "a\nc\n", True),
        ("a\n...\n", "a\nb\nc\n", True),
        ("...\n", "", True),
        ("a.c (1)\n", "abc (1)\n", False),
    ],
)
def test_three_dots_stand_for_anything(expected: str, printed: str, fits: bool) -> None:
    assert is_as_expected(expected, printed) == fits


def test_a_program_that_goes_on_is_described_from_the_start_on() -> None:
    assert described_length("one\n", "one\ntwo\n") == 4
    assert described_length("two\n", "one\ntwo\n") is None
    assert described_length("...\ntwo\n", "one\ntwo\nthree\n") == 8
    assert described_length("on\n", "one\n") is None
    assert described_length("two\n", "\ntwo\nthree\n") == 5
