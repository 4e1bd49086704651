"""`groupcomm` run as users run it, against one daemon."""

import io
import os
import subprocess
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout
from typing import AnyStr
from unittest.mock import patch

from groupcomm_tools.cli import main

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


def finish(process: subprocess.Popen[AnyStr]) -> tuple[AnyStr, AnyStr]:
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

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command, whose output the caller reads."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.command(*words),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            env=self.environment,
        )

    def tell(self, *words: str, given: str = "") -> Told:
        """Run a command in this process; return the result."""
        return tell(*words, given=given, environment=self.environment)

    def run(self, *words: str, given: str = "") -> Told:
        """Run a command in a process of its own to its end; return the result."""
        process = self.start(*words)
        output, messages = process.communicate(given, timeout=PATIENCE_S)
        return process.returncode, output, messages
