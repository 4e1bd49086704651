"""The end of a command by SIGTERM, or because its terminal was closed: in order, as by ^C.

So whatever a command has started ends with it, and its files are removed.
"""

import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_ENDS: Final = (signal.SIGTERM, signal.SIGHUP)


class Stop:
    """The way in which a command was ended.

    Attributes:
        number: the signal.
    """

    def __init__(self) -> None:
        self.number = signal.SIGINT

    @property
    def status(self) -> int:
        """Return the exit status of a command that the signal has ended."""
        return 128 + self.number

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal as ^C."""
        self.number = signal.Signals(number)
        signal.raise_signal(signal.SIGINT)


@contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Have SIGTERM and SIGHUP interrupt the block as ^C does, unless they are ignored (nohup)."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():  # it gets no signals
        yield stop
        return
    before = {number: signal.getsignal(number) for number in _ENDS}
    taken = [number for number in _ENDS if before[number] is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, stop.interrupt)
    try:
        yield stop
    finally:
        for number in taken:
            signal.signal(number, before[number])


def run_tasks(main: Callable[[*Ts], Awaitable[T]], *arguments: *Ts) -> T:
    """Run the tasks of a command, which a signal ends where its main task waits.

    Anywhere else a task could hold the interruption for an error of its own, and the command would
    go on.
    """
    import trio  # noqa: PLC0415 - not all verbs need it

    return trio.run(main, *arguments, restrict_keyboard_interrupt_to_checkpoints=True)
