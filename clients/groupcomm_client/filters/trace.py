"""The trace filter: records passing messages, and the steps of the other filters, in a file.

The vocabulary is that of `groupcomm.trace.steps`; docs/trace.md describes the file. Put it next to
the daemon (last) to record what the daemon delivers, next to the program (first) to record the
result of the other filters. Each step of a message that the filter next above has stamped has the
stamp.
"""

from collections.abc import Callable
from pathlib import Path as FolderPath
from typing import Final
from urllib.parse import quote

import msgspec

from groupcomm.events import Message
from groupcomm.host.trace_file import TraceFile
from groupcomm.trace.steps import AlgorithmStep, Given, MessageId, OfReceived, StepTrace
from groupcomm_client.filters.roles import (
    Filter,
    FilterMessage,
    FilterOutgoing,
    Manager,
    Outgoing,
    Path,
    ReceiveFilter,
    Stamped,
    SystemEvent,
)

REMEMBERED: Final = 65_536
"""The stamps of messages in the filters that are remembered; the oldest are dropped."""


class _Recorder(Manager):
    """A recorder of steps, which adds a message's stamp to each of its steps."""

    def __init__(self, folder: FolderPath) -> None:
        self._folder = folder
        self._file: TraceFile | None = None
        self._stamps: dict[MessageId, Stamped] = {}

    def start(self, path: Path) -> None:
        me = str(path.member)
        self._file = TraceFile(self._folder / f"filters-{quote(me, safe='')}.jsonl")
        path.record_to(StepTrace(self._file, self._record, me))

    def _record(self, step: AlgorithmStep) -> None:
        assert self._file is not None
        if isinstance(step, OfReceived):
            step = self._with_stamp(step)
        self._file.record(step)
        self._file.flush()

    def _with_stamp(self, step: OfReceived) -> OfReceived:
        message = step.s, step.m
        stamped = self._stamps.get(message)
        if isinstance(step, Given):
            self._stamps.pop(message, None)
        if stamped is None:
            return step
        return msgspec.structs.replace(step, stamp=stamped.text, bytes=stamped.bytes)

    def came(self, message: Message, path: Path) -> None:
        """Record the receipt of a message, and remember its stamp."""
        name = str(message.sender), message.number
        stamped = path.stamp_of(message)
        if stamped is not None:
            self._stamps[name] = stamped
            if len(self._stamps) > REMEMBERED:
                del self._stamps[next(iter(self._stamps))]
        path.steps.received(name, name[0])

    def sent(self, message: Outgoing, number: int, path: Path) -> None:
        if isinstance(message, FilterOutgoing):
            path.steps.passed("own message sent")
        else:
            stamped = path.stamp_of(message) or Stamped("", 0)
            path.steps.sent((str(path.member), number), message.groups, *stamped)

    def delivered(self, message: Message, path: Path) -> None:
        path.steps.delivered((str(message.sender), message.number))

    def notified(self, event: SystemEvent, path: Path) -> None:
        path.steps.passed(type(event).__name__)

    def end(self) -> None:
        if self._file is not None:
            self._file.close()


class _Receive(ReceiveFilter):
    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder

    def process(self, message: Message, path: Path) -> None:
        self._recorder.came(message, path)
        path.receive_on(message)

    def process_system(self, message: FilterMessage, path: Path) -> None:
        path.steps.passed("own message received")
        path.receive_on(message)


def traced(folder: FolderPath) -> Callable[[], Filter]:
    """Return a factory of filters that record into a file each, ``filters-MEMBER.jsonl``.

    Args:
        folder: the folder of the files, which must exist.

    Raises:
        ConfigError: by `connect`, if no file can be written there.
    """

    def make() -> Filter:
        recorder = _Recorder(folder)
        return Filter("trace", receive=_Receive(recorder), manager=recorder)

    return make
