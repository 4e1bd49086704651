"""`groupcomm history cursors`: shown, moved and removed by hand."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupcomm.errors import LocalProtocolError
from groupcomm.events import Message
from groupcomm_client.blocking import connect
from groupcomm_client.history import Position, format_position
from groupcomm_tools.commands import cursors
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import ArchiveProcess
from tests.groupcomm_client.kinds import PATIENCE_S
from tests.groupcomm_tools.shell import Shell


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster(1) as daemons:
        yield daemons


@pytest.fixture
def shell(cluster: RunningCluster) -> Shell:
    return Shell(cluster.address("a"))


def read(cluster: RunningCluster, count: int) -> tuple[list[bytes], list[Position]]:
    """Read some messages with the cursor `bills`, and acknowledge them."""
    found: list[bytes] = []
    positions = []
    with (
        connect(cluster.address("a")) as connection,
        connection.subscribe("g", start="bills") as reading,
    ):
        while len(found) < count:
            event = reading.receive(PATIENCE_S)
            if isinstance(event, Message):
                found.append(event.data)
                assert reading.position is not None
                positions.append(reading.position)
        reading.acknowledge(wait=True)
    return found, positions


def test_cursors_are_shown_moved_and_removed(
    cluster: RunningCluster, shell: Shell, tmp_path: Path
) -> None:
    with ArchiveProcess(cluster.address("a"), tmp_path / "log", ["g"]) as archive:
        archive.until_live()
        assert shell.tell("history", "cursors", "list")[0] == 0
        with connect(cluster.address("a"), user="sender") as sender:
            for number in b"123":
                sender.multicast_ordered("g", bytes((number,)))
        data, positions = read(cluster, 2)
        assert data == [b"1", b"2"]
        status, output, _ = shell.tell("history", "cursors", "list", "--json")
        (found,) = json.loads(output)["cursors"]
        assert status == 0
        assert (found["name"], found["groups"]) == ("bills", ["g"])
        assert found["position"] == format_position(positions[1])
        text = shell.tell("history", "cursors", "show", "bills")[1]
        assert text.startswith(f"bills  g  {found['position']}  by #")

        def move(place: str) -> list[bytes]:
            assert shell.tell("history", "cursors", "move", "bills", place)[0] == 0
            return read(cluster, 1)[0]

        assert move(format_position(positions[0])) == [b"2"]
        ahead = f"9{format_position(positions[0])}"
        status, _, messages = shell.tell("history", "cursors", "move", "bills", ahead)
        assert status == 1
        assert f"{ahead} is ahead of the history: a cursor must be at a place" in messages
        assert move("earliest") == [b"1"]
        assert move("@0") == [b"1"]
        assert shell.tell("history", "cursors", "move", "bills", "now")[0] == 0
        with connect(cluster.address("a")) as sender:
            sender.multicast_ordered("g", b"4")
        assert read(cluster, 1)[0] == [b"4"]

        with (
            connect(cluster.address("a")) as connection,
            connection.subscribe("g", start="bills") as reading,
        ):
            connection.multicast("g", b"5")
            while not isinstance(reading.receive(PATIENCE_S), Message):
                pass
            assert shell.tell("history", "cursors", "remove", "bills", "--json")[:2] == (
                *(0, '{"removed": "bills"}\n'),
            )
            with pytest.raises(LocalProtocolError, match="moved or removed"):
                reading.acknowledge(wait=True)
        status, output, messages = shell.tell("history", "cursors", "show", "bills")
        assert (status, output) == (1, "")
        assert "there is no cursor bills" in messages
        assert read(cluster, 1)[0] == [b"1"], "it begins anew"


def test_without_an_archive_the_error_names_the_remedy(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursors, "WAIT_S", 0.2)
    for words in (("list",), ("show", "x"), ("move", "x", "now"), ("remove", "x")):
        status, _, messages = shell.tell("history", "cursors", *words)
        assert status == 1
        assert "groupcomm history serve" in messages


@pytest.mark.parametrize("place", ["latest", "soon"])
def test_no_place_is_wrong_usage(shell: Shell, place: str) -> None:
    status, _, messages = shell.tell("history", "cursors", "move", "x", place)
    assert status == 2
    assert "earliest, now" in messages
