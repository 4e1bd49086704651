"""The trace filter: what passes it, and what the other filters do, as steps in a file.

The vocabulary is that of `groupcomm.trace.steps`; docs/trace.md describes the file. Put it next to
the daemon (last) to record what the daemon delivers, next to the program (first) for what other
filters make of it.
"""

from collections.abc import Callable
from pathlib import Path as FolderPath
from urllib.parse import quote

from groupcomm.events import Message
from groupcomm.host.trace_file import TraceFile
from groupcomm.trace.steps import AlgorithmStep, StepTrace
from groupcomm_client.filters.roles import (
    Filter,
    FilterMessage,
    FilterOutgoing,
    Manager,
    Outgoing,
    Path,
    ReceiveFilter,
    SystemEvent,
)


class _Recorder(Manager):
    def __init__(self, folder: FolderPath) -> None:
        self._folder = folder
        self._file: TraceFile | None = None

    def start(self, path: Path) -> None:
        me = str(path.member)
        self._file = TraceFile(self._folder / f"filters-{quote(me, safe='')}.jsonl")
        path.record_to(StepTrace(self._file, self._record, me))

    def _record(self, step: AlgorithmStep) -> None:
        assert self._file is not None
        self._file.record(step)
        self._file.flush()

    def sent(self, message: Outgoing, number: int, path: Path) -> None:
        if isinstance(message, FilterOutgoing):
            path.steps.passed("own message sent")
        else:
            path.steps.sent((str(path.member), number), message.groups)

    def given(self, message: Message, path: Path) -> None:
        path.steps.delivered((str(message.sender), message.number))

    def told(self, event: SystemEvent, path: Path) -> None:
        path.steps.passed(type(event).__name__)

    def end(self) -> None:
        if self._file is not None:
            self._file.close()


class _Receive(ReceiveFilter):
    def process(self, message: Message, path: Path) -> None:
        path.steps.received((str(message.sender), message.number), str(message.sender))
        path.receive_on(message)

    def process_system(self, message: FilterMessage, path: Path) -> None:
        path.steps.passed("own message received")
        path.receive_on(message)


def traced(folder: FolderPath) -> Callable[[], Filter]:
    """A factory of filters that record into a file each, ``filters-MEMBER.jsonl``.

    Args:
        folder: where; it must be there.

    Raises:
        ConfigError: by `connect`, if no file can be written there.
    """
    return lambda: Filter("trace", receive=_Receive(), manager=_Recorder(folder))
