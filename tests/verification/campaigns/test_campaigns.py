"""Short campaigns; `make campaigns` runs long ones."""

import json
from contextlib import suppress
from pathlib import Path

import pytest

from groupcomm_tools.local_cluster import ClusterError, LocalDaemon
from tests.groupcommd.namespaces import why_not
from tests.verification.campaigns import (
    attackers,
    bus1,
    busy_starts,
    drains,
    growing,
    history,
    mutex,
    recorder,
    releases,
    rolling_upgrade,
    shared_work,
    store,
    tenures,
    vanished_hosts,
)

pytestmark = pytest.mark.verification


def test_never_two_hold_the_mutex(capsys: pytest.CaptureFixture[str]) -> None:
    """Run the agreed form; tests of the mutex in the simulator run all forms."""
    status = mutex.main(["--acquisitions", "50", "--kills", "1"])
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (status, found["violations"], found["kills"]) == (0, [], 1), shown.err
    assert found["per_program"] == [10] * 5


def test_who_leaves_the_mutex_normally_was_alone_though_its_host_stood_still(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Run one fault; the long form has all parts, loops and faults."""
    options = ["--part", "mutex", "--loop", "trio", "--reconnect", "--fault", "host_stopped"]
    status = tenures.main(options)
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (status, found["violations"]) == (0, []), shown.err
    assert found["tenures"] > 2


@pytest.mark.long
def test_no_part_says_that_it_holds_what_others_hold(capsys: pytest.CaptureFixture[str]) -> None:
    status = tenures.main([])
    shown = capsys.readouterr()
    found = [json.loads(line) for line in shown.out.splitlines()]
    assert (status, len(found)) == (0, 36), shown.out + shown.err


@pytest.mark.long
@pytest.mark.parametrize("part", ["requests", "work", "resource"])
def test_a_part_goes_on_after_its_daemon_stood_still(
    part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = tenures.main(
        ["--part", part, "--loop", "trio", "--reconnect", "--fault", "daemon_stopped"]
    )
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (status, found["violations"]) == (0, []), shown.err
    counts = {"requests": "answered", "work": "done", "resource": "accepted_uses"}
    assert found[counts[part]] > 10


@pytest.mark.long
def test_hosts_that_vanish_are_left_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    status = vanished_hosts.main(["--stopped-s"])
    shown = capsys.readouterr()
    if reason := why_not():
        assert (status, shown.err) == (2, f"not here: {reason}\n")
        return
    found = json.loads(shown.out.splitlines()[-1])
    assert status == 0, shown.out
    assert found.keys() == {
        *("idle_spread_s", "busy_spread_s", "http_s", "mutex_s", "name_s_after_that"),
        *("idle_s", "sending_s"),
    }


@pytest.mark.long
def test_starts_beside_burning_processes_part_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    status = busy_starts.main(["--rounds", "4", "--burners", "2"])
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (status, found["violations"], found["partings"]) == (0, [], []), shown.err
    assert found["transitional"] >= 4 * 8


@pytest.mark.long
def test_a_cluster_grows_and_shrinks_and_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    status = growing.main(["--daemons", "4", "--rate", "100", "--kills", "1"])
    shown = capsys.readouterr()
    found = json.loads(shown.out.splitlines()[-1])
    assert (status, found["violations"], found["steps"]) == (0, [], 4), shown.err
    assert sum(found["kills"].values()) == 12
    assert found["received"] > 100


@pytest.mark.long
def test_a_subscriber_that_is_killed_gives_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    status = history.main(["--rounds", "3"])
    shown = capsys.readouterr()
    found = json.loads(shown.out.splitlines()[-1])
    assert (status, found["violations"], found["kills"]) == (0, [], 3), shown.err
    assert found["events"] > 500


@pytest.mark.long
def test_daemons_are_upgraded_and_go_back_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Print the reason if the history of the repository is not here, as in a shallow clone."""
    status = rolling_upgrade.main(["--daemons", "2", "--programs", "4", "--rate", "20"])
    shown = capsys.readouterr()
    if status == 2:
        assert "git fetch --unshallow" in shown.err
        print(shown.err)
        return
    found = json.loads(shown.out.splitlines()[-1])
    assert (status, found["violations"], found["steps"]) == (0, [], 4), shown.err
    assert found["moves"] >= 4
    assert found["received"] > found["sent"] > 100


@pytest.mark.long
def test_an_upgrade_that_fails_says_why_and_leaves_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that went on would keep the output open, so that its reader waits for ever."""
    start, starts = LocalDaemon.start, 0

    async def fail(daemon: LocalDaemon, within_s: float = 15.0) -> None:
        nonlocal starts
        starts += 1
        if starts == 3:
            raise ClusterError("it does not start")
        await start(daemon, within_s)

    monkeypatch.setattr(LocalDaemon, "start", fail)
    few = ["--daemons", "2", "--programs", "2", "--traces", str(tmp_path)]
    status = rolling_upgrade.main(few)
    shown = capsys.readouterr()
    if status == 2:
        assert "git fetch --unshallow" in shown.err
        print(shown.err)
        return
    (violation,) = json.loads(shown.out.splitlines()[-1])["violations"][:1]
    assert violation.startswith("this tree: it does not start; after 60 s")
    assert not [each for each in running() if str(tmp_path) in each]


def running() -> list[str]:
    """Return the command lines of all processes of this host."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            found.append(path.read_text(errors="replace"))
    return found


def test_a_release_that_is_not_in_the_history_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lost.toml").write_text(f'commit = "{"5" * 40}"\nhighest = 1\n')
    monkeypatch.setattr(releases, "RELEASES", tmp_path)
    assert rolling_upgrade.main(["--release", "lost"]) == 2
    assert "commit 555555555555 is not in this clone" in capsys.readouterr().err


@pytest.mark.long
def test_what_was_acknowledged_is_in_the_store(capsys: pytest.CaptureFixture[str]) -> None:
    status = store.main(["--disasters", "2", "--rate", "200"])
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (status, found["violations"]) == (0, []), shown.err
    assert found["acknowledged"] > 50
    assert found["digests_compared"] >= 2, "no view was told of by all three"


@pytest.mark.long
def test_what_a_recorder_has_acknowledged_is_in_its_log(capsys: pytest.CaptureFixture[str]) -> None:
    status = recorder.main(["--kills", "1", "--rate", "400"])
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (status, found["violations"], found["kills"]) == (0, [], 1), shown.err
    assert found["gaps"] >= 1
    assert found["compared"] > 20


@pytest.mark.long
def test_programs_move_while_daemons_stop_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    status = drains.main(["--rounds", "3", "--programs", "6", "--rate", "20"])
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (status, found["violations"], found["drains"]) == (0, [], 3), shown.err
    assert found["moves_seen"] >= 3


@pytest.mark.long
def test_attackers_bring_about_nothing_and_no_views(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--seeds", "1", "--first", "4", "--duration-s", "1", "--workers", "1"]
    assert attackers.main([*few, "--suites", "1", "2", "--roles", "program", "evicted"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["role", "suite", "seeds", "views", "without", "failed"]
    assert [row.split()[:2] for row in rows] == [
        ["program", "1"],
        ["program", "2"],
        ["evicted", "2"],
    ]
    for row in rows:
        role, _, seeds, views, without, failed = row.split()
        assert (seeds, failed) == ("2", "0")
        assert without == ("-" if role == "evicted" else views)


def test_threads_on_bus1_keep_order_and_causality(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--seconds", "0", "--producers", "3", "--receivers", "2", "--messages", "30"]
    assert bus1.main([*few, "--pause-ms", "0.1", "--switch-us", "1"]) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (found["runs"], shown.err) == (1, "")
    assert 0 < found["messages"] <= 90
    assert found["sending_us"]["median"] <= found["sending_us"]["worst"]


@pytest.mark.long
def test_each_shared_job_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    status = shared_work.main(["--jobs", "2000", "--workers", "3", "--kills", "2"])
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (status, found["violations"], found["kills"]) == (0, [], 2), shown.err
    assert found["done"] == 2000
