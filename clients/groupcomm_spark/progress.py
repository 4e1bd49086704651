"""The progress of long jobs, on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

INTERVAL_S: Final = 2.0

Say = Callable[[str], None]


def quiet(text: str) -> None:
    """Print nothing."""


def say(text: str) -> None:
    """Print a message for people."""
    print(f"groupcomm: {text}", file=sys.stderr, flush=True)


class Progress:
    """A reporter of Spark's progress in each stage of a job, and of the stage's time.

    Args:
        spark: session that does the work.
        tell: is called with each message.
    """

    def __init__(self, spark: "SparkSession", tell: Say) -> None:
        self._tell = tell
        self._tracker: StatusTracker | None = None
        with suppress(AttributeError):  # Spark Connect knows no stages
            self._tracker = spark.sparkContext.statusTracker()

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Enter a stage, for the length of a block."""
        over = Event()
        began = time.monotonic()
        watcher = Thread(target=self._watch, args=(stage, began, over), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
        self._tell(f"{stage}: done in {time.monotonic() - began:.1f} s")

    def _watch(self, stage: str, began: float, over: Event) -> None:
        while not over.wait(INTERVAL_S):
            self._tell(f"{stage}: {self._tasks()}, {time.monotonic() - began:.0f} s")

    def _tasks(self) -> str:
        if self._tracker is None:
            return "running"
        done = total = 0
        for number in self._tracker.getActiveStageIds():
            info = self._tracker.getStageInfo(number)
            if info is not None:
                done += info.numCompletedTasks
                total += info.numTasks
        return f"{done} of {total} tasks" if total else "planning"
