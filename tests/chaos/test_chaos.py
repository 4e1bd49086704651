"""A short campaign of real kills, stops and partitions; `make chaos` runs a long one."""

import json

import pytest

from tests.chaos import campaign


def test_real_disasters_break_no_promise(capsys: pytest.CaptureFixture[str]) -> None:
    status = campaign.main(["--disasters", "4", "--rate", "300"])
    shown = capsys.readouterr()
    figures = json.loads(shown.out)
    assert (status, figures["violations"], figures["failures"]) == (0, 0, []), shown.err
    assert figures["disasters"] == 4
    assert figures["deliveries"] > 500
