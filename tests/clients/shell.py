"""`groupcomm` run as users run it, against one daemon."""

import os
import subprocess
import sys

PATIENCE_S = 20.0

NO_PAUSES = "[timing]\ntoken_timeout_s = 10"
"""Settings of a daemon that stays in its view though the machine is busy with other things."""


class Shell:
    """Runs `groupcomm` against one daemon.

    Attributes:
        environment: of what it runs.
    """

    def __init__(self, address: str) -> None:
        self.environment = {**os.environ, "GROUPCOMM_ADDRESS": address}

    @staticmethod
    def command(*words: str) -> list[str]:
        """What runs `groupcomm` with these words."""
        return [sys.executable, "-m", "groupcomm_client.cli", *words]

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

    def run(self, *words: str, given: str = "") -> tuple[int, str, str]:
        """Run a command to its end: exit status, output, messages."""
        process = self.start(*words)
        output, messages = process.communicate(given, timeout=PATIENCE_S)
        return process.returncode, output, messages
