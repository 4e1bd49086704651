"""Real archives compare what they hold, and `groupcomm history status` shows it."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from groupcomm.level import ServiceLevel
from groupcomm_archive.digesting import DIGESTS
from groupcomm_client.blocking import connect
from groupcomm_log.disk import Disk
from groupcomm_log.names import list_segments
from groupcomm_log.sealed import read_sealed, seal
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import STEADY, ArchiveProcess

ALTERED = b"to be altered"

pytestmark = pytest.mark.long


@pytest.fixture
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("ab", settings=STEADY) as running:
        yield running


def status(address: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "groupcomm_tools.cli", "history", "status", "orders"]
    done = subprocess.run(
        [*command, "--json", "--address", address], capture_output=True, text=True, check=False
    )
    found: dict[str, Any] = json.loads(done.stdout)["archives"]
    return done.returncode, found


def altered(folder: Path) -> None:
    """Change the data of one message, as somebody who repairs all checksums would."""
    Path(folder / DIGESTS).unlink()
    for segment in list_segments(folder):
        table = pa.Table.from_batches(read_sealed(segment, None))
        rows = table.to_pylist()
        hit = [row for row in rows if row["data"] == ALTERED]
        if hit:
            hit[-1]["data"] = b"something else"
            segment.path.unlink()
            seal(Disk(), folder, pa.Table.from_pylist(rows, table.schema).to_batches())
            return
    raise AssertionError("no file has the message")


def test_archives_that_agree_and_one_that_was_altered(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    folders = {name: tmp_path / name for name in "ab"}

    def archive(name: str) -> ArchiveProcess:
        return ArchiveProcess(cluster.address(name), folders[name], ["orders"])

    with archive("a") as first:
        first.until_live()
        with archive("b") as second:
            second.until_live()
            compared: dict[str, Any] = {}
            limit = time.monotonic() + 90
            while len(compared) < 2 or any(each["upto"] is None for each in compared.values()):
                assert time.monotonic() < limit, compared
                # The range in which an archive has begun is not compared.
                with connect(cluster.address("a")) as sender:
                    sender.multicast_ordered("orders", ALTERED, level=ServiceLevel.SAFE)
                state, found = status(cluster.address("b"))
                assert state == 0
                compared = {
                    name: each
                    for name, report in found.items()
                    for each in report["groups"]["orders"]["compared"].values()
                }
            assert second.end() == 0
        altered(folders["b"])
        with archive("b") as second:
            second.until(lambda: any(each["event"] == "differs" for each in second.reported))
            told = next(each for each in second.reported if each["event"] == "differs")
            assert told["group"] == "orders"
            assert told["events"] == told["events_there"]
            assert status(cluster.address("a"))[0] == 1
