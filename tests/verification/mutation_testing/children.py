"""Children of this process: each does one job, and reports lines while it does."""

import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeAlias, TypeVar

import attrs

Report: TypeAlias = Callable[[str], None]
Job = TypeVar("Job")

SILENCE_S: Final = 600.0
"""The time without a report after which a child is killed: it waits for something."""


@attrs.define
class _Child(Generic[Job]):
    job: Job
    pid: int
    heard_s: float
    received: bytes = b""


@attrs.frozen
class Ended(Generic[Job]):
    """The end of a child.

    Attributes:
        job: what it had to do.
        lines: what it reported.
        died_of: the signal that ended it, or another reason; "" if it came to its end.
    """

    job: Job
    lines: list[str]
    died_of: str


def do_all(
    jobs: Iterable[Job], do: Callable[[Job, Report], None], workers: int
) -> Iterator[Ended[Job]]:
    """Do jobs in children made by fork, some at a time; yield each as it ends."""
    waiting = iter(jobs)
    selector = selectors.DefaultSelector()
    children: dict[int, _Child[Job]] = {}
    try:
        while True:
            while len(children) < workers and (job := next(waiting, None)) is not None:
                pid, descriptor = _fork(job, do)
                children[descriptor] = _Child(job, pid, time.monotonic())
                selector.register(descriptor, selectors.EVENT_READ)
            if not children:
                return
            for key, _ in selector.select(1.0):
                child = children[key.fd]
                data = os.read(key.fd, 65536)
                child.received += data
                child.heard_s = time.monotonic()
                if not data:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    del children[key.fd]
                    yield _ended(child)
            for child in children.values():
                if time.monotonic() > child.heard_s + SILENCE_S:
                    os.kill(child.pid, signal.SIGKILL)
    finally:
        for child in children.values():
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)


def _ended(child: _Child[Job]) -> Ended[Job]:
    _, status = os.waitpid(child.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    died_of = signal.Signals(-code).name if code < 0 else f"status {code}" if code else ""
    return Ended(child.job, child.received.decode(errors="replace").splitlines(), died_of)


def _fork(job: Job, do: Callable[[Job, Report], None]) -> tuple[int, int]:
    """Return the process that does a job, and the descriptor of its reports."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.close(reading)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        do(job, lambda line: _write_all(writing, line.encode() + b"\n"))
        status = 0
    except BaseException as error:
        _write_all(writing, f"error {type(error).__name__}: {error}\n".encode())
    finally:
        sys.stdout.flush()
        os._exit(status)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
