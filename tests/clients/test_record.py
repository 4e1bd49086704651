"""The recorder: what was delivered is in Parquet files, whole, in order, behind a restart too."""

import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import trio

from groupcomm.events import Cause, GroupView, MemberId, Message
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm_client import Connection, connect
from groupcomm_client.local_cluster import LocalCluster
from groupcomm_spark.segments import RecordError, SegmentWriter, segments


def message(number: int) -> Message:
    return Message(
        sender=MemberId("#ann#a", 7),
        number=number,
        groups=("g",),
        level=ServiceLevel.UNRELIABLE,
        type=3,
        data=b"%d" % number,
        bundle=None,
    )


def rows(folder: Path) -> list[dict[str, Any]]:
    """All rows of a folder, in order."""
    found: list[dict[str, Any]] = []
    for first, last in segments(folder):
        table = pq.read_table(
            folder / f"{first:015d}-{last:015d}.parquet", page_checksum_verification=True
        )
        assert [row["row"] for row in table.to_pylist()] == list(range(first, last + 1))
        found += table.to_pylist()
    return found


def start(unix: Path, folder: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "groupcomm_client.cli", "record", "g", "--to", str(folder)]
    return subprocess.Popen(
        [*command, "--address", str(unix), *more], stderr=subprocess.PIPE, text=True
    )


async def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    with trio.fail_after(20):
        _, error = await trio.to_thread.run_sync(process.communicate)
    return process.returncode, error


async def until_joined(connection: Connection) -> None:
    """Wait for one more member."""
    with trio.fail_after(20):
        async for event in connection:
            if isinstance(event, GroupView) and event.cause is Cause.JOIN and not event.own:
                return


async def test_what_is_delivered_is_in_files(tmp_path: Path) -> None:
    async with LocalCluster("a") as cluster, connect(str(cluster["a"].unix), user="ann") as ann:
        await ann.join("g")
        recorder = start(cluster["a"].unix, tmp_path / "log", "--file-rows", "4", "--count", "6")
        await until_joined(ann)
        for level in LEVELS:
            await ann.multicast(["g", "other"], level.name.encode(), level=level, type=7)
        status, told = await end(recorder)
        assert (status, told) == (0, f"6 messages are in 2 files in {tmp_path / 'log'}\n")
        again = start(cluster["a"].unix, tmp_path / "log")
        await until_joined(ann)
        place = await ann.multicast("g", b"once more", ordered=True)
        await trio.sleep(0.2)
        again.send_signal(signal.SIGTERM)
        assert (await end(again))[0] == 0
    found = rows(tmp_path / "log")
    assert sorted(row["level"] for row in found[:6]) == sorted(level.name for level in LEVELS)
    assert {tuple(row["groups"]) for row in found[:6]} == {("g", "other")}
    assert {row["type"] for row in found[:6]} == {7}
    assert found[6]["data"] == b"once more"
    assert found[6]["sender"].startswith("#ann#a/")
    assert (found[6]["view"], found[6]["stamp"]) == (str(place.position.view), place.position.time)
    assert [row["view"] is None for row in found[:6]].count(True) == 1, "UNRELIABLE has no place"


def test_a_new_writer_goes_on_behind_whole_files(tmp_path: Path) -> None:
    SegmentWriter(tmp_path).write([1, 2], [message(1), message(2)])
    (tmp_path / ".000000000000002-000000000000009.parquet.new").write_bytes(b"torn")
    writer = SegmentWriter(tmp_path)
    assert writer.next_row == 2
    writer.write([3], [message(3)])
    assert [row["data"] for row in rows(tmp_path)] == [b"1", b"2", b"3"]
    assert not list(tmp_path.glob(".*"))


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = SegmentWriter(tmp_path).write([1] * 500, [message(number) for number in range(500)])
    data = bytearray(path.read_bytes())
    data[len(data) // 8] ^= 1
    path.write_bytes(data)
    with pytest.raises(OSError, match=r"CRC|checksum|Corrupt"):
        rows(tmp_path)


def test_a_full_disk_is_told_with_the_rows_that_are_missing(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(RecordError, match=r"2 messages from row 0 on are not on disk: .*large"):
            writer.write([1, 2], [message(1), message(2)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    writer.write([3], [message(3)])
    assert [row["data"] for row in rows(tmp_path)] == [b"3"]
