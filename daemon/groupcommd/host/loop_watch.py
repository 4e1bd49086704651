"""The steps of an event loop: the longest ones, what they did, and what they waited for.

While the loop takes a step it serves nobody else. So no step may wait: for a disk, a log, a name
service or a lock. Tests show that none calls what waits (tests/groupcommd/loop_calls); this module
measures the loop of a running process.

It costs two readings of a clock and a count in a histogram a turn. Trio's instruments would see
every step of every task, and cost ten times as much. So steps that are not turns measure themselves
if they may take long; all others together show as a timer that comes late.

The clocks of a thread's processor time, and of its waits for a processor, cost more: they are read
once in `READ_EVERY_S`, so the parts of a step are known to within that time, and never too much of
it counts as waiting.
"""

import logging
import os
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf, isfinite
from time import monotonic
from typing import Any, Final, Protocol

import attrs

from groupcomm.durations import BOUNDS_S, Durations, quantile_s
from groupcommd.host.bounded_log import BoundedLog

LONG_S: Final = 0.01
"""Longer steps are counted, and their parts measured."""

LOGGED_S: Final = 0.3
"""Longer steps are logged: tokens wait for so long, and a token timeout is twice that, or more."""

READ_EVERY_S: Final = 0.001
"""The time between two readings of the clocks that cost more."""

WINDOW_S: Final = 60.0
"""The longest step of this time and of as much before it is reported."""

BUSY, WAITED, HOST = "busy", "waited", "host"
CAUSES: Final = (BUSY, WAITED, HOST)
"""The parts of a step; see `Step`."""

_REMEDIES: Final = {
    BUSY: "if that happens often, spread the programs over more daemons, or give this one a faster"
    " processor",
    WAITED: "nothing in it may wait for a disk, a name service or a lock: unless it was stopped,"
    " please report this line",
    HOST: "give it a processor of its own, or a higher CPUWeight or nice value",
}


@attrs.frozen(kw_only=True)
class Step:
    """One step of the loop.

    Attributes:
        took_s: its duration in seconds.
        busy_s: the part in which it computed; all of a step that takes less than `LONG_S`.
        host_s: the part in which it could have run, and the host ran others; 0 if the system does
            not tell.
        did: the work of the step.
    """

    took_s: float = 0.0
    busy_s: float = 0.0
    host_s: float = 0.0
    did: str = "did nothing"

    @property
    def waited_s(self) -> float:
        """Return the part in which it did not want to run: it waited, or was stopped."""
        return self.took_s - self.busy_s - self.host_s

    @property
    def cause(self) -> str:
        """Return the largest of its parts, as one of `CAUSES`."""
        parts = {BUSY: self.busy_s, WAITED: self.waited_s, HOST: self.host_s}
        return max(CAUSES, key=parts.__getitem__)

    @property
    def text(self) -> str:
        """Return a sentence for operators."""
        busy, waited, host = (round(1000 * s) for s in (self.busy_s, self.waited_s, self.host_s))
        return (
            f"the event loop served nobody for {1000 * self.took_s:.0f} ms: it was busy for {busy}"
            f" ms, waited for {waited} ms, and the host ran others for {host} ms, while it"
            f" {self.did}"
        )

    @property
    def remedy(self) -> str:
        """Return what to do about it."""
        return _REMEDIES[self.cause]


class Clocks(Protocol):
    """The clocks of a thread, in seconds."""

    def now(self) -> float:
        """Return the time."""

    def parts(self) -> tuple[float, float]:
        """Return the thread's processor time, and the time for which it has waited for one."""


class ThreadClocks:
    """The clocks of the thread that has made this object."""

    now = staticmethod(monotonic)

    def __init__(self) -> None:
        try:
            self._schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # a system that does not tell
            self._schedstat = -1

    def parts(self) -> tuple[float, float]:
        """See `Clocks`."""
        queued = os.pread(self._schedstat, 128, 0).split()[1] if self._schedstat >= 0 else 0
        return time.thread_time(), int(queued) / 1e9

    def close(self) -> None:
        """Close the file of the kernel."""
        if self._schedstat >= 0:
            os.close(self._schedstat)
            self._schedstat = -1


