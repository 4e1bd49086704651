"""When messages that are sent one by one are written: at once, or several together."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

GATHER_S: Final = 0.0001
"""What is sent so soon after a write waits for what else is sent before others have their turn."""


class Gathering(ABC):
    """Part of a stream of an event loop."""

    def __init__(self) -> None:
        self._gathering = False
        self._wrote_at = 0.0

    def write_soon(self) -> None:
        """Write what waits: at once, or with what else this task sends before it waits."""
        if self._gathering:
            return
        if time.monotonic() - self._wrote_at < GATHER_S:
            self._gathering = True
            self._call_soon(self._write_gathered)
        else:
            self._write_gathered()

    def _write_gathered(self) -> None:
        self._gathering = False
        self._wrote_at = time.monotonic()
        if not self._write():
            self._finish()

    @abstractmethod
    def _call_soon(self, call: Callable[[], None]) -> None:
        """Have the loop call something once the running task waits."""

    @abstractmethod
    def _write(self) -> bool:
        """Write what the socket takes; whether nothing is left."""

    @abstractmethod
    def _finish(self) -> None:
        """Have the rest written once the socket takes it."""
