"""Recorders as processes, for the length of a block."""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from groupcomm.errors import GroupCommError
from groupcomm_tools.local_cluster import lines_of

START_S: Final = 20.0


class RecorderError(GroupCommError):
    """A recorder has failed."""


@asynccontextmanager
async def recorded(
    addresses: Mapping[str, str], groups: Sequence[str], folder: Path, *options: str
) -> AsyncIterator[None]:
    """Record at several daemons; after the block everything that came during it is on disk, and
    sealed.

    Args:
        addresses: addresses of daemons, by the name of the log.
        groups: groups to record.
        folder: folder for the logs.
        options: further options of `groupcomm record`.

    Raises:
        RecorderError: a recorder does not start, or has ended with an error.
    """
    async with AsyncExitStack() as stack:
        for name, address in addresses.items():
            recorder = _Recorder(name, address, groups, folder / name, options)
            await stack.enter_async_context(recorder.running())
        yield


class _Recorder:
    def __init__(
        self, name: str, address: str, groups: Sequence[str], log: Path, options: Sequence[str]
    ) -> None:
        self._name = name
        self._command = [
            *(sys.executable, "-m", "groupcomm_tools.cli", "record", *groups, "--json"),
            *("--store", str(log), "--address", address, "--user", f"rec-{name}", *options),
        ]
        self._joined = trio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        process = await trio.lowlevel.open_process(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            process_group=0,  # ^C goes to this process, which ends the recorder in order
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, process)
            try:
                await self._begin(process)
                yield
            finally:
                with trio.CancelScope(shield=True):
                    await _end_process(process)
        if process.returncode:
            raise RecorderError(f"the recorder at {self._name} failed; its message is above")

    async def _begin(self, process: trio.Process) -> None:
        with trio.move_on_after(START_S):
            while not self._joined.is_set() and process.poll() is None:
                with trio.move_on_after(0.1):
                    await self._joined.wait()
        if not self._joined.is_set():
            raise RecorderError(f"the recorder at {self._name} has not joined in {START_S:g} s")

    async def _listen(self, process: trio.Process) -> None:
        assert process.stdout is not None
        async with process.stdout as output:
            async for line in lines_of(output):
                told = json.loads(line)
                if told["event"] == "joined":
                    self._joined.set()
                elif told["event"] in {"trouble", "damage"}:
                    print(f"recorder at {self._name}: {told['text']}", file=sys.stderr)


async def _end_process(process: trio.Process) -> None:
    """End a recorder, which seals its log first."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    await process.wait()
