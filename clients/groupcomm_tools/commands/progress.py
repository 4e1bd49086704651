"""What long commands tell while they run, on standard error."""

import sys
import time
from types import TracebackType

from groupcomm_tools.campaign import Totals

TERMINAL_INTERVAL_S = 0.2


def say(text: str) -> None:
    """A message for people."""
    print(text, file=sys.stderr, flush=True)


class Progress:
    """How far a campaign is: one line that changes on a terminal, else a line now and then.

    Args:
        seeds: how many runs there will be.
        interval_s: seconds between lines, where there is no terminal.
    """

    def __init__(self, seeds: int, interval_s: float) -> None:
        self._seeds = seeds
        self._terminal = sys.stderr.isatty()
        self._interval_s = TERMINAL_INTERVAL_S if self._terminal else interval_s
        self._started = self._shown = time.monotonic()
        self._open_line = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._open_line:
            say("")

    def show(self, totals: Totals) -> None:
        """Show the state, unless that was done a moment ago."""
        now = time.monotonic()
        if now - self._shown < self._interval_s:
            return
        self._shown = now
        speed = totals.simulated_s / (now - self._started)
        text = (
            f"{totals.seeds}/{self._seeds} seeds, {totals.violations} violations,"
            f" {totals.simulated_s:.0f} s simulated, {speed:.0f} times real time"
        )
        if self._terminal:
            print(f"\r{text}", end="", file=sys.stderr, flush=True)
            self._open_line = True
        else:
            say(text)
