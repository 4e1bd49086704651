"""Recorders as processes, for tests."""

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Self

import trio

from groupcomm.events import Cause, GroupView
from groupcomm.level import LEVELS
from groupcomm_client import Connection, connect
from groupcomm_log.reader import LogReader
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_tools.warm import PIPE, WarmProcess

PATIENCE_S = 20.0
COUNT = 20
"""Messages of each level that are sent at a time."""


class RecorderProcess:
    """`groupcomm record ... --json`, and its events.

    Attributes:
        told: all events so far.
    """

    def __init__(self, unix: Path, folder: Path, *more: str, heard: bool = True) -> None:
        words = ("record", "g", "--json", "--store", str(folder), "--address", str(unix), *more)
        self._process = WarmProcess(*words, stdout=PIPE, stderr=PIPE)
        self.told: list[dict[str, Any]] = []
        self._last_words = ""
        self._listener = Thread(target=self._listen if heard else self._close)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.told.append(json.loads(line))

    def _close(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def acknowledged(self) -> int:
        """The last row that it has told to be on disk; -1 if there is none."""
        rows = [event["row"] for event in self.told if event["event"] == "synced"]
        return max(rows, default=-1)

    @property
    def pid(self) -> int:
        """Return the id of its process."""
        return self._process.pid

    async def until_reported(self, text: str) -> None:
        """Wait until it tells something."""
        with trio.fail_after(PATIENCE_S):
            while not any(text in event.get("text", "") for event in self.told):
                assert self._process.poll() is None, self.last_words()
                await trio.sleep(0.01)

    async def until_row(self, row: int) -> None:
        """Wait until it has told that this row is on disk."""
        with trio.fail_after(PATIENCE_S):
            while self.acknowledged < row:
                assert self._process.poll() is None, self.last_words()
                await trio.sleep(0.01)

    def kill(self) -> None:
        """End it at once; all that it has told is then known."""
        self._process.kill()
        self.last_words()

    def last_words(self) -> str:
        """Wait for its end; return its standard error."""
        output, error = self._process.stdout, self._process.stderr
        assert output is not None
        assert error is not None
        self._process.wait(PATIENCE_S)
        self._listener.join(PATIENCE_S)
        if not error.closed:
            self._last_words = error.read()
            output.close()
            error.close()
        return self._last_words

    async def end(self, *, ask: bool = True) -> tuple[int, str]:
        """Have it end in order, or wait until it does: exit status and standard error."""
        if ask:
            self._process.send_signal(signal.SIGTERM)
        error = await trio.to_thread.run_sync(self.last_words)
        return self._process.wait(), error


async def until_joined(connection: Connection) -> None:
    """Wait for one more member."""
    with trio.fail_after(PATIENCE_S):
        async for event in connection:
            if isinstance(event, GroupView) and event.cause is Cause.JOIN and not event.own:
                return


def read_rows(folder: Path, kind: str = "message") -> list[dict[str, Any]]:
    """Return the rows of one kind, in order; the whole log must be intact."""
    found = [row for batch in LogReader(folder).batches() for row in batch.to_pylist()]
    return [row for row in found if row["kind"] == kind]


async def until_recorded(folder: Path, data: bytes) -> None:
    """Wait until a message is in the log."""
    with trio.fail_after(PATIENCE_S):
        while data not in [row["data"] for row in read_rows(folder)]:
            await trio.sleep(0.05)


async def send_all_levels(sender: Connection) -> None:
    """Some messages of each level, and wait until their place in the order is known."""
    for number in range(COUNT):
        for level in LEVELS:
            await sender.multicast("g", b"%d" % number, level=level)
    await sender.multicast_ordered("g", b"in this view")


async def end_both(
    sender: Connection, folder: Path, left: RecorderProcess, right: RecorderProcess
) -> None:
    """End both recorders once they have written what was sent before."""
    await sender.multicast("g", b"last")
    for name, recorder in (("a", left), ("b", right)):
        await until_recorded(folder / name, b"last")
        status, error = await recorder.end()
        assert status == 0, error


class Pair(NamedTuple):
    """Daemons a and b that can be parted, and a program at each."""

    cluster: RunningCluster
    one: Connection
    other: Connection


@asynccontextmanager
async def recorded_pair(folder: Path) -> AsyncIterator[Pair]:
    """Both daemons are recorded, in the folders a and b; behind the block the logs are whole."""
    with (
        RunningCluster(2, relay=True) as cluster,
        RecorderProcess(Path(cluster.address("a")), folder / "a") as left,
        RecorderProcess(Path(cluster.address("b")), folder / "b") as right,
    ):
        async with connect(cluster.address("a")) as one, connect(cluster.address("b")) as other:
            for recorder in (left, right):
                await recorder.until_row(2)
            yield Pair(cluster, one, other)
            await end_both(one, folder, left, right)


async def part_and_merge(pair: Pair) -> None:
    """Traffic of all levels before, while they are apart, and behind that."""
    cluster, *senders = pair
    await send_all_levels(pair.one)
    cluster.partition("a", "b")
    for sender in senders:
        await send_all_levels(sender)
    cluster.settle("a")
    cluster.heal()
    cluster.settle()
    for sender in senders:
        await send_all_levels(sender)
