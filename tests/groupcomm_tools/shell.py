"""`groupcomm` run as users run it, against one daemon."""

import io
import os
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout
from typing import IO, AnyStr, Protocol
from unittest.mock import patch

from groupcomm_tools.cli import main
from tests.groupcomm_tools.warm import PIPE, WarmProcess

PATIENCE_S = 20.0

Told = tuple[int, str, str]
"""The result of a command: exit status, output, messages."""

NO_PAUSES = "[timing]\ntoken_timeout_s = 10"
"""Settings of a daemon that stays in its view though the machine is busy with other things."""


def tell(*words: str, given: str = "", environment: dict[str, str] | None = None) -> Told:
    """Run a command in this process, which saves the start of one; return the result."""
    output, messages = io.StringIO(), io.StringIO()
    with (
        redirect_stdout(output),
        redirect_stderr(messages),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode()))),
        patch.dict(os.environ, environment or {}),
    ):
        status = main(words)
    return status, output.getvalue(), messages.getvalue()


class Process(Protocol[AnyStr]):
    """What `finish` needs of a process."""

    stdin: IO[AnyStr] | None
    stdout: IO[AnyStr] | None
    stderr: IO[AnyStr] | None

    def kill(self) -> None: ...
    def wait(self) -> int: ...


def finish(process: Process[AnyStr]) -> tuple[AnyStr, AnyStr]:
    """Close the input of a process whose lines were read; return the rest of output and messages.

    `communicate` would lose what `readline` has read ahead: a part of a line, where the process
    writes a line and its end one by one.

    Returns:
        The rest of output, and of messages; none of messages that are not piped.
    """
    assert process.stdout is not None
    timer = threading.Timer(PATIENCE_S, process.kill)
    timer.start()
    try:
        if process.stdin is not None:
            process.stdin.close()
        output = process.stdout.read()
        messages = output[:0] if process.stderr is None else process.stderr.read()
        process.wait()
    finally:
        timer.cancel()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    return output, messages


class Shell:
    """Runs `groupcomm` against one daemon.

    Attributes:
        environment: the environment of commands.
    """

    def __init__(self, address: str) -> None:
        self.environment = {**os.environ, "GROUPCOMM_ADDRESS": address}

    @staticmethod
    def command(*words: str) -> list[str]:
        """Return the command line that runs `groupcomm` with these words."""
        return [sys.executable, "-m", "groupcomm_tools.cli", *words]

    def start(self, *words: str) -> WarmProcess:
        """Start a command, whose output the caller reads."""
        return WarmProcess(
            *words, environment=self.environment, stdin=PIPE, stdout=PIPE, stderr=PIPE
        )

    def tell(self, *words: str, given: str = "") -> Told:
        """Run a command in this process; return the result."""
        return tell(*words, given=given, environment=self.environment)

    def run(self, *words: str, given: str = "") -> Told:
        """Run a command in a process of its own to its end; return the result."""
        process = self.start(*words)
        output, messages = process.communicate(given, timeout=PATIENCE_S)
        return process.wait(), output, messages
