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
            done = total = 0
            tracker = self._tracker
            for number in () if tracker is None else tracker.getActiveStageIds():
                info = tracker.getStageInfo(number)
                if info is not None:
                    done += info.numCompletedTasks
                    total += info.numTasks
            far = f"{done} of {total} tasks" if total else "no tasks yet"
            far = "running" if self._tracker is None else far
            self._tell(f"{stage}: {far}, {time.monotonic() - began:.0f} s")
