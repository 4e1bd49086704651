"""How fast an archive replays, and what that costs live messages, on real daemons.

    python -m tests.campaigns.history_rate --messages 1000000

An archive records messages of 100 bytes; a subscriber then reads them from the beginning, a few
times. Live delays are those of `groupcomm latency`, with nothing else and beside a subscriber that
reads all the time, in turn. The output is a line of JSON; rates are messages a second.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from groupcomm.level import ServiceLevel
from groupcomm_client.blocking import connect
from groupcomm_client.history import EARLIEST, CaughtUp
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import ArchiveProcess

GROUP = "orders"
SIZE = 100
BATCH = 1000
PAUSE_S = 0.004
PATIENCE_S = 60.0


def fill(address: str, messages: int) -> None:
    """Send this number of messages, and wait until the daemons hold them."""
    data = [os.urandom(SIZE) for _ in range(BATCH)]
    with connect(address) as sender:
        for _ in range(messages // BATCH):
            sender.multicast_many(GROUP, data)
            time.sleep(PAUSE_S)  # an archive that cannot follow would lose its session
        sender.multicast_ordered(GROUP, b"the last one", level=ServiceLevel.SAFE)


def read(address: str) -> dict[str, Any]:
    """Read the history up to the live events; return the number of events, and both rates."""
    with connect(address) as connection, connection.subscribe(GROUP, start=EARLIEST) as found:
        events = found.receive_batch(PATIENCE_S)
        began, spent = time.monotonic(), time.process_time()
        count = len(events)
        while not any(isinstance(event, CaughtUp) for event in events[-BATCH:]):
            events = found.receive_batch(PATIENCE_S)
            count += len(events)
    wall_s, cpu_s = time.monotonic() - began, time.process_time() - spent
    return {"events": count, "rate": round(count / wall_s), "of_processor": round(count / cpu_s)}


def wait_for(address: str, messages: int) -> None:
    """Wait until the archive answers with all messages."""
    limit = time.monotonic() + PATIENCE_S
    while read(address)["events"] < messages:
        assert time.monotonic() < limit, f"the archive does not have {messages} messages"
        time.sleep(0.5)


def delay(address: str) -> dict[str, Any]:
    """Return the delays of AGREED messages, in milliseconds."""
    command = [sys.executable, "-m", "groupcomm_tools.cli", "latency", "--address", address]
    words = ["--level", "agreed", "--count", "3000", "--rate", "500", "--json"]
    told = subprocess.run([*command, *words], capture_output=True, check=True, text=True)
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def delay_beside_reader(address: str) -> dict[str, Any]:
    """Return the same while another process reads the history, again and again."""
    command = [sys.executable, "-m", "tests.campaigns.history_rate", "--read", address]
    with subprocess.Popen(command) as reader:
        try:
            time.sleep(2.0)
            return delay(address)
        finally:
            reader.send_signal(signal.SIGKILL)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return all figures."""
    with (
        tempfile.TemporaryDirectory() as folder,
        RunningCluster(options.daemons) as cluster,
        ArchiveProcess(cluster.address("a"), Path(folder) / "log", [GROUP]) as archive,
    ):
        archive.until_live()
        address = cluster.address(cluster.names[-1])
        fill(address, options.messages)
        wait_for(address, options.messages)
        runs = [read(address) for _ in range(options.rounds)]
        delays = [(delay(address), delay_beside_reader(address)) for _ in range(options.rounds)]
    ratios = [beside["p99_ms"] / alone["p99_ms"] for alone, beside in delays]
    return {
        "messages": options.messages,
        "rate": statistics.median(run["rate"] for run in runs),
        "rate_of_processor": statistics.median(run["of_processor"] for run in runs),
        "p99_ms": statistics.median(alone["p99_ms"] for alone, _ in delays),
        "p99_beside_ms": statistics.median(beside["p99_ms"] for _, beside in delays),
        "p99_ratio": round(statistics.median(ratios), 2),
    }


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--daemons", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--read", metavar="ADDRESS", help="only read, until the end of the process")
    options = parser.parse_args()
    if options.read:
        while True:
            read(options.read)
    print(json.dumps(measure(options)))


if __name__ == "__main__":
    main()
