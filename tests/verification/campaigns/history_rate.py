"""How fast an archive replays beside live load, and what that costs live messages.

    python -m tests.verification.campaigns history_rate

Real programs: an archive records a group with messages of 100 bytes. Then those of
`groupcomm bench` send live ones to the same group, and receive them, all the time; 200 a second
carry the time. In each round there is a while without a subscriber, then a new program subscribes
from the first position on, until it has caught up. Figures are medians of rounds: the rate is that
of all events from the call of `subscribe` on, the 99th percentile that of live AGREED messages in
either while. `first_ms` is the time from this call to the first event.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import cattrs

from groupcomm.clocks.stamp import Position
from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm_client.blocking import BlockingConnection, connect
from groupcomm_client.history import CaughtUp
from groupcomm_client.history.frames import ARCHIVES, Find, Offer, decode_untrusted, encode
from groupcomm_tools.bench.plan import GROUP, Plan
from groupcomm_tools.bench.runs import cpu_s
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import ArchiveProcess
from tests.verification.campaigns.runner import Found, campaign, option

SIZE: Final = 100
BATCH: Final = 1000
PAUSE_S: Final = 0.004
PATIENCE_S: Final = 60.0

Window = tuple[int, int]
"""From when to when, on the monotonic clock, in nanoseconds."""


def fill(address: str, messages: int) -> None:
    """Send this number of messages, and wait until the daemons hold them."""
    data = [os.urandom(SIZE) for _ in range(BATCH)]
    with connect(address) as sender:
        for _ in range(messages // BATCH):
            sender.multicast_many(GROUP, data)
            time.sleep(PAUSE_S)  # an archive that cannot follow would lose its session
        sender.multicast_ordered(GROUP, b"the last one", level=ServiceLevel.SAFE)


def first_position(connection: BlockingConnection) -> Position:
    """Return the place behind which the archive has everything."""
    connection.multicast(ARCHIVES, encode(Find(1, (GROUP,))))
    while True:
        event = connection.receive(PATIENCE_S)
        offer = decode_untrusted(event.data) if isinstance(event, Message) else None
        if isinstance(offer, Offer) and offer.intervals:
            return offer.intervals[0][0]


def read(address: str) -> dict[str, Any]:
    """Read the history up to the live events."""
    with connect(address) as connection:
        start = first_position(connection)
        began, spent = time.monotonic_ns(), time.process_time()
        with connection.subscribe(GROUP, start=start) as found:
            events = found.receive_batch(PATIENCE_S)
            first = time.monotonic_ns()
            count = len(events)
            while not any(isinstance(event, CaughtUp) for event in events):
                events = found.receive_batch(PATIENCE_S)
                count += len(events)
            ended, cpu = time.monotonic_ns(), time.process_time() - spent
    return {
        "window": (began, ended),
        "events": count,
        "rate": round(count / (ended - began) * 1e9),
        "first_ms": round((first - began) / 1e6, 1),
        "cpu_s": round(cpu, 3),
    }


def read_as_program(address: str) -> dict[str, Any]:
    """Read in a new process."""
    command = [sys.executable, "-m", "tests.verification.campaigns.history_rate", address]
    told = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def wait_for(address: str, messages: int) -> None:
    """Wait until the archive answers with all messages."""
    limit = time.monotonic() + PATIENCE_S
    while read_as_program(address)["events"] < messages:
        assert time.monotonic() < limit, f"the archive does not have {messages} messages"
        time.sleep(0.5)


class LiveLoad:
    """A sender and a receiver of the benchmark.

    Attributes:
        pids: their processes.
        report: what the receiver has got, once they have ended.
    """

    def __init__(self, sender: subprocess.Popen[str], receiver: subprocess.Popen[str]) -> None:
        self._sender, self._receiver = sender, receiver
        self.pids = [sender.pid, receiver.pid]
        self.report: dict[str, Any] = {}

    def end(self) -> None:
        """Stop sending, and wait for the last message."""
        _write(self._sender, "")
        _line_of(self._sender)
        self.report = _line_of(self._receiver)
        _write(self._sender, "")

    def p99_ms(self, window: Window) -> float:
        """Return the 99th percentile of the delays of messages that came in a while."""
        begin, end = window
        found = sorted(delay for at, delay in self.report["delays"] if begin <= at <= end)
        return float(found[int(len(found) * 0.99)] / 1e6)

    def rate(self, window: Window) -> float:
        """Return the messages a second that came in a while."""
        begin, end = window
        counts = [(at, count) for at, count in self.report["counts"] if begin <= at <= end]
        return float((counts[-1][1] - counts[0][1]) / (counts[-1][0] - counts[0][0]) * 1e9)


@contextmanager
def live_load(address: str, rate: float) -> Iterator[LiveLoad]:
    """Yield a sender and a receiver that are at work."""
    plan = json.dumps(cattrs.unstructure(Plan(daemons=0, receivers=1, size=SIZE, rate=rate)))
    receive = _program("receive", address, plan)
    send = _program("send", address, "0", plan)
    with receive as receiver, send as sender:
        try:
            _line_of(receiver)
            _write(receiver, json.dumps([_line_of(sender)["ready"]]))
            _write(sender, "")
            yield LiveLoad(sender, receiver)
        finally:
            sender.kill()
            receiver.kill()


def _program(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "groupcomm_tools.bench.programs", *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _line_of(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def _write(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


@campaign(
    option("messages", 2_000_000),
    option("live_rate", 50_000.0, "messages a second"),
    option("daemons", 1),
    option("rounds", 5),
    option("quiet_s", 4.0, "without a subscriber, each round"),
    option("listen", "local", "of the archive: local, none, an address"),
)
def measure(options: Namespace) -> Found:
    """Return all figures."""
    with (
        tempfile.TemporaryDirectory() as folder,
        RunningCluster(options.daemons) as cluster,
        ArchiveProcess(
            cluster.address("a"), Path(folder) / "log", [GROUP], "--listen", options.listen
        ) as archive,
    ):
        archive.until_live()
        address = cluster.address(cluster.names[-1])
        fill(address, options.messages)
        wait_for(address, options.messages)
        pids = {"archive": archive.pid, **{name: cluster.pid(name) for name in cluster.names}}
        with live_load(address, options.live_rate) as load:
            pids |= dict(zip(("sender", "receiver"), load.pids, strict=True))
            time.sleep(2.0)
            rounds = [_round(address, pids, options.quiet_s) for _ in range(options.rounds)]
            load.end()
    for each in rounds:
        each["live_rate"] = round(load.rate(each["window"]))
        each["p99_ms"] = load.p99_ms(each.pop("quiet"))
        each["p99_beside_ms"] = load.p99_ms(each.pop("window"))
        each["p99_ratio"] = each["p99_beside_ms"] / each["p99_ms"]
    return {
        **{name: _median(rounds, name) for name in rounds[0] if name != "cpu"},
        "cpu": {name: _median([each["cpu"] for each in rounds], name) for name in rounds[0]["cpu"]},
        "each_round": rounds,
        "violations": [],
    }


def _round(address: str, pids: dict[str, int], quiet_s: float) -> dict[str, Any]:
    """Wait for a while, then have a program catch up."""
    began = time.monotonic_ns()
    time.sleep(quiet_s)
    quiet = began, time.monotonic_ns()
    before = {name: cpu_s(pid) for name, pid in pids.items()}
    found = read_as_program(address)
    cpu = {name: round(cpu_s(pid) - before[name], 2) for name, pid in pids.items()}
    return {"quiet": quiet, **found, "cpu": cpu}


def _median(rounds: Sequence[dict[str, Any]], name: str) -> float:
    return round(float(statistics.median(each[name] for each in rounds)), 3)


if __name__ == "__main__":  # a subscriber is a program of its own
    print(json.dumps(read(sys.argv[1])))
