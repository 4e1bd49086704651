"""`groupcomm` run as users run it, against one daemon."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
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
        """Start a command; its output is to be read."""
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
