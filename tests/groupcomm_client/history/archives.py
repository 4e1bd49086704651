"""Archives as processes, for tests."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Final, Self

from groupcomm.clocks.stamp import Position
from groupcomm.events import GroupView, Message
from groupcomm_client.history.given import Given
from tests.groupcomm_tools.warm import PIPE, WarmProcess

PATIENCE_S: Final = 30.0


STEADY: Final = 'preset = "wan"'
"""Settings of daemons that keep their view on a busy machine, for tests of what has no gap then."""


class ArchiveProcess:
    """`groupcomm history serve ... --json`, for the length of a block.

    Attributes:
        reported: all that it has printed so far.
    """

    def __init__(
        self, address: str, store: Path, groups: Sequence[str], *more: str, cold: bool = False
    ) -> None:
        words = (*groups, "--store", str(store), "--address", address, *more)
        words = ("history", "serve", "--json", *words)
        self._process: WarmProcess | subprocess.Popen[str]
        if cold:  # as users start it: an interpreter of its own reads the environment
            command = (sys.executable, "-m", "groupcomm_tools.cli", *words)
            self._process = subprocess.Popen(command, stdout=PIPE, text=True)
        else:
            self._process = WarmProcess(*words, stdout=PIPE)
        self.reported: list[dict[str, Any]] = []
        self._changed = Condition()
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                with self._changed:
                    self.reported.append(json.loads(line))
                    self._changed.notify_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    def until_live(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until it gets live events."""
        self.until(lambda: any(each["event"] == "live" for each in self.reported), patience_s)

    def until(self, ready: Any, patience_s: float = PATIENCE_S) -> None:
        """Wait until a condition on what it has printed holds."""
        limit = time.monotonic() + patience_s
        with self._changed:
            while not ready():
                left = limit - time.monotonic()
                if left <= 0:
                    self._process.send_signal(signal.SIGABRT)  # it says where it is
                    self._process.wait(5)
                    raise AssertionError(f"the archive only says {self.reported}")
                assert self._process.poll() is None, f"the archive has ended: {self.reported}"
                self._changed.wait(min(left, 0.2))

    def kill(self) -> None:
        """End it at once."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._listener.join()

    def end(self) -> int:
        """End it in order; return its exit status."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Wait until it ends by itself; return its exit status."""
        status = self._process.wait(PATIENCE_S)
        self._listener.join()
        return status


def key_of(event: Given) -> tuple[Position, str] | None:
    """Return what identifies an event of the line of one group; None for other events."""
    if isinstance(event, Message) and event.position is not None:
        return event.position, f"{event.number} {event.data.decode(errors='replace')}"
    if isinstance(event, GroupView):
        return event.id, f"{event.group}: {' '.join(map(str, event.members))}"
    return None
