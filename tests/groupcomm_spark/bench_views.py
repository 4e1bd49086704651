"""The memory of the driver's Python while a log of many views of a large group is verified.

    python -m tests.groupcomm_spark.bench_views --views 50000 --members 200

The last member leaves and joins again and again. Prints a line of JSON.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from groupcomm_log.schema import DAEMONS, GAP, ROWS, VIEW
from groupcomm_log.writer import LogWriter
from groupcomm_spark.session import open_session
from groupcomm_spark.verify.job import verify_folders
from tests.groupcomm_log.make import QuickDisk

BATCH = 2000
DAEMON_COUNT = 7
BEGIN_US = 1_700_000_000_000_000


def rows(views: int, members: int) -> Iterator[pa.RecordBatch]:
    names = [f"#member-{number}#daemon-{number % DAEMON_COUNT}/1" for number in range(members)]
    place = {"view": "1.daemon-0.1", "stamp": 0, "ring": 0, "bundle": 0, "message": 0}
    joined = {"groups": ["g"], "members": names, "changed": names[:1], "vs_set": names[:1]}
    daemons = [f"daemon-{number}" for number in range(DAEMON_COUNT)]
    first: list[dict[str, Any]] = [
        {"kind": GAP, "cause": "begin", "sender": names[0], "groups": ["g"], "data": b"{}"},
        {"kind": DAEMONS, "view": place["view"], "members": daemons, "cause": "majority"},
        {"kind": VIEW, "cause": "join", **place, **joined},
    ]
    yield pa.RecordBatch.from_pylist([{**row, "received": BEGIN_US} for row in first], ROWS)
    for start in range(0, views, BATCH):
        stamps = range(start + 1, min(start + BATCH, views) + 1)
        few = [stamp % 2 == 1 for stamp in stamps]
        columns = {
            "kind": [VIEW] * len(few),
            "received": [BEGIN_US + stamp for stamp in stamps],
            **{name: [value] * len(few) for name, value in place.items()},
            "stamp": list(stamps),
            "ring": [1] * len(few),
            "groups": [["g"]] * len(few),
            "members": _lists(names, [members - is_few for is_few in few]),
            "changed": [names[-1:]] * len(few),
            "cause": ["leave" if is_few else "join" for is_few in few],
            "vs_set": _lists(names, [members - 1] * len(few)),
        }
        full = {name: columns.get(name, [None] * len(few)) for name in ROWS.names}
        yield pa.RecordBatch.from_pydict(full, ROWS)


def _lists(names: list[str], sizes: list[int]) -> pa.Array:
    """The first names, so many each time."""
    places = np.concatenate([np.arange(size) for size in sizes])
    ends = np.cumsum([0, *sizes]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(names).take(pa.array(places)))


def measure(folder: Path) -> None:
    """Verify; this process is the driver."""
    spark = open_session("local[2]")
    began = time.monotonic()
    verdict = verify_folders(spark, [folder])
    assert verdict.holds, verdict.violations
    figures = {"rows": verdict.rows, "seconds": round(time.monotonic() - began)}
    print(json.dumps({**figures, "driver_mb": peak_mb()}))


def peak_mb() -> int:
    """The most memory of this process; that of `resource` counts the process that started it."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) // 1024


def main() -> None:
    """Make a log, and verify it in another process."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--views", type=int, default=50_000)
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
        return
    with TemporaryDirectory() as folder:
        writer = LogWriter(Path(folder), disk=QuickDisk())
        for batch in rows(options.views, options.members):
            writer.append(batch)
            writer.tend()
        writer.close()
        command = [sys.executable, "-m", "tests.groupcomm_spark.bench_views", "--measure", folder]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
