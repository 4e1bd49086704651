"""The steps of the pipeline; each runs commands that users run, too."""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import attrs
import trio

import groupcomm_spark
from examples.common.stage import Network
from examples.vehicle.runs import Setup, run_once
from groupcomm.errors import GroupCommError
from groupcomm.events import Message
from groupcomm_client import connect
from groupcomm_log.reader import LogReader
from groupcomm_spark.session import open_session
from groupcomm_spark.telemetry.alarms import read_kinds
from groupcomm_tools.cli import main as groupcomm
from groupcomm_tools.local_cluster import lines_of
from groupcomm_tools.recording.recorder_process import recorded

KINDS: Final = Path(__file__).parents[1] / "vehicle" / "telemetry.toml"
ALARMS: Final = "alarms"

START_S: Final = 120.0
"""Seconds that Spark needs, and more if other programs use the processors."""

REST_S: Final = 60.0
"""Seconds that telemetry may take from one window to the next, after the end of the vehicle."""

BEHIND_S: Final = 4.0
"""A window is reported at most this many seconds of messages after its end."""


class StageFailed(GroupCommError):
    """A stage has failed."""


def say(text: str) -> None:
    """Print progress."""
    print(f"--- {text}", flush=True)


async def play_demo(folder: Path) -> None:
    """Run the demo, recorded.

    Raises:
        StageFailed: it failed.
    """
    command = [sys.executable, "-m", "groupcomm_tools.cli", "demo", "--record", str(folder)]
    done = await trio.run_process(command, check=False)
    if done.returncode:
        raise StageFailed(f"the demo ended with status {done.returncode}")


async def play_vehicle(folder: Path, *, seconds: float, loss: float) -> list[dict[str, Any]]:
    """Run the vehicle, recorded and watched; return the alarms that a listener received.

    Args:
        folder: the folder for the logs.
        seconds: duration of the run.
        loss: share of datagrams lost between the daemons.

    Raises:
        StageFailed: telemetry failed.
    """
    watch = Watch(folder / "bravo")

    @asynccontextmanager
    async def beside(addresses: Mapping[str, str], groups: Sequence[str]) -> AsyncIterator[None]:
        async with recorded(addresses, groups, folder), watch.running(addresses["alfa"]):
            yield

    setup = Setup(
        daemons=2,
        network=Network(loss=loss, relayed=True),
        seconds=seconds,
        load={},
        beside=beside,
    )
    result = await run_once(setup)
    say(f"all modules have told what they got; {watch.windows} windows, {len(watch.heard)} alarms")
    if not result.drained:
        raise StageFailed("not all messages came in time: is this machine overloaded?")
    return watch.heard


@attrs.define
class Watch:
    """Telemetry of a log as a process, and a listener to its alarms.

    Attributes:
        log: the watched log.
        windows: number of reported windows.
        last_end: end of the last of them.
        heard: alarms in the order of the listener.
    """

    log: Path
    windows: int = 0
    last_end: datetime | None = None
    heard: list[dict[str, Any]] = attrs.Factory(list)
    _watching: trio.Event = attrs.Factory(trio.Event)

    @asynccontextmanager
    async def running(self, address: str) -> AsyncIterator[None]:
        """Run telemetry during the block, and until its last windows are reported."""
        command = [
            *(sys.executable, "-m", "groupcomm_tools.cli", "spark", "telemetry", str(self.log)),
            *("--kinds", str(KINDS), "--to", ALARMS, "--address", address, "--json"),
        ]
        async with trio.open_nursery() as nursery:
            process: trio.Process = await nursery.start(
                lambda task_status: trio.run_process(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    check=False,
                    task_status=task_status,
                )
            )
            nursery.start_soon(self._read, process)
            nursery.start_soon(self._until_watching, process)
            await nursery.start(self._listen, address)
            with trio.move_on_after(START_S):
                await self._watching.wait()
            if not self._watching.is_set():
                raise StageFailed(f"telemetry does not start within {START_S:g} s")
            yield
            await self._until_reported(process, last_made(self.log))
            if process.poll() is not None:
                raise StageFailed("telemetry has ended too early; it says why above")
            process.send_signal(signal.SIGTERM)
            await process.wait()
            nursery.cancel_scope.cancel()

    async def _read(self, process: trio.Process) -> None:
        assert process.stdout is not None
        async for line in lines_of(process.stdout):
            told = json.loads(line)
            self.windows += 1
            self.last_end = datetime.fromisoformat(told["end"])
            for alarm in told["alarms"]:
                say(f"alarm: {alarm['text']}")

    async def _until_watching(self, process: trio.Process) -> None:
        assert process.stderr is not None
        async for line in lines_of(process.stderr):
            if line.startswith(b"groupcomm: watching"):
                self._watching.set()
            elif line.startswith(b"groupcomm: "):
                say(line.decode().removeprefix("groupcomm: "))

    async def _listen(
        self, address: str, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        async with connect(address) as connection:
            await connection.join(ALARMS)
            task_status.started()
            async for event in connection:
                if isinstance(event, Message) and event.data.startswith(b'{"alarm"'):
                    self.heard.append(json.loads(event.data))

    async def _until_reported(self, process: trio.Process, made: datetime) -> None:
        """Wait until no window is still to come, if the last message was made at this time."""
        with trio.move_on_after(REST_S) as patience:
            while process.poll() is None and (
                self.last_end is None or (made - self.last_end).total_seconds() > BEHIND_S
            ):
                before = self.windows
                await trio.sleep(0.1)
                if self.windows > before:
                    patience.deadline = trio.current_time() + REST_S
        if patience.cancelled_caught:
            raise StageFailed(f"telemetry has told no window for {REST_S:g} s, and not its last")


def last_made(log: Path) -> datetime:
    """Return the time of the last of the vehicle's messages in a log.

    It may be long before the end of the vehicle: on a busy host messages come late.
    """
    kinds, latest_ns = read_kinds(KINDS), 0
    at, types = kinds.made_at, {kind.type for kind in kinds.kinds.values()}
    assert at is not None
    for batch in LogReader(log).batches(columns=["kind", "type", "data"]):
        for row in batch.to_pylist():
            if row["kind"] == "message" and row["type"] in types:
                latest_ns = max(latest_ns, int.from_bytes(row["data"][at : at + 8]))
    return datetime.fromtimestamp(latest_ns / 1e9).astimezone()


def verify(*logs: Path) -> None:
    """Verify that all levels have kept their promises.

    Raises:
        StageFailed: a level has not.
    """
    if groupcomm(["spark", "verify", *map(str, logs)]):
        raise StageFailed("a promise was broken; the violations stand above")


def tell_members(log: Path) -> None:
    """Print who was a member of which group, from which row of a log to which."""
    members = groupcomm_spark.membership(open_session(), log).orderBy("group", "from_row")
    for row in members.collect():
        end = "its end" if row["left"] is None else f"row {row['to_row']} ({row['left']})"
        begin = f"row {row['from_row']} ({row['joined']})"
        print(f"{row['who']} was in {row['group']} from {begin} of {row['log']} to {end}")


def report(page: Path, *options: str) -> None:
    """Make the page of some logs.

    Raises:
        StageFailed: there is no page.
    """
    if groupcomm(["spark", "report", *options, "-o", str(page)]) or not page.exists():
        raise StageFailed(f"{page} was not written")
