"""`groupcomm` as processes that have imported all at their start, which saves most of their time.

They are forked from one that has imported it, once for all tests of a worker. Tests that run the
documentation, and some of each command, start it as users do.
"""

import os
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import IO, Final, Self
from unittest.mock import patch

from groupcomm_tools.warm_start import start_warm

PIPE: Final = subprocess.PIPE
MODULE: Final = "tests.groupcomm_tools.warm_commands"


def warm_up() -> None:
    """Wait until the process that forks commands has imported all."""
    with WarmProcess("--version", stdout=PIPE, stderr=PIPE) as process:
        process.communicate()


class WarmProcess:
    """A command as a process of its own, used like subprocess.Popen for text.

    Args:
        words: the words of the command.
        environment: its environment; None for that of this process.
        streams: descriptors, or PIPE, for its standard streams, by name: stdin, stdout, stderr;
            the others are those of this process.

    Attributes:
        stdin, stdout, stderr: our ends of the pipes.
    """

    def __init__(
        self, *words: str, environment: Mapping[str, str] | None = None, **streams: int
    ) -> None:
        self.stdin: IO[str] | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        streams = {"stdin": 0, "stdout": 1, "stderr": 2} | streams
        with ExitStack() as theirs, patch.dict(os.environ, environment or {}):
            for name, stream in streams.items():
                if stream == PIPE:
                    reading, writing = os.pipe()
                    own, other = (writing, reading) if name == "stdin" else (reading, writing)
                    setattr(self, name, os.fdopen(own, "w" if own == writing else "r"))
                    theirs.callback(os.close, other)
                    streams[name] = other
            self._process = start_warm(MODULE, words, **streams)
        self.pid = self._process.pid
        self.poll = self._process.poll
        self.wait = self._process.wait
        self.send_signal = self._process.send_signal
        self.kill = self._process.kill

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close_input()
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    @property
    def returncode(self) -> int | None:
        """Return the exit status; None while the process is not known to have ended."""
        return self._process.returncode

    def communicate(self, given: str = "", timeout: float | None = None) -> tuple[str, str]:
        """Write its input, wait for its end, and return what it has written.

        Raises:
            subprocess.TimeoutExpired: it ran for longer, and was killed.
        """
        with ThreadPoolExecutor(2) as readers:
            streams = [stream for stream in (self.stdout, self.stderr) if stream is not None]
            texts = [readers.submit(stream.read) for stream in streams]
            self._close_input(given)
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        output, messages = (text.result() for text in texts)
        for stream in streams:
            stream.close()
        return output, messages

    def _close_input(self, given: str = "") -> None:
        if self.stdin is not None and not self.stdin.closed:
            with suppress(BrokenPipeError):  # it has ended
                self.stdin.write(given)
            with suppress(BrokenPipeError):
                self.stdin.close()
