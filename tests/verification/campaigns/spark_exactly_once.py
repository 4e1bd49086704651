"""Exactly once from group to group through a streaming query, while its programs are killed.

    python -m tests.verification.campaigns spark_exactly_once --kills 20

A recorder writes the log of group IN; a streaming query reads it, changes the rows and sends them
to group OUT. Killed, with SIGKILL, in an order that the seed gives: the driver, executors, Python
workers of both, the recorder of IN, and the daemon of driver and recorder; the driver and the
daemon often while a batch is being published. Checked:
a receiver of OUT at another daemon has got each row of the log of IN once, in their order,
and so has the log of OUT. Ends with a line of JSON.
"""

import os
import shutil
import signal
import time
from argparse import Namespace
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any, Final

import trio

from groupcomm.events import Message
from groupcomm_client import connect
from groupcomm_client.committed import Batch, CommittedStream, Incomplete
from groupcomm_client.committed.log import CommittedLog
from groupcomm_client.committed.markers import TYPE, is_publisher
from groupcomm_client.committed.receiving import Given
from groupcomm_log.errors import LogError
from groupcomm_log.reader import LogReader
from groupcomm_log.schema import MESSAGE
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.terminal import say
from tests.verification.campaigns.programs import DidNotHappen, Program, until
from tests.verification.campaigns.runner import Found, campaign, option
from tests.verification.campaigns.spark_cluster import (
    EXECUTOR,
    PYTHON,
    SparkCluster,
    below,
    spark_cluster,
)
from tests.verification.campaigns.spark_program import TAIL

NAMES: Final = ("alfa", "bravo")
IN, OUT = "in", "out"

KINDS: Final = ("driver", "executor", "python", "recorder", "daemon")

PATIENCE_S: Final = 180.0
"""The time after which a started program works, on a busy machine."""

CALM_S: Final = 3.0
"""From one kill to the next at most, once the query has made progress."""

LEAD: Final = 5
"""The most batches by which the sender is ahead of the receiver: the query reads a file at a
time."""

SEAL: Final = ("--seal-s", "2", "--sync-ms", "20", "--json")