class LoopWatch:
    """A watch over the steps of one loop.

    Args:
        tell: is called with each step that takes longer than `LOGGED_S`.

    Attributes:
        noted_s: `end` is to be called after a step that takes longer, in seconds.
        read_due: `read` is to be called before a step that begins at this time or later.
        long: the number of steps that took longer than `LONG_S`, by their cause.
        steps: the durations of all measured steps.
        long_busy: the parts of the long ones in which they computed.
    """

    def __init__(self, tell: Callable[[Step], object]) -> None:
        self._tell = tell
        self._clocks: Clocks | None = None
        self._parts = 0.0, 0.0  # at the last reading
        self._long_at = -inf  # the end of the last long step
        self._longest = self._before = Step()  # of this window, and of the one before
        self._window_ends = -inf
        self.noted_s = 0.0
        self.read_due = inf
        self.long: Counter[str] = Counter(dict.fromkeys(CAUSES, 0))
        self.steps, self.long_busy = Durations(), Durations()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure the steps of the thread that calls this, until the block ends."""
        self._clocks, self.read_due = ThreadClocks(), -inf
        try:
            yield
        finally:
            self._clocks.close()
            self._clocks, self.read_due = None, inf

    def read(self, now: float) -> None:
        """Read the clocks of the parts; see `read_due`."""
        assert self._clocks is not None
        self.read_due, self._parts = now + READ_EVERY_S, self._clocks.parts()
        if now >= self._window_ends:
            self._before, self._longest = self._longest, Step()
            self._window_ends, self.noted_s = now + WINDOW_S, 0.0

    def end(self, took_s: float, did: str) -> None:
        """Note a step that has just ended.

        Args:
            took_s: its duration in seconds.
            did: its work: verbs and objects, such as "received 2 datagrams, sent 1 datagram".
        """
        if took_s < LONG_S or self._clocks is None:
            found = Step(took_s=took_s, busy_s=took_s, did=did)
        else:
            found = self._end_long(self._clocks, took_s, did)
        if took_s > self._longest.took_s:
            self._longest = found
            self.noted_s = min(took_s, LONG_S)

    def _end_long(self, clocks: Clocks, took_s: float, did: str) -> Step:
        cpu_s, queued_s = clocks.parts()
        busy_s = min(took_s, cpu_s - self._parts[0])
        host_s = min(took_s - busy_s, queued_s - self._parts[1])
        found = Step(took_s=took_s, busy_s=busy_s, host_s=host_s, did=did)
        self._long_at, self.read_due = clocks.now(), -inf
        self.long[found.cause] += 1
        self.long_busy.add(busy_s)
        if took_s >= LOGGED_S:
            self._tell(found)
        return found

    @contextmanager
    def step(self, did: str) -> Iterator[None]:
        """Measure a step that is no turn; a long step inside it counts in its place."""
        began = monotonic()
        if began >= self.read_due:
            self.read(began)
        yield
        took_s = monotonic() - began
        if self._long_at < began:
            self.steps.add(took_s)
            if took_s > self.noted_s:
                self.end(took_s, did)

    def note_late(self, late_s: float) -> None:
        """Note that a timer comes late, in seconds: unless a long step explains it, others do."""
        if late_s >= LONG_S and self._long_at < monotonic() - late_s:
            self.steps.add(late_s)
            self.end(late_s, "took other steps")

    # ---- reports ----

    @property
    def longest(self) -> Step:
        """Return the longest step of the last one or two windows."""
        return max(self._longest, self._before, key=lambda each: each.took_s)

    @property
    def busy_counts(self) -> list[int]:
        """Return the numbers of steps by the time in which they computed, as `Durations` has."""
        short = bisect_right(BOUNDS_S, LONG_S)
        counts = [*self.steps.counts[:short], *([0] * (len(BOUNDS_S) + 1 - short))]
        return [one + other for one, other in zip(counts, self.long_busy.counts, strict=True)]

    def report(self) -> dict[str, Any]:
        """Return the state of the loop, as plain values."""
        longest, p999_s = self.longest, quantile_s(self.steps.counts, 0.999)
        bounds = [f"{1000 * bound:g}" for bound in BOUNDS_S]
        return {
            "longest_ms": round(1000 * longest.took_s, 1),
            "busy_ms": round(1000 * longest.busy_s, 1),
            "waited_ms": round(1000 * longest.waited_s, 1),
            "host_ms": round(1000 * longest.host_s, 1),
            "did": longest.did,
            "long": dict(self.long),
            "steps": dict(zip([*bounds, "more"], self.steps.counts, strict=True)),
            "busy_steps": dict(zip([*bounds, "more"], self.busy_counts, strict=True)),
            "p999_ms": 1000 * p999_s if isfinite(p999_s) else None,
            "text": longest.text,
            "remedy": longest.remedy,
        }


def log_step(log: BoundedLog, found: Step) -> None:
    """Log a long step of a daemon's loop."""
    log.line(
        f"loop: {found.cause}",
        logging.WARNING,
        "%s; %s",
        found.text,
        found.remedy,
        extra={
            "loop_s": round(found.took_s, 3),
            **{"busy_s": round(found.busy_s, 3), "waited_s": round(found.waited_s, 3)},
            **{"host_s": round(found.host_s, 3), "did": found.did},
        },
    )
