"""Recorders as processes, for tests."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any, Self

import trio

from groupcomm.events import Cause, GroupView
from groupcomm_client import Connection

PATIENCE_S = 20.0


class RecorderProcess:
    """`groupcomm record ... --json`, and what it tells.

    Attributes:
        told: all events so far.
    """

    def __init__(self, unix: Path, folder: Path, *more: str, heard: bool = True) -> None:
        command = [sys.executable, "-m", "groupcomm_client.cli", "record", "g", "--json"]
        self._process = subprocess.Popen(
            [*command, "--to", str(folder), "--address", str(unix), *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
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
        """Of its process."""
        return self._process.pid

    async def until_told(self, text: str) -> None:
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
        """Wait for its end: what it wrote to standard error."""
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
        return self._process.returncode, error


async def until_joined(connection: Connection) -> None:
    """Wait for one more member."""
    with trio.fail_after(PATIENCE_S):
        async for event in connection:
            if isinstance(event, GroupView) and event.cause is Cause.JOIN and not event.own:
                return
