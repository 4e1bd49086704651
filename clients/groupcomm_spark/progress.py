"""What long jobs tell while they run, on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Say = Callable[[str], None]


def quiet(text: str) -> None:
    """Tell nothing."""


def say(text: str) -> None:
    """Tell people."""
    print(f"groupcomm: {text}", file=sys.stderr, flush=True)


@contextmanager
def stage(what: str, tell: Say) -> Iterator[None]:
    """Tell that a part of the work begins, and how long it took."""
    tell(f"{what} ...")
    began = time.monotonic()
    yield
    tell(f"{what}: {time.monotonic() - began:.1f} s")
