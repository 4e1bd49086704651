"""The supervisor of the HTTP process: starts it, notices its end, and starts it anew.

HTTP is answered in a process of its own, at a lower priority, so that neither requests nor streams
are ever in the way of the ring: supply.py has what the daemon still does. The process ends with
the daemon, however that ends: it reads the end of the channel, and the kernel kills it.
"""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Protocol

import attrs
import trio

from groupcomm.engine import News
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.config.http_table import table_of
from groupcommd.http.channel import Channel
from groupcommd.http.supply import Supply
from groupcommd.http.watched_files import WatchedFiles
from groupcommd.operators.status import DaemonParts

PAUSES_S: Final = (0.1, 1.0, 5.0, 30.0)
"""The times before a process is started anew, of one that has ended soon again and again."""

STEADY_S: Final = 60.0
"""A process that has run for this long begins with the first pause again."""

END_S: Final = 1.0
"""A process has this time to end by itself after its channel; one that hangs does not."""

_PRIVATE: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""Variables by which systemd speaks with the daemon alone."""

_log = logging.getLogger("groupcommd")


class HttpProcess(Protocol):
    """A process that answers HTTP."""

    async def end(self) -> str:
        """Wait for its end, which is near; return how it has ended."""

    def kill(self) -> None:
        """End it at once."""


Start = Callable[[socket.socket, socket.socket], HttpProcess]
"""Starts a process, with the socket that listens and its end of the channel, which it closes."""


class OwnProcess:
    """A process of this host.

    Args:
        listening: the socket that accepts connections.
        channel: its end of the channel.

    Raises:
        OSError: there is no room for a process.
    """

    def __init__(self, listening: socket.socket, channel: socket.socket) -> None:
        passed = listening.fileno(), channel.fileno()
        # Not in a thread: the kernel would kill it with the thread. It takes a millisecond.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "groupcommd.http", *map(str, passed)],
            stdin=subprocess.DEVNULL,
            pass_fds=passed,
            env={name: text for name, text in os.environ.items() if name not in _PRIVATE},
        )

    async def end(self) -> str:
        """See HttpProcess."""
        await self._wait()
        self._process.kill()
        await self._wait()
        status = self._process.poll()
        if status is None:
            return "it cannot even be killed: examine the host with dmesg"
        with suppress(ValueError):
            return f"killed by {signal.Signals(-status).name}"
        return f"exit status {status}"

    async def _wait(self) -> None:
        """Wait END_S at most: the daemon's loop must not wait in the system."""
        with trio.move_on_after(END_S):
            while self._process.poll() is None:
                await trio.sleep(0.01)

    def kill(self) -> None:
        """See HttpProcess."""
        self._process.kill()
        self._process.poll()


def _settings_of(config: DaemonConfig) -> bytes:
    """Return the settings as the process gets them."""
    assert config.http is not None
    told = {"unix": str(config.unix), "unix_for": config.unix_for}
    return json.dumps({**told, "http": attrs.asdict(table_of(config.http))}).encode()


class HttpSupervisor:
    """The supervisor of one start of a daemon.

    Args:
        listening: the socket that accepts connections.
        config: returns the configuration.
        parts: returns the parts of the daemon.
        start: starts the process.

    Attributes:
        supply: the answers to the questions of the process.
    """

    def __init__(
        self,
        listening: socket.socket,
        config: Callable[[], DaemonConfig],
        parts: Callable[[], DaemonParts],
        start: Start,
    ) -> None:
        self._listening = listening
        self._start = start
        self._config = config
        self._files = WatchedFiles(config)
        self.supply = Supply(parts, self._files)
        self._settings = _settings_of(config())

    def renew(self, *, settings: bool) -> None:
        """Have the process ask anew who may see what.

        Args:
            settings: whether it takes new settings, and reads their files again, too.
        """
        if settings:
            self._settings = _settings_of(self._config())
        self.supply.renew(self._settings if settings else b"")

    def note(self, news: Iterable[News]) -> None:
        """Note new views."""
        self.supply.note(news)

    async def run(self) -> None:
        """Keep a process running for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._files.watch)
            failures = 0
            while True:
                began = trio.current_time()
                how = await self._run_process()
                if trio.current_time() >= began + STEADY_S:
                    failures = 0
                pause_s = PAUSES_S[min(failures, len(PAUSES_S) - 1)]
                failures += 1
                _log.error(
                    "HTTP is not answered: the process for it has ended (%s); the next one starts"
                    " in %g s. The daemon itself goes on",
                    how,
                    pause_s,
                    extra={"ended": how, "pause_s": pause_s},
                )
                await trio.sleep(pause_s)

    async def _run_process(self) -> str:
        """Start a process and supply it until it has ended; return how it has."""
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            return str(error)
        with ours:
            try:
                with theirs:
                    process = self._start(self._listening, theirs)
            except OSError as error:
                return f"it could not be started: {error}"
            self.supply.starts += 1
            how = ""
            try:
                channel = Channel(ours)
                with suppress(OSError):
                    await channel.send("settings", "", self._settings)
                    await self.supply.serve(channel)
                ours.close()
                how = await process.end()
            finally:
                if not how:  # the daemon is ending
                    process.kill()
            return how
