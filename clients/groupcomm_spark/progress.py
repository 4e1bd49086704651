"""What long jobs tell while they run, on standard error."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL_S: Final = 2.0


class Progress:
    """Tells of each stage of a job how far Spark is, and how long it took.

    Args:
        spark: that does the work.
        is_quiet: nothing is told.
    """

    def __init__(self, spark: "SparkSession", *, is_quiet: bool = False) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._is_quiet = is_quiet
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """A stage, for as long as the block lasts."""
        over = Event()
        began = time.monotonic()
        watcher = Thread(target=self._watch, args=(stage, began, over), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
        self.seconds[stage] = time.monotonic() - began
        self._say(f"{stage}: done in {self.seconds[stage]:.1f} s")

    def _watch(self, stage: str, began: float, over: Event) -> None:
        while not over.wait(INTERVAL_S):
            done = total = 0
            for number in self._tracker.getActiveStageIds():
                info = self._tracker.getStageInfo(number)
                if info is not None:
                    done += info.numCompletedTasks
                    total += info.numTasks
            self._say(f"{stage}: {done} of {total} tasks, {time.monotonic() - began:.0f} s")

    def _say(self, text: str) -> None:
        if not self._is_quiet:
            print(f"groupcomm: {text}", file=sys.stderr, flush=True)
