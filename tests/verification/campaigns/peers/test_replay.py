"""The comparison of histories measures ours, and names what is not installed."""

import pytest

from tests.verification.campaigns.peers import replay


@pytest.mark.long
def test_ours_is_measured() -> None:
    figures = replay.measure_ours(2000, 2)
    assert set(figures) == {"replay", "durable_ms", "restart_ms"}
    assert min(figures.values()) > 0


def test_what_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"replay": 1.0, "durable_ms": 2.0, "restart_ms": 3.0}
    monkeypatch.setattr(replay, "measure_ours", lambda *_: own)
    monkeypatch.setattr(replay, "not_installed", lambda *_: "not installed; buy it")
    assert replay.measure(1, 2, 1) == {"ours": [own, own]}
    assert "NATS JetStream is not measured: not installed; buy it" in capsys.readouterr().err
