"""Programs of a campaign as processes; they print lines of JSON."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import trio

from groupcomm.errors import GroupCommError
from groupcomm_tools.local_cluster import lines_of

LOOK_S: Final = 0.01
PATIENCE_S: Final = 60.0


class DidNotHappen(GroupCommError):
    """An awaited event has not come."""


async def until(what: str, ready: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Wait until something is so.

    Raises:
        DidNotHappen: it is not, for long.
    """
    with bounded(what, patience_s):
        while not ready():
            await trio.sleep(LOOK_S)


@contextmanager
def bounded(what: str, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Bound the time that the block waits.

    Raises:
        DidNotHappen: the block has not ended in time; the text says what has not happened.
    """
    with trio.move_on_after(patience_s) as scope:
        yield
    if scope.cancelled_caught:
        raise DidNotHappen(f"after {patience_s:g} s not yet: {what}")


class Program:
    """One program, which may die and be started again.

    Attributes:
        told: every line of all its lives.
        lives: the number of its starts.
    """

    def __init__(self, module: str, options: Sequence[str]) -> None:
        """Prepare it.

        Args:
            module: the module to run.
            options: the options of its command line.
        """
        self.lines: list[dict[str, Any]] = []
        self.lives = 0
        self._command = [sys.executable, "-m", module, *options]
        self._process: trio.Process | None = None
        self._ended = trio.Event()

    async def start(self, nursery: trio.Nursery, *options: str) -> None:
        """Start it, with further options."""
        self.lives += 1
        self._process = await trio.lowlevel.open_process(
            [*self._command, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._ended = trio.Event()
        nursery.start_soon(self._read, self._process, self._ended)

    async def _read(self, process: trio.Process, ended: trio.Event) -> None:
        assert process.stdout is not None
        try:
            async with process.stdout:
                async for line in lines_of(process.stdout):
                    self.lines.append(json.loads(line))
        finally:
            ended.set()

    @property
    def pid(self) -> int:
        """Return the id of its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Return whether its process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def status(self) -> int | None:
        """Return the exit status of its present life; None while it lasts."""
        return None if self._process is None else self._process.poll()

    async def say(self, line: str) -> None:
        """Write a line to its input."""
        assert self._process is not None
        assert self._process.stdin is not None
        await self._process.stdin.send_all(line.encode() + b"\n")

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        """Kill it; return when all its output was read."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()
        await self._ended.wait()

    async def end(self) -> int:
        """Close its input, and wait for its end; return its exit status."""
        assert self._process is not None
        assert self._process.stdin is not None
        await self._process.stdin.aclose()
        status = await self._process.wait()
        await self._ended.wait()
        return status
