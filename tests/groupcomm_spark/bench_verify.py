"""The speed of verifying logs: ``python -m tests.groupcomm_spark.bench_verify --rows 2000000``

Logs of two receivers are made, then read by Spark as any others. Beside the time that passes, the
time of processors is told: it is about the same on a busy host.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from groupcomm_log.schema import ROWS
from groupcomm_log.writer import LogWriter
from groupcomm_spark.logs import read
from groupcomm_spark.session import open_session
from groupcomm_spark.verify.files import check_files
from groupcomm_spark.verify.job import compare_agreed, verify
from tests.groupcomm_log.make import QuickDisk
from tests.groupcomm_spark.histories import History

PAYLOAD_BYTES = 100
BATCH = 20_000
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Make, verify, tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of both logs together")
    parser.add_argument("--rounds", type=int, default=3, help="the first one warms up")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="bench-verify-") as folder:
        logs = make(Path(folder), options.rows)
        figures = measure(logs, options.master, options.rounds)
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name}: {value}")


def make(folder: Path, rows: int) -> list[Path]:
    """Sealed logs of two receivers."""
    for name, table in History(rows // 2, payload=PAYLOAD_BYTES).logs().items():
        writer = LogWriter(folder / name, disk=QuickDisk())
        for batch in table.select(ROWS.names).to_batches(BATCH):
            writer.append(batch)
            writer.tend()
        writer.close()
    return sorted(folder.iterdir())


def measure(folders: list[Path], master: str, rounds: int) -> dict[str, object]:
    """Return the last round's rows a second, by the clock and by one processor's."""
    spark = open_session(master, name="bench_verify")
    logs = read(spark, *folders)
    rows = logs.count()
    figures: dict[str, object] = {"rows": rows, "master": master}

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        began, worked = time.monotonic(), processor_s()
        yield
        seconds, work = time.monotonic() - began, processor_s() - worked
        figures[name] = {
            "rows_per_s": round(rows / seconds),
            "rows_per_processor_s": round(rows / max(work, 0.01)),
            "seconds": round(seconds, 2),
        }

    for _ in range(rounds):
        with timed("compare_agreed"):
            assert compare_agreed(logs).holds
        with timed("files"):
            check_files(spark, folders)
        with timed("verify"):
            assert verify(logs, stage=timed).holds
    spark.stop()
    return figures


def processor_s() -> float:
    """Return the time of this process and its children, without those that have ended unseen."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has ended
        process = int(path.parent.name)
        children.setdefault(int(fields[1]), []).append(process)
        ticks[process] = sum(map(int, fields[11:15]))
    waiting, found = [os.getpid()], 0
    while waiting:
        process = waiting.pop()
        found += ticks.get(process, 0)
        waiting += children.get(process, [])
    return found / TICKS


if __name__ == "__main__":
    main()
