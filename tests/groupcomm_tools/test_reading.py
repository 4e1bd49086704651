"""`groupcomm sub --start` and `groupcomm history read`: from any place on, up to any other one."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from groupcomm.errors import ConfigError
from groupcomm_client.blocking import connect
from groupcomm_client.history import EARLIEST, LATEST, subscription
from groupcomm_tools.commands import reading
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import ArchiveProcess
from tests.groupcomm_tools.shell import Shell

COUNT = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster(1) as daemons:
        yield daemons


@pytest.fixture(scope="module")
def middle(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[datetime]:
    """A time between two halves of the messages, while an archive serves them."""
    store = tmp_path_factory.mktemp("archive") / "log"
    with ArchiveProcess(cluster.address("a"), store, ("g", "h")) as archive:
        archive.until_live()
        with connect(cluster.address("a")) as sender:
            for number in range(COUNT // 2):
                sender.multicast_ordered("g", b"%d" % number)
            time.sleep(0.3)
            middle = datetime.now(UTC)
            for number in range(COUNT // 2, COUNT):
                sender.multicast_ordered("g", b"%d" % number)
        yield middle


@pytest.fixture
def shell(cluster: RunningCluster) -> Shell:
    return Shell(cluster.address("a"))


def read(shell: Shell, *words: str) -> list[dict[str, Any]]:
    """Run `sub --json`; return its messages."""
    status, output, messages = shell.tell("sub", "g", "--json", *words)
    assert (status, messages) == (0, "")
    found = [json.loads(line) for line in output.splitlines()]
    return [each for each in found if each["event"] == "message"]


def numbers(found: list[dict[str, Any]]) -> list[int]:
    return [int(each["data"]) for each in found]


def test_history_ends_now(shell: Shell, middle: datetime) -> None:
    status, output, messages = shell.tell("sub", "g", "--start", "earliest", "--until", "now")
    assert status == 0
    lines = [line.split() for line in output.splitlines()]
    assert [line[-1] for line in lines] == [str(number) for number in range(COUNT)]
    positions = [reading.parse_start(line[0]) for line in lines]
    assert len(set(positions)) == COUNT
    assert messages.startswith("caught up at ")


def test_a_script_goes_on_behind_the_last_message(shell: Shell, middle: datetime) -> None:
    found = read(shell, "--start", "earliest", "--count", "7")
    assert numbers(found) == [*range(7)]
    assert all(each["next_start"] == each["position"] for each in found)
    rest = read(shell, "--start", found[-1]["next_start"], "--until", "now")
    assert numbers(rest) == [*range(7, COUNT)]


def test_a_position_is_the_last_one_that_is_printed(shell: Shell, middle: datetime) -> None:
    everything = read(shell, "--start", "earliest", "--until", "now")
    until = everything[12]["position"]
    found = read(shell, "--start", everything[2]["position"], "--until", until)
    assert numbers(found) == [*range(3, 13)]
    assert read(shell, "--start", "latest", "--until", until) == []


def test_a_time_divides_history_in_two(shell: Shell, middle: datetime) -> None:
    at = f"@{middle.isoformat()}"
    assert numbers(read(shell, "--start", "earliest", "--until", at)) == [*range(COUNT // 2)]
    assert numbers(read(shell, "--start", at, "--until", "now")) == [*range(COUNT // 2, COUNT)]
    assert read(shell, "--start", "earliest", "--until", "@0") == []


def test_views_and_places_are_events_of_json(shell: Shell, middle: datetime) -> None:
    for words in (("sub", "g", "--views"), ("history", "read", "g")):
        output = shell.tell(*words, "--start", "earliest", "--until", "now", "--json")[1]
        found = [json.loads(line) for line in output.splitlines()]
        assert {each["event"] for each in found} >= {"group view", "message", "caught up"}
        assert found[-1]["event"] == "caught up"
        assert found[-1]["next_start"] == found[-1]["position"]


def test_bytes_and_formats_are_those_of_sub(shell: Shell, middle: datetime) -> None:
    history = ("sub", "g", "--start", "earliest", "--count", "2", "--format")
    assert shell.tell(*history, "{sender}|{data}")[1].count("|") == 2
    assert shell.tell(*history, "{data}\\0")[1] == "0\x001\x00"


def test_messages_are_exported_by_an_archive(shell: Shell, middle: datetime) -> None:
    wanted = read(shell, "--start", "earliest", "--until", f"@{middle.isoformat()}")
    words = ("g", "--until", f"@{middle.isoformat()}")
    status, output, messages = shell.tell("history", "export", *words)
    assert status == 0
    assert messages == f"{COUNT // 2} messages, 0 gaps; the last is at {wanted[-1]['position']}\n"
    for line, message in zip(output.splitlines(), wanted, strict=True):
        found = json.loads(line)
        assert found == {name: message[name] for name in found}
    assert set(found) == {"position", "groups", "sender", "type", "level", "data"}


def test_a_gap_is_an_event(cluster: RunningCluster, shell: Shell, middle: datetime) -> None:
    before_all = "1.a.0/0.0.0.0"
    start = ("--start", before_all, "--gap-wait-s", "0")
    output, messages = shell.tell("sub", "g", *start, "--until", "now")[1:]
    assert len(output.splitlines()) == COUNT
    assert f"gap: events after {before_all} may be missing, up to " in messages
    output = shell.tell("sub", "g", *start, "--count", "1", "--json")[1]
    gap = json.loads(output.splitlines()[0])
    assert (gap["event"], gap["after"]) == ("gap", before_all)
    assert gap["next_start"] == gap["upto"]


def test_a_place_ahead_of_the_history_is_told_by_every_command(
    shell: Shell, middle: datetime
) -> None:
    ahead = ahead_of(read(shell, "--start", "earliest", "--count", "1")[0]["position"])
    for words in (
        ("sub", "g"),
        ("sub", "g", "--stable"),
        ("history", "read", "g", "h"),
        ("history", "export", "g"),
    ):
        status, output, messages = shell.tell(*words, "--start", ahead)
        assert (status, output) == (1, "")
        assert f"{ahead} is ahead of the history of g" in messages
        assert "it is a place of another cluster, or" in messages
        status, output, messages = shell.tell(*words, "--start", "earliest", "--until", ahead)
        assert (status, output) == (2, "")
        assert f"--until {ahead} is still to come, or is a place of another cluster" in messages


def ahead_of(position: str) -> str:
    view, _, rest = position.partition(".")
    return f"{int(view) + 10**12}.{rest}"


class Waiting:
    """A subscription that gives an event once it was asked some times."""

    def __init__(self, *waits: bool) -> None:
        self.waits = list(waits)
        self.waits_for_archive = self.misses_archive = False

    def receive(self, timeout_s: float | None = None) -> str:
        if timeout_s is None or not self.waits:
            return "event"
        self.waits_for_archive = self.waits.pop(0)
        raise TimeoutError


@pytest.mark.parametrize(("waits", "told"), [([False, True], 1), ([False], 0), ([], 0)])
def test_who_waits_for_an_archive_is_told_once(
    waits: list[bool], told: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert str(reading._receive(cast(Any, Waiting(*waits)))) == "event"
    assert capsys.readouterr().err.count("waiting for one that may come back") == told


def test_without_an_archive_the_status_is_1(
    shell: Shell, middle: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "FOUND_S", 1.0)
    monkeypatch.setattr(reading, "LOOK_S", 0.02)
    for words in (("--start", "earliest"), ("--start", "latest", "--until", "@0")):
        status, output, messages = shell.tell("sub", "nobody", *words)
        assert (status, output) == (1, "")
        assert "groupcomm history serve" in messages
        assert ("no archive has answered yet" in messages) == (words[1] == "earliest")


def test_live_events_need_no_archive(shell: Shell) -> None:
    words = ("sub", "nobody", "--start", "latest", "--duration-s", "1", "--views", "--json")
    status, output, _ = shell.tell(*words)
    assert status == 0
    assert json.loads(output.splitlines()[0])["event"] == "caught up"


def test_places_have_four_forms() -> None:
    assert reading.parse_start("earliest") is EARLIEST
    assert reading.parse_start("latest") is LATEST
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for text in ("@2026-01-31T12:00", "@2026-01-31T13:00+01:00", f"@{noon.timestamp()}"):
        assert reading.parse_start(text) == reading.parse_until(text) == noon
    for text in ("", "soon", "@soon", "1.a.0/0", "@1e99", "earliest "):
        with pytest.raises(ConfigError, match="it must be earliest, latest"):
            reading.parse_start(text)
        with pytest.raises(ConfigError, match="it must be now"):
            reading.parse_until(text)
    with pytest.raises(ConfigError, match="still to come"):
        reading.parse_until("@9999-01-01")


def test_an_end_needs_a_start() -> None:
    status, _, messages = Shell("/nowhere/x").tell("sub", "g", "--until", "now")
    assert status == 2
    assert "need --start" in messages
