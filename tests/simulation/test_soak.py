"""`make soak` in small: hunts, keeps failures, and goes on where it stopped."""

import time
from pathlib import Path
from typing import Any

import pytest

from groupcomm.sim import known_bugs
from groupcomm.sim.variants.bug import KnownBug
from groupcomm.stream.stream import Stream
from tests.simulation import soak
from tests.simulation.soak import FIRST_NEW_SEED, Soak


def not_sixty(right: Any) -> Any:
    """A bug that shows only in some seeds."""

    def accept(stream: Stream, packet: Any) -> bool:
        assert packet.number != 60, "packet 60 is not accepted"
        return bool(right(stream, packet))

    return accept


BUG = KnownBug(
    name="sixty",
    sentence="Packet 60 breaks the stream.",
    targets=((Stream, "accept"),),
    variant=not_sixty,
)


@pytest.fixture
def _bug(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (known_bugs, soak):
        monkeypatch.setattr(module, "KNOWN_BUGS", (BUG,))


@pytest.mark.usefixtures("_bug")
def test_a_hunt_finds_the_bug_and_remembers_it(tmp_path: Path) -> None:
    first = Soak(tmp_path, workers=1, duration_s=2.5).hunt("sixty", seeds=30)
    assert first.seed == first.tried
    assert first.properties == ["assert"]
    again = Soak(tmp_path, workers=1, duration_s=2.5).hunt("sixty", seeds=30)
    assert again == first


@pytest.mark.usefixtures("_bug")
def test_a_hunt_goes_on_where_it_stopped_unless_the_sources_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = Soak(tmp_path, workers=1, duration_s=0.01).hunt("sixty", seeds=2)
    assert (stopped.tried, stopped.seed) == (2, None)  # nothing happens in so short a run
    assert Soak(tmp_path, workers=1, duration_s=2.5).hunt("sixty", seeds=30).tried > 2
    monkeypatch.setattr(soak, "digest_of_sources", lambda: "other sources")
    assert Soak(tmp_path, workers=1, duration_s=2.5).state.hunts == {}


@pytest.mark.usefixtures("_bug")
def test_new_seeds_are_never_run_twice_and_failures_are_kept(tmp_path: Path) -> None:
    for _ in range(2):
        run = Soak(tmp_path, workers=1, duration_s=0.1)
        run.run_new_seeds(time.monotonic() + 0.3)
    assert run.state.next_seed > FIRST_NEW_SEED
    assert run.state.failed == []
    with BUG.active():
        run = Soak(tmp_path, workers=1, duration_s=2.5)
        before = run.state.next_seed
        run.run_new_seeds(time.monotonic() + 3.0)
    assert run.state.next_seed > before
    assert run.state.failed
    kept = (tmp_path / f"seed-{run.state.failed[0]}.txt").read_text()
    assert "packet 60 is not accepted" in kept
    assert "Settings(seed=" in kept


@pytest.mark.usefixtures("_bug")
def test_the_command_fails_if_a_bug_was_not_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--folder", str(tmp_path), "--minutes", "0", "--workers", "1"]
    assert soak.main([*common, "--hunt-seeds", "1", "--duration-s", "0.01"]) == 1
    assert "sixty: NOT FOUND, 1 seeds tried" in capsys.readouterr().out
    assert soak.main([*common, "--hunt-seeds", "30", "--duration-s", "2.5"]) == 0
    assert "sixty: seed " in capsys.readouterr().out
