"""Rows of a log a second that Spark reads, on one processor or two, and through a cluster.

    python -m tests.groupcomm_spark.bench_source --rows 2000000 --json

makes a log as a recorder fills it, reads all of it in several ways, each once to warm up and then
three times in turn, and prints the medians, beside those of Spark's own reader of the same folder.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

import groupcomm_spark
from groupcomm_log.reader import LogReader
from groupcomm_log.schema import MESSAGE, ROWS
from groupcomm_log.writer import LogWriter
from groupcomm_spark.session import open_session
from tests.groupcomm_log.make import QuickDisk
from tests.groupcomm_spark.standalone import standalone

BATCH: Final = 2000
PAYLOAD_BYTES: Final = 100
_LEVELS: Final = ("FIFO", "CAUSAL", "AGREED", "AGREED", "SAFE")


def make_log(folder: Path, rows: int) -> None:
    """A log of messages of five senders; half of each payload is random."""
    writer = LogWriter(folder, disk=QuickDisk())
    chance = random.Random(1)
    for start in range(0, rows, BATCH):
        writer.append(_batch(start, min(BATCH, rows - start), chance))
        writer.tend()
    writer.close()


def _batch(start: int, count: int, chance: random.Random) -> pa.RecordBatch:
    """Bundles of ten messages each, as one append of a recorder."""
    numbers = range(start, start + count)
    senders = [number // 10 % 5 for number in numbers]
    levels = [_LEVELS[sender] for sender in senders]
    half = b'{"symbol": "ABCD", "price": 101.25, "size": 100, "'[: PAYLOAD_BYTES // 2]
    columns: dict[str, list[Any]] = {
        "kind": [MESSAGE] * count,
        "received": [1_700_000_000_000_000 + start * 25] * count,
        "view": ["00000000000000070000001234567890"] * count,
        "stamp": [2**60 + number // 10 * 1000 for number in numbers],
        "ring": [1 + sender % 2 for sender in senders],
        "bundle": [number // 10 % 3 for number in numbers],
        "message": [number % 10 for number in numbers],
        "sender": [f"#sender{sender}#daemon-{sender}/1" for sender in senders],
        "number": [number // 50 * 10 + number % 10 for number in numbers],
        "groups": [["prices"] if sender else ["prices", "audit"] for sender in senders],
        "level": levels,
        "type": senders,
        "data": [half + chance.randbytes(PAYLOAD_BYTES - len(half)) for _ in numbers],
        "causal_context": [
            [number] if level == "FIFO" else [number, 2**60 + number * 100, 1, number, number]
            for number, level in zip(numbers, levels, strict=True)
        ],
    }
    full = {name: columns.get(name, [None] * count) for name in ROWS.names}
    return pa.RecordBatch.from_pydict(full, schema=ROWS)


# ---- one configuration, in a process of its own ----


QUESTIONS: Final[dict[str, Callable[[DataFrame], DataFrame]]] = {
    "all": lambda frame: frame,
    "groupBy": lambda frame: frame.groupBy("sender", "level").count(),
    "count": lambda frame: frame.groupBy().count(),
    "where": lambda frame: frame.where("row < 1000"),
}


def measure(master: str, folder: Path, rounds: int) -> dict[str, float]:
    """Seconds to answer questions by Spark's own reader, `read` and the source, and by a stream."""
    spark = open_session(master, name="groupcomm bench")

    def run_stream(read: Callable[[], DataFrame]) -> None:
        with TemporaryDirectory() as checkpoint:
            query = (
                read()
                .writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()

    readers: dict[str, Callable[[], DataFrame]] = {
        "parquet": lambda: spark.read.parquet(str(folder)),
        "read": lambda: groupcomm_spark.read(spark, folder),
        "source": lambda: spark.read.format("groupcomm").load(str(folder)),
        "source of three columns": lambda: (
            spark.read.format("groupcomm").option("columns", "row,sender,level").load(str(folder))
        ),
    }

    def answer(read: Callable[[], DataFrame], ask: Callable[[DataFrame], DataFrame]) -> None:
        ask(read()).write.format("noop").mode("overwrite").save()

    ways: dict[str, Callable[[], None]] = {
        f"{question}: {reader}": partial(answer, read, ask)
        for question, ask in QUESTIONS.items()
        for reader, read in readers.items()
    }
    streams: dict[str, Callable[[], DataFrame]] = {
        "read_stream": lambda: groupcomm_spark.read_stream(spark, folder),
        "stream of the source": lambda: spark.readStream.format("groupcomm").load(str(folder)),
    }
    ways |= {f"all: {name}": partial(run_stream, read) for name, read in streams.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):  # in turn, so that a busy host slows all of them
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - began)
    spark.stop()
    return {name: statistics.median(each[1:]) for name, each in times.items()}


def _median(way: Callable[[], None], rounds: int) -> float:
    way()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        way()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def read_plain(folder: Path) -> None:
    """Return the rate of one processor without Spark, checksums included."""
    for _ in LogReader(folder).batches():
        pass


# ---- all of them ----


@contextmanager
def _masters(name: str) -> Iterator[str]:
    if name.startswith("local"):
        yield name
        return
    workers = int(name.partition(" ")[0])
    with TemporaryDirectory() as folder, standalone(Path(folder), workers) as url:
        yield url


def run_all(names: list[str], folder: Path, rows: int, rounds: int) -> dict[str, Any]:
    """Rows a second of each configuration and way."""
    speeds: dict[str, Any] = {"without Spark": round(rows / _median(lambda: read_plain(folder), 3))}
    for name in names:
        with _masters(name) as master:
            command = [
                sys.executable,
                "-m",
                "tests.groupcomm_spark.bench_source",
                "--measure",
                master,
            ]
            command += ["--folder", str(folder), "--rounds", str(rounds)]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        times = json.loads(done.stdout.splitlines()[-1])
        speeds[name] = {way: round(rows / seconds) for way, seconds in times.items()}
    return speeds


def main() -> None:
    """Make a log, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, help="only a cluster with so many; else all")
    parser.add_argument("--local", type=int, help="only this process with so many processors")
    parser.add_argument("--folder", type=Path, help="take the log that is there")
    parser.add_argument("--measure", metavar="MASTER", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.folder, options.rounds)))
        return
    names = ["local[1]", "local[2]", "1 worker", "2 workers"]
    if options.workers or options.local:
        names = [f"{options.workers} workers"] if options.workers else []
        names += [f"local[{options.local}]"] if options.local else []
    with TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not options.folder:
            make_log(folder, options.rows)
        speeds = run_all(names, folder, options.rows, options.rounds)
    if options.json:
        print(json.dumps({"rows": options.rows, "rows_per_s": speeds}))
        return
    print(f"without Spark {speeds.pop('without Spark'):>25,} rows/s")
    for name, ways in speeds.items():
        for way, speed in ways.items():
            ratio = ways[way.partition(":")[0] + ": parquet"] / speed
            print(f"{name:<12} {way:<33} {speed:>12,} rows/s {ratio:>7.2f} times parquet's time")


if __name__ == "__main__":
    main()
