"""Daemons in namespaces with interfaces of their own, where this host allows it."""

import pytest

from tests.groupcommd import namespaces


@pytest.mark.long
def test_it_runs_or_says_why_it_cannot(capsys: pytest.CaptureFixture[str]) -> None:
    assert namespaces.main() == 0
    told = capsys.readouterr().out
    if reason := namespaces.why_not():
        assert told == f"namespaces: not run here: {reason}\n"
    else:
        assert "one was cut off and came back" in told
        assert "each was down for a while, and the view stayed" in told
        assert "packets in segments passed networks with MTU 1400, 1500, 9000" in told
