"""What is alarming about a window. Pure: figures in, alarms out."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from groupcomm_spark.telemetry.kinds import Kind, Kinds

WHOLE: Final = 0.9
"""A window is judged for what is missing in it only if messages cover this share of it: where a
recording begins and where it ends nothing is wrong."""


class Flow(NamedTuple):
    """What came of one kind from one sender in a window.

    Attributes:
        kind: its name.
        sender: ``#user#daemon/connection``.
        messages: how many.
        bytes: of these.
        missing: numbers between the least and the greatest that did not come.
        late: messages that were late.
        worst_s: the longest time from when one was made until it was received.
    """

    kind: str
    sender: str
    messages: int
    bytes: int
    missing: int
    late: int
    worst_s: float


class Window(NamedTuple):
    """A window that is over.

    Attributes:
        start, end: of it.
        covered_s: from the first message of any kind to the last one.
        flows: what came.
    """

    start: datetime
    end: datetime
    covered_s: float
    flows: Sequence[Flow]

    @property
    def seconds(self) -> float:
        """How long it was."""
        return (self.end - self.start).total_seconds()


class Alarm(msgspec.Struct, frozen=True):
    """Something that is not normal.

    Attributes:
        alarm: `silent`, `rate`, `missing`, `late` or `bandwidth`.
        kind: of messages.
        start: of the window, ISO 8601.
        value: what was found.
        limit: what it has passed.
        text: a sentence.
    """

    alarm: str
    kind: str
    start: str
    value: float
    limit: float
    text: str


def judge(window: Window, kinds: Kinds) -> list[Alarm]:
    """All alarms of a window, by the order of the kinds."""
    is_whole = window.covered_s >= WHOLE * window.seconds
    start = window.start.isoformat()
    return [
        Alarm(name, kind_name, start, round(value, 6), limit, f"{kind_name}: {text}")
        for kind_name, kind in kinds.kinds.items()
        for name, value, limit, text in _alarms(window, kind_name, kind, is_whole=is_whole)
    ]


_Found = tuple[str, float, float, str]


def _alarms(window: Window, name: str, kind: Kind, *, is_whole: bool) -> Iterator[_Found]:
    flows = [flow for flow in window.flows if flow.kind == name]
    count = sum(flow.messages for flow in flows)
    if kind.rate_hz is not None and is_whole:
        rate, least = count / window.seconds, kind.least * kind.rate_hz
        if not count:
            yield "silent", 0.0, least, f"nothing in {window.seconds:g} s"
        elif rate < least:
            text = f"{rate:g} messages a second, {kind.rate_hz:g} are normal"
            yield "rate", rate, least, text
    if not count:
        return
    missing = sum(flow.missing for flow in flows)
    share = missing / (count + missing)
    if kind.missing is not None and share > kind.missing:
        yield "missing", share, kind.missing, f"{missing} of {count + missing} are missing"
    late = sum(flow.late for flow in flows)
    if kind.late is not None and late / count > kind.late:
        worst = max(flow.worst_s for flow in flows)
        text = f"{late} of {count} came after more than {kind.late_s:g} s, one after {worst:.3f} s"
        yield "late", late / count, kind.late, text
    bytes_per_s = sum(flow.bytes for flow in flows) / window.seconds
    if kind.bytes_per_s is not None and bytes_per_s > kind.bytes_per_s:
        text = f"{bytes_per_s:,.0f} bytes a second, {kind.bytes_per_s:,.0f} are allowed"
        yield "bandwidth", bytes_per_s, kind.bytes_per_s, text