class Campaign:
    """All programs, and the rows that the receiver got."""

    def __init__(
        self, folder: Path, cluster: LocalCluster, spark: SparkCluster, rows: int, seed: int
    ) -> None:
        self.rows = rows  # of a batch
        self.cluster = cluster
        self.rng = Random(seed)
        self.logs = {group: folder / group for group in (IN, OUT)}
        self.checkpoint = folder / "checkpoint"
        self.addresses = {name: str(cluster[name].unix) for name in NAMES}
        self.spark = spark
        self.recorders = {
            group: Program(
                "groupcomm_tools.cli",
                ["record", group, "--store", str(self.logs[group]), "--address", address, *SEAL],
            )
            for group, address in zip((IN, OUT), self.addresses.values(), strict=True)
        }
        self.driver = Program(
            "tests.verification.campaigns.spark_program",
            [
                *("--master", spark.master, "--log", str(self.logs[IN]), "--group", OUT),
                *("--address", self.addresses["alfa"], "--checkpoint", str(self.checkpoint)),
                *("--stderr", str(folder / "driver.log"), "--rows", str(rows)),
            ],
        )
        self.batches = self.begun = 0
        self.open = False  # whether a batch has begun and not ended
        self.given: list[bytes] = []
        self.wrong: list[str] = []
        self.sending = trio.CancelScope()
        self.ending = False
        self.driver_lock = trio.Lock()  # one life holds it until it is known to be over
        self.killed: dict[str, int] = dict.fromkeys(KINDS, 0)
        self.while_publishing = 0

    # ---- events ----

    async def begin(self, rate: float, nursery: trio.Nursery) -> None:
        """Start everything; rows are sent from now on."""
        for recorder in self.recorders.values():
            await recorder.start(nursery)
        await nursery.start(self.receive)
        nursery.start_soon(self.send, rate)
        nursery.start_soon(self.keep_driver, nursery)

    async def send(self, rate: float) -> None:
        """Send to IN until it is cancelled."""
        number = 0
        with self.sending:
            async with connect(self.addresses["bravo"]) as connection:
                while True:
                    while self.given and number - _number(self.given[-1]) > LEAD * self.rows:
                        await trio.sleep(0.1)
                    some = [f"row {number + at}".encode() for at in range(20)]
                    await connection.multicast_many(IN, some)
                    number += len(some)
                    await trio.sleep(len(some) / rate)

    async def receive(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Receive the rows of OUT."""
        async with connect(self.addresses["bravo"]) as connection, connection.group(OUT):
            task_status.started()
            stream = CommittedStream([OUT])
            while True:
                for event in await connection.receive_batch():
                    if isinstance(event, Message) and event.type == TYPE:
                        self.begun += b'"begin"' in event.data
                        self.open = b'"begin"' in event.data
                    self._on_given(stream.accept(event))

    def _on_given(self, event: Given | None) -> None:
        if isinstance(event, Batch):
            self.batches += 1
            self.given += [_row(row.message.data) for row in event.rows]
            self.wrong += [str(missed) for missed in event.missed]
        elif isinstance(event, Incomplete | Message):
            self.wrong.append(f"{event}")

    async def keep_driver(self, nursery: trio.Nursery) -> None:
        """Start the driver whenever it has ended."""
        while not self.ending:
            if not self.driver.running:
                async with self.driver_lock:
                    await self.driver.start(nursery)
            await trio.sleep(0.05)

    @property
    def progress(self) -> int:
        """Return the number of batches that all lives of the driver have reported."""
        return sum(line["event"] == "batch" for line in self.driver.lines)

    # ---- kills ----

    async def kill(self, kind: str, nursery: trio.Nursery) -> None:
        """Kill something of a kind, some time after the query has made progress."""
        before = self.progress
        await until("the query goes on", lambda: self.progress > before, PATIENCE_S)
        await trio.sleep(self.rng.uniform(0, CALM_S))
        if kind == "recorder":
            await self.recorders[IN].kill()
            await self.recorders[IN].start(nursery)
        elif kind == "driver":
            await self._kill_driver()
        elif kind == "daemon":
            await self._kill_daemon()
        else:
            self._kill_one(kind)
        self.killed[kind] += 1

    async def _while_it_publishes(self) -> None:
        """Wait for the middle of a batch, often."""
        if self.rng.random() < 0.7:
            before = self.begun
            with suppress(DidNotHappen):
                await until("it publishes", lambda: self.begun > before, 20)
        self.while_publishing += self.open

    async def _kill_daemon(self) -> None:
        await self._while_it_publishes()
        daemon = self.cluster[NAMES[0]]
        daemon.kill()
        await daemon.ended()
        await trio.sleep(self.rng.uniform(0, CALM_S))
        await daemon.start()

    async def _kill_driver(self) -> None:
        await self._while_it_publishes()
        java = below(self.driver.pid, b"org.apache.spark")[:1]
        # Its Python workers die with it, as by a crash of the host, or live on and publish.
        for pid in below(self.driver.pid) if self.rng.random() < 0.5 else java:
            _kill(pid)
        async with self.driver_lock:
            if self.driver.running:
                await self.driver.kill()

    def _kill_one(self, kind: str) -> None:
        word = EXECUTOR if kind == "executor" else PYTHON
        found = [pid for worker in self.spark.pids for pid in below(worker, word)]
        if kind == "python" and self.driver.running:
            found += below(self.driver.pid, PYTHON)
        if found:
            _kill(self.rng.choice(sorted(found)))

    # ---- the end ----

    def recorded(self) -> list[bytes]:
        """Return the rows that OUT should get: the rows of the log of IN, changed."""
        found = LogReader(self.logs[IN]).batches(columns=["kind", "data"])
        return [
            data.upper()
            for batch in found
            for kind, data in zip(*batch.to_pydict().values(), strict=True)
            if kind == MESSAGE
        ]

    async def finish(self) -> None:
        """Let all recorded rows pass, and end all programs."""
        self.sending.cancel()
        await trio.sleep(1)
        self.recorders[IN].send_signal(signal.SIGTERM)
        await self.recorders[IN].end()
        wanted = len(self.recorded())
        with suppress(DidNotHappen):
            await until("all rows have come", lambda: len(self.given) >= wanted, 2 * PATIENCE_S)
        await trio.sleep(CALM_S)  # time for rows that should not come
        self.ending = True
        if self.driver.running:
            await self._kill_driver()
        self.recorders[OUT].send_signal(signal.SIGTERM)
        await self.recorders[OUT].end()

    def close(self) -> None:
        """End the programs that still run."""
        for program in (self.driver, *self.recorders.values()):
            if program.running:
                for pid in [*below(program.pid), program.pid]:
                    _kill(pid)

    def check(self) -> dict[str, Any]:
        """Return the results."""
        wanted, given = self.recorded(), self.given
        wrong = self.wrong + compare_rows("the receiver", wanted, given)
        in_log: list[bytes] = []
        try:
            for each in CommittedLog(LogReader(self.logs[OUT]), [OUT], columns=["data"]).read():
                if isinstance(each, Batch):
                    in_log += [_row(row.message["data"]) for row in each.rows]
                else:
                    wrong.append(f"in the log of {OUT}: {each}")
        except LogError as error:
            wrong.append(str(error))
        wrong += compare_rows(f"the log of {OUT}", wanted, in_log)
        return {
            "kills": sum(self.killed.values()),
            "killed": self.killed,
            "while_publishing": self.while_publishing,
            "drivers": self.driver.lives,
            "failed": [line["why"] for line in self.driver.lines if line["event"] == "failed"],
            "rows": len(wanted),
            "batches": self.batches,
            **self._seen(),
            "violations": wrong,
        }

    def _seen(self) -> dict[str, int]:
        """Return the rows of a receiver that does not ask for exactly once."""
        rows = begins = 0
        columns = ["kind", "sender", "type", "data"]
        for batch in LogReader(self.logs[OUT]).batches(columns=columns):
            for kind, sender, type_, data in zip(*batch.to_pydict().values(), strict=True):
                if kind == MESSAGE and is_publisher(sender):
                    rows += type_ != TYPE
                    begins += type_ == TYPE and b'"begin"' in data
        return {"rows_sent": rows, "publications": begins}


def compare_rows(who: str, wanted: list[bytes], given: list[bytes]) -> list[str]:
    """Return the faults of the rows that a receiver got."""
    if wanted == given:
        return []
    twice, missing = len(given) - len(set(given)), len(set(wanted) - set(given))
    strange = len(set(given) - set(wanted))
    return [
        f"{who} has {len(given)} rows of {len(wanted)}: {twice} twice, {missing} missing,"
        f" {strange} strange, {'not ' if given != sorted(given, key=_number) else ''}in order"
    ]


def _row(data: bytes) -> bytes:
    """Return the text before the tail that the query appends to each row."""
    return data.removesuffix(TAIL.encode())


def _number(row: bytes) -> int:
    return int(row.split()[1])


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


async def play(folder: Path, kinds: list[str], rate: float, rows: int, seed: int) -> dict[str, Any]:
    """Run it; return the results."""
    began = time.monotonic()
    with spark_cluster(folder, 2) as spark, ExitStack() as stack:
        async with LocalCluster(NAMES) as cluster, trio.open_nursery() as nursery:
            await cluster.settle(NAMES)
            campaign = Campaign(folder, cluster, spark, rows, seed)
            stack.callback(campaign.close)
            campaign.rng.shuffle(kinds)
            await campaign.begin(rate, nursery)
            for number, kind in enumerate(kinds, 1):
                await campaign.kill(kind, nursery)
                say(
                    f"{number} of {len(kinds)}: {kind}; {len(campaign.given)} rows given,"
                    f" {time.monotonic() - began:.0f} s"
                )
            await campaign.finish()
            nursery.cancel_scope.cancel()
    return campaign.check()


@campaign(
    option("kills", 20),
    option("rate", 500.0, "messages a second"),
    option("rows", 1000, "the most rows of a batch"),
    option("only", choices=KINDS, text="kill nothing else"),
    option("seed", 1),
    option("keep", False, "leave all files, and tell where"),
)
async def run(options: Namespace) -> Found:
    """Run it in a folder of its own."""
    folder = Path(mkdtemp(prefix="groupcomm-"))
    kinds = [options.only or KINDS[number % len(KINDS)] for number in range(options.kills)]
    try:
        found = await play(folder, kinds, options.rate, options.rows, options.seed)
        return {**found, **({"folder": str(folder)} if options.keep else {})}
    finally:
        if not options.keep:
            shutil.rmtree(folder)
