"""Daemons join by names, and their addresses change, where this host allows namespaces."""

import json

import pytest

from tests.groupcommd.namespaces import why_not
from tests.verification.campaigns import containers


@pytest.mark.long
def test_it_runs_or_says_why_it_cannot(capsys: pytest.CaptureFixture[str]) -> None:
    assert containers.main(["--rounds", "1"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    if reason := why_not():
        assert last == f"containers: not run here: {reason}"
    else:
        assert json.loads(last)["ok"]
