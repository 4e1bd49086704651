"""To which log of an archive an answer belongs."""

import pytest

from groupcomm_archive.recording import NUMBER_BITS, log_of


def test_an_answer_belongs_to_the_log_that_has_asked() -> None:
    assert log_of(5, 3) == (0,)
    assert log_of((2 << NUMBER_BITS) + 5, 3) == (2,)


@pytest.mark.parametrize("number", [3 << NUMBER_BITS, -1, -(1 << NUMBER_BITS), -(2**63), 2**64 - 1])
def test_a_number_that_no_log_has_given_belongs_to_none(number: int) -> None:
    """Negative ones, too: any program may send them, and an archive goes on."""
    assert log_of(number, 3) == ()
