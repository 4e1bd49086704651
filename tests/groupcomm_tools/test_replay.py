"""Replay: what was recorded is sent once more, in its order and at its pace."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from groupcomm.errors import ConfigError
from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm_client import Connection, connect
from groupcomm_log.reader import LogReader
from groupcomm_log.schema import GAP, MESSAGE, rows_of
from groupcomm_log.writer import LogWriter
from groupcomm_tools.cli import main
from groupcomm_tools.commands.replay import parse_rate
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.recording.replay import Replay
from tests.groupcomm_tools.shell import Shell

BEGIN = datetime(2026, 1, 31, tzinfo=UTC)


def message(number: int, **other: Any) -> dict[str, Any]:
    return {
        "kind": MESSAGE,
        "received": BEGIN + timedelta(seconds=number),
        "groups": ["g"],
        "level": "AGREED",
        "type": number % 3,
        "data": b"%d" % number,
        **other,
    }


def write(folder: Path, *rows: dict[str, Any]) -> Path:
    writer = LogWriter(folder)
    for row in rows:
        writer.append(rows_of([row]))
    writer.close()
    return folder


@asynccontextmanager
async def a_member(group: str) -> AsyncIterator[tuple[Connection, Shell]]:
    """One program in a group of a daemon, and a shell for others."""
    async with LocalCluster("a") as cluster:
        address = str(cluster["a"].unix)
        async with connect(address) as member:
            await member.join(group)
            yield member, Shell(address)


async def received(member: Connection, count: int) -> list[Message]:
    found: list[Message] = []
    with trio.fail_after(20):
        while len(found) < count:
            found += [e for e in await member.receive_batch() if isinstance(e, Message)]
    return found


async def test_all_of_a_log_comes_in_its_order(tmp_path: Path) -> None:
    log = write(tmp_path, *(message(number) for number in range(500)))
    async with a_member("other") as (member, shell):
        words = ["replay", str(log), "--rate", "max", "--to", "other", "--json"]
        told = await trio.to_thread.run_sync(shell.tell, *words)
        assert told == (0, '{"sent": 500, "gaps": 0, "left_out": 0}\n', "")
        found = await received(member, 500)
    assert [(m.data, m.type, m.groups) for m in found] == [
        (b"%d" % number, number % 3, ("other",)) for number in range(500)
    ]
    assert {m.level for m in found} == {ServiceLevel.AGREED}


async def test_a_part_of_a_log_goes_to_where_it_was_sent_to(tmp_path: Path) -> None:
    log = write(
        tmp_path,
        message(0),
        message(1, groups=["#rec#a"]),
        {"kind": GAP, "cause": "restart", "data": b"{}"},
        message(2, groups=["g", "#rec#a", "h"], level="CAUSAL"),
        message(3),
    )
    async with a_member("g") as (member, shell):
        words = ["replay", str(log), "--rate", "max", "--from", "-3", "--count", "1"]
        told = await trio.to_thread.run_sync(shell.tell, *words)
        assert told[0] == 0
        assert told[2].splitlines() == [
            "1 messages sent, 1 gaps passed over",
            "1 private messages left out; --to sends them to a group",
        ]
        (found,) = await received(member, 1)
    assert (found.data, found.groups, found.level) == (b"2", ("g", "h"), ServiceLevel.CAUSAL)


class Notes:
    """A connection that writes down when what was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, list[bytes]]] = []

    async def multicast_many(self, groups: Any, messages: list[bytes], **options: Any) -> int:
        self.sent.append((trio.current_time(), messages))
        return len(messages)


@pytest.mark.parametrize(("speed", "times"), [(1.0, [0, 1, 4, 4]), (2.0, [0, 0.5, 2, 2])])
async def test_the_pace_is_that_of_the_recording(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, speed: float, times: list[float]
) -> None:
    log = write(tmp_path, *(message(number) for number in (3, 4, 7, 6)))
    notes = Notes()
    began = trio.current_time()
    batches = LogReader(log).batches()
    replay = Replay(batches, speed=speed, to=None, level=None, count=None)
    await replay.run(notes)  # type: ignore[arg-type]
    assert [round(at - began, 3) for at, _ in notes.sent] == times
    assert [data for _, data in notes.sent] == [[b"3"], [b"4"], [b"7"], [b"6"]]


async def test_messages_that_are_alike_go_together(tmp_path: Path) -> None:
    alike = [message(1, data=b"%d" % number) for number in range(4)]
    log = write(tmp_path, *alike[:3])
    writer = LogWriter(log)
    writer.append(rows_of(alike))
    writer.close()
    notes = Notes()
    replay = Replay(LogReader(log).batches(), speed=None, to="x", level=None, count=6)
    await replay.run(notes)  # type: ignore[arg-type]
    assert [data for _, data in notes.sent][-1] == [b"0", b"1", b"2"]
    assert replay.sent == 6


@pytest.mark.parametrize(("text", "speed"), [("max", None), ("1x", 1), ("2.5x", 2.5), ("3", 3)])
def test_a_rate_is_a_factor(text: str, speed: float | None) -> None:
    assert parse_rate(text) == speed


@pytest.mark.parametrize("text", ["", "x", "0x", "-1x", "nan", "infx", "fast"])
def test_a_rate_that_means_nothing_is_reported(text: str) -> None:
    with pytest.raises(ConfigError, match="it must be max, or a number above 0 such as 2x"):
        parse_rate(text)


def test_a_folder_without_a_log_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(tmp_path), "--rate", "max"]) == 1
    assert "there is no log" in capsys.readouterr().err
