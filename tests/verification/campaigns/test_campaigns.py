"""Short campaigns; `make campaigns` runs long ones."""

import re
from contextlib import suppress
from pathlib import Path

import pytest

from groupcomm_tools.local_cluster import ClusterError, LocalDaemon
from tests.groupcommd.namespaces import why_not
from tests.verification.campaigns import releases
from tests.verification.campaigns.runner import NotHere, figures_of, play

pytestmark = pytest.mark.verification


def test_never_two_hold_the_mutex() -> None:
    """Run the agreed form; tests of the mutex in the simulator run all forms."""
    found = figures_of("mutex --acquisitions 50 --kills 1")
    assert found["kills"] == 1
    assert found["per_program"] == [10] * 5


def test_who_leaves_the_mutex_normally_was_alone_though_its_host_stood_still() -> None:
    """Run one fault; the long form has all parts, loops and faults."""
    options = "--part mutex --loop trio --reconnect --fault host_stopped"
    (found,) = figures_of(f"tenures {options}")["combinations"]
    assert found["tenures"] > 2


@pytest.mark.long
def test_no_part_says_that_it_holds_what_others_hold() -> None:
    assert len(figures_of("tenures")["combinations"]) == 36


@pytest.mark.long
@pytest.mark.parametrize("part", ["requests", "work", "resource"])
def test_a_part_goes_on_after_its_daemon_stood_still(part: str) -> None:
    options = f"--part {part} --loop trio --reconnect --fault daemon_stopped"
    (found,) = figures_of(f"tenures {options}")["combinations"]
    counts = {"requests": "answered", "work": "done", "resource": "accepted_uses"}
    assert found[counts[part]] > 10


@pytest.mark.long
def test_hosts_that_vanish_are_left_in_time() -> None:
    if reason := why_not():
        with pytest.raises(NotHere, match=re.escape(reason)):
            play("vanished_hosts")
        return
    (found,) = figures_of("vanished_hosts --stopped-s")["rounds"]
    assert found.keys() == {
        *("idle_spread_s", "busy_spread_s", "http_s", "mutex_s", "name_s_after_that"),
        *("idle_s", "sending_s"),
    }


@pytest.mark.long
def test_starts_beside_burning_processes_part_nobody() -> None:
    assert figures_of("busy_starts --rounds 4 --burners 2")["transitional"] >= 4 * 8


@pytest.mark.long
def test_a_cluster_grows_and_shrinks_and_loses_nothing() -> None:
    found = figures_of("growing --daemons 4 --rate 100 --kills 1")
    assert found["steps"] == 4
    assert sum(found["kills"].values()) == 12
    assert found["received"] > 100


@pytest.mark.long
def test_a_subscriber_that_is_killed_gives_the_line() -> None:
    found = figures_of("history --rounds 3")
    assert found["kills"] == 3
    assert found["events"] > 500


@pytest.mark.long
def test_daemons_are_upgraded_and_go_back_one_by_one() -> None:
    """Print the reason if the history of the repository is not here, as in a shallow clone."""
    try:
        found = figures_of("rolling_upgrade --daemons 2 --programs 4 --rate 20")
    except NotHere as error:
        if "git fetch --unshallow" not in str(error):
            raise
        print(error)
        return
    assert found["steps"] == 4
    assert found["moves"] >= 4
    assert found["received"] > found["sent"] > 100


@pytest.mark.long
def test_an_upgrade_that_fails_says_why_and_leaves_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    try:
        found = play("rolling_upgrade", *few)
    except NotHere as error:
        if "git fetch --unshallow" not in str(error):
            raise
        print(error)
        return
    assert not found["passed"]
    assert found["violations"][0].startswith("this tree: it does not start; after 60 s")
    assert not [each for each in running() if str(tmp_path) in each]


def running() -> list[str]:
    """Return the command lines of all processes of this host."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            found.append(path.read_text(errors="replace"))
    return found


def test_a_release_that_is_not_in_the_history_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lost.toml").write_text(f'commit = "{"5" * 40}"\nhighest = 1\n')
    monkeypatch.setattr(releases, "RELEASES", tmp_path)
    with pytest.raises(NotHere, match="commit 555555555555 is not in this clone"):
        play("rolling_upgrade", "--release", "lost")


@pytest.mark.long
def test_what_was_acknowledged_is_in_the_store() -> None:
    found = figures_of("store --disasters 2 --rate 200")
    assert found["acknowledged"] > 50
    assert found["digests_compared"] >= 2, "no view was told of by all three"


@pytest.mark.long
def test_what_a_recorder_has_acknowledged_is_in_its_log() -> None:
    found = figures_of("recorder --kills 1 --rate 400")
    assert found["kills"] == 1
    assert found["gaps"] >= 1
    assert found["compared"] > 20


@pytest.mark.long
def test_programs_move_while_daemons_stop_in_turn() -> None:
    found = figures_of("drains --rounds 3 --programs 6 --rate 20")
    assert found["drains"] == 3
    assert found["moves_seen"] >= 3


@pytest.mark.long
def test_attackers_bring_about_nothing_and_no_views() -> None:
    few = "--seeds 1 --first 4 --duration-s 1 --workers 1"
    rows = figures_of(f"attackers {few} --suites 1 2 --roles program evicted")["rows"]
    assert [(row["role"], row["suite"]) for row in rows] == [
        ("program", 1),
        ("program", 2),
        ("evicted", 2),
    ]
    for row in rows:
        assert (row["seeds"], row["failed"]) == (2, ())
        assert row["without"] == (None if row["role"] == "evicted" else row["views"])


def test_threads_on_bus1_keep_order_and_causality() -> None:
    few = "--seconds 0 --producers 3 --receivers 2 --messages 30"
    found = figures_of(f"bus1 {few} --pause-ms 0.1 --switch-us 1")
    assert found["runs"] == 1
    assert 0 < found["messages"] <= 90
    assert found["sending_us"]["median"] <= found["sending_us"]["worst"]


@pytest.mark.long
def test_each_shared_job_is_done() -> None:
    found = figures_of("shared_work --jobs 2000 --workers 3 --kills 2")
    assert found["kills"] == 2
    assert found["done"] == 2000
