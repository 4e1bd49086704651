"""Campaigns: many seeds on all processors; results come in the order of the seeds."""

import gc
import hashlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import TracebackType

import attrs

from groupcomm.sim.run import RunResult, run_seed
from groupcomm.sim.settings import Options
from groupcomm_tools.terminal import say

COLLECT_EVERY = 8
"""Runs between garbage collections; the cycles of one run hold some megabytes."""

TERMINAL_INTERVAL_S = 0.2
"""Seconds between two states of a progress line on a terminal."""

Run = Callable[[int, Options], RunResult]
"""A function that runs one seed."""

CHECK_S = 0.1
"""Seconds between two looks for ^C while a result is awaited."""

AHEAD = 4
"""Runs for each worker that may wait for an earlier and longer one."""


@attrs.define(kw_only=True)
class Totals:
    """Sums over the runs of a campaign.

    Attributes:
        seeds: the number of runs.
        events: the number of trace events.
        sent: messages sent by clients.
        deliveries: messages received by clients.
        views: views of daemons installed.
        simulated_s: virtual seconds.
        failed: the results with findings.
    """

    seeds: int = 0
    events: int = 0
    sent: int = 0
    deliveries: int = 0
    views: int = 0
    simulated_s: float = 0.0
    failed: list[RunResult] = attrs.field(factory=list)
    _hashes: list[str] = attrs.field(factory=list)

    def add(self, result: RunResult) -> None:
        """Add the result of one run; the order matters for the hash."""
        self.seeds += 1
        self.events += result.events
        self.sent += result.sent
        self.deliveries += result.deliveries
        self.views += result.views
        self.simulated_s += result.simulated_s
        self._hashes.append(result.trace_hash)
        if result.findings:
            self.failed.append(result)

    @property
    def violations(self) -> int:
        """Return the number of properties that did not hold, over all runs."""
        return sum(len(result.findings) for result in self.failed)

    def trace_hash(self) -> str:
        """Return the hash of the one trace, or a hash over those of all runs in their order."""
        if len(self._hashes) == 1:
            return self._hashes[0]
        return hashlib.blake2b("".join(self._hashes).encode(), digest_size=16).hexdigest()


class Progress:
    """The progress of a campaign: a line that changes on a terminal, else a line now and then.

    Args:
        seeds: number of runs.
        interval_s: seconds between lines if there is no terminal.
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
        """Show the state, unless it was shown a moment ago."""
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


def replay_command(seed: int, options: Options, command: str = "groupcomm simulate") -> str:
    """Return the command line that repeats one run of a campaign, bit for bit."""
    duration = repr(options.duration_s).removesuffix(".0")
    words = [f"{command} --seeds {seed}:{seed} --duration-s {duration}"]
    if options.daemons is not None:
        words.append(f"--daemons {options.daemons}")
    if options.sites is not None:
        words.append(f"--sites {options.sites}")
    if options.faults != "all":
        words.append(f"--faults {options.faults}")
    if options.suite is not None:
        words.append(f"--suite {options.suite}")
    return " ".join(words)


def run_campaign(
    seeds: Sequence[int],
    options: Options,
    *,
    workers: int,
    run: Run = run_seed,
) -> Generator[RunResult, None, None]:
    """Run every seed, one after the other or `workers` at a time; yield results in their order.

    Args:
        seeds: the seeds to run.
        options: the options of all seeds.
        workers: the number of processes, at least 1; with 1, or one seed, everything runs in this
            process.
        run: runs one seed; with several workers it must be a function of a module, as it is
            pickled.
    """
    if workers == 1 or len(seeds) == 1:
        for seed in seeds:
            yield run(seed, options)
        return
    # A fork server: forking this process would copy the threads that it may have by now.
    context = multiprocessing.get_context("forkserver")
    pool = ProcessPoolExecutor(
        min(workers, len(seeds)), mp_context=context, initializer=_start_worker
    )
    waiting: deque[Future[RunResult]] = deque()
    with _interrupts_deferred() as check:
        try:
            for seed in seeds:
                check()
                waiting.append(pool.submit(_run_clean, run, seed, options))
                if len(waiting) > AHEAD * workers:
                    yield _await_result(waiting.popleft(), check)
            while waiting:
                yield _await_result(waiting.popleft(), check)
        except BrokenProcessPool:
            check()  # ^C may also end workers that do not ignore it yet
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _await_result(future: Future[RunResult], check: Callable[[], None]) -> RunResult:
    """Return the result of a run; call `check` now and then until it has come."""
    while not wait([future], timeout=CHECK_S).done:
        check()
    check()
    return future.result()


@contextmanager
def _interrupts_deferred() -> Iterator[Callable[[], None]]:
    """Yield a function that raises KeyboardInterrupt if ^C has come since.

    Raised at any other moment, it could leave a lock of the pool taken, and the pool's shutdown
    would wait for it for ever. Threads other than the main one get no signals.
    """
    came = False

    def note(*_: object) -> None:
        nonlocal came
        came = True

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


def _start_worker() -> None:
    """Set up a process of the pool.

    ^C reaches a whole group of processes; the process that waits for the others handles it. A run
    makes many small objects and few cycles, so garbage is collected only between some runs, and
    never among the objects that existed before the first run.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_starter, daemon=True).start()
    gc.disable()
    gc.freeze()


def _end_with_starter() -> None:
    """End this process once the one that waits for it was killed; its parent is another one."""
    starter = multiprocessing.parent_process()
    assert starter is not None, "this process is of a pool"
    starter.join()
    os._exit(1)


def _run_clean(run: Run, seed: int, options: Options) -> RunResult:
    """Run a seed; collect garbage now and then, so that the last run is as fast as the first."""
    try:
        return run(seed, options)
    finally:
        if seed % COLLECT_EVERY == 0:
            gc.collect()
