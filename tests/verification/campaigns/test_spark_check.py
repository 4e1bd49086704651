"""The verdicts of the campaign on Spark; `make campaigns` runs it."""

import pytest

from tests.verification.campaigns.spark_exactly_once import compare_rows
from tests.verification.campaigns.spark_workers import ROWS, check

WANTED = [b"ROW 1", b"ROW 2", b"ROW 10"]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (WANTED, None),
        ([*WANTED, b"ROW 2"], "1 twice, 0 missing, 0 strange, not in order"),
        (WANTED[1:], "0 twice, 1 missing, 0 strange, in order"),
        ([WANTED[1], WANTED[0], WANTED[2]], "0 twice, 0 missing, 0 strange, not in order"),
        ([*WANTED, b"ROW 11"], "0 twice, 0 missing, 1 strange, in order"),
    ],
)
def test_rows_that_are_twice_missing_or_out_of_order_are_found(
    given: list[bytes], what: str | None
) -> None:
    found = compare_rows("the receiver", WANTED, given)
    assert found == ([] if what is None else [f"the receiver has {len(given)} rows of 3: {what}"])


def test_rows_that_are_missing_and_a_worker_that_read_nothing_are_found() -> None:
    whole = [[row, f"worker{row % 2}"] for row in range(ROWS)]
    found = {"batch": whole, "stream": whole, "read": ROWS, "verified": ROWS, "damage": 0}
    assert check(found) == []
    lame = [[row, "worker0"] for row in range(ROWS - 1)]
    assert [each.split(":")[0] for each in check({**found, "stream": lame})] == ["stream"] * 2
    assert check({**found, "read": 0}) == [f"0 and {ROWS} rows, 0 damages"]
