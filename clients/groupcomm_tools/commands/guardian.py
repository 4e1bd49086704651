"""A process that ends the commands of this one if this one is killed.

The kernel could do that (PR_SET_PDEATHSIG), and would have to be asked between fork and exec, of
which Python warns beside threads. So the process groups of commands are told to a helper, by a pipe
that ends with this process, however that ends. A command that was started in the last microseconds
before a kill may be unknown to it.
"""

import atexit
import os
import subprocess
import sys
from contextlib import suppress
from typing import Final

_HELPER: Final = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    number = int(line)
    groups.add(number) if number > 0 else groups.discard(-number)
for number in groups:
    try:
        os.killpg(number, signal.SIGTERM)
    except ProcessLookupError:
        print(number, "has ended")
"""


class Guardian:
    """The helper, and the process groups that run.

    The helper has a session of its own: what ends this process' group leaves it to do its work. One
    that was killed, or reads nothing, is replaced.
    """

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._helper: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the helper, if it does not run.

        Raises:
            OSError: it cannot be started.
        """
        if self._helper is not None and self._helper.poll() is None:
            return
        self.close()
        self._helper = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _HELPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        assert self._helper.stdin is not None
        os.set_blocking(self._helper.stdin.fileno(), False)
        for group in self._groups:
            self._written(group)

    def add(self, group: int) -> None:
        """Have a process group ended with this process."""
        self._groups.add(group)
        self._tell(group)

    def discard(self, group: int) -> None:
        """Forget a process group, before its leader is waited for: the number may be used again."""
        self._groups.discard(group)
        self._tell(-group)

    def close(self) -> None:
        """End the helper."""
        if self._helper is not None:
            self._helper.kill()
            assert self._helper.stdin is not None
            self._helper.stdin.close()
            self._helper.wait()
            self._helper = None

    def _tell(self, number: int) -> None:
        if not self._written(number):
            self.close()
            with suppress(OSError):  # the start of the next command says so
                self.start()

    def _written(self, number: int) -> bool:
        if self._helper is None:
            return False
        assert self._helper.stdin is not None
        line = b"%d\n" % number
        try:
            return self._helper.stdin.write(line) == len(line)
        except OSError:
            return False


guardian: Final = Guardian()
atexit.register(guardian.close)
