"""Kinds of messages, the normal properties of each, and the alarms of a window.

Pure except for `read_kinds`: figures in, alarms out. docs/spark.md describes the file of kinds.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from groupcomm.errors import ConfigError

MAX_TYPE: Final = 2**16 - 1


class MessageKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The normal properties of one kind of messages; None means that anything is normal.

    Attributes:
        type: type of its messages, 0 to 65,535.
        rate_hz: messages a second, of all senders together.
        least: share of this rate below which there is an alarm, 0 to 1.
        missing: share of a sender's numbers that may be missing, 0 to 1.
        late_s: age in seconds from which a received message is late.
        late: share of messages that may be late, 0 to 1.
        bytes_per_s: maximum bytes a second of all its messages.
    """

    type: int
    rate_hz: float | None = None
    least: float = 0.8
    missing: float | None = None
    late_s: float = 1.0
    late: float | None = None
    bytes_per_s: float | None = None


class MessageKinds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All kinds of messages of a system.

    Attributes:
        kinds: kinds by name.
        number_at: offset of the number in a message: 4 bytes, big-endian. None for the number in
            its sender's count, which also counts messages to other groups.
        made_at: offset of the time at which a message was made: nanoseconds since 1970, 8 bytes,
            big-endian. None for the time of receipt.
        window_s: the length of a window, seconds, by the times at which messages were made.
        watermark_s: a window is over once a message was made this many seconds after its end; later
            messages of the window are dropped, and counted.
    """

    kinds: dict[str, MessageKind]
    number_at: int | None = None
    made_at: int | None = None
    window_s: float = 1.0
    watermark_s: float = 2.0


def read_kinds(path: Path) -> MessageKinds:
    """Read the kinds from a file of TOML.

    Raises:
        ConfigError: the file is invalid; the text says why.
        OSError: it cannot be read.
    """
    try:
        kinds = msgspec.toml.decode(path.read_bytes(), type=MessageKinds)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}: {error}") from None
    for what in _wrong(kinds):
        raise ConfigError(f"{path}: {what}")
    return kinds


def _wrong(kinds: MessageKinds) -> list[str]:
    """Return the values that are invalid although their type is right."""
    found = [] if kinds.kinds else ["there are no kinds: write [kinds.NAME]"]
    for name, byte in (("number_at", kinds.number_at), ("made_at", kinds.made_at)):
        if byte is not None and byte < 0:
            found.append(f"{name} is {byte}; bytes count from 0")
    for name, seconds in (("window_s", kinds.window_s), ("watermark_s", kinds.watermark_s)):
        if not 0.01 <= seconds <= 86400:
            found.append(f"{name} is {seconds:g}; it must be 0.01 to 86400")
    types: dict[int, str] = {}
    for name, kind in kinds.kinds.items():
        if not 0 <= kind.type <= MAX_TYPE:
            found.append(f"type of {name} is {kind.type}; it must be 0 to {MAX_TYPE}")
        if kind.type in types:
            found.append(f"{name} and {types[kind.type]} have the same type {kind.type}")
        types[kind.type] = name
        for share in ("least", "missing", "late"):
            value = getattr(kind, share)
            if value is not None and not 0 <= value <= 1:
                found.append(f"{share} of {name} is {value:g}; a share is 0 to 1")
    return found


WHOLE: Final = 0.9
"""A window is checked for missing messages only if its messages cover this share of it: the
beginning and the end of a recording are no fault.
"""


class Flow(NamedTuple):
    """The messages of one kind from one sender in a window.

    Attributes:
        kind: name of the kind.
        sender: ``#user#daemon/connection``.
        messages: number of messages.
        bytes: their size.
        missing: numbers between the least and the greatest that did not come.
        late: number of late messages.
        worst_s: longest time from when a message was made until it was received.
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
        start, end: bounds of the window.
        covered_s: time from the first message of any kind to the last one.
        flows: messages by kind and sender.
    """

    start: datetime
    end: datetime
    covered_s: float
    flows: Sequence[Flow]

    @property
    def seconds(self) -> float:
        """Return the length of the window, in seconds."""
        return (self.end - self.start).total_seconds()


class Alarm(msgspec.Struct, frozen=True):
    """A deviation from the normal properties.

    Attributes:
        alarm: `silent`, `rate`, `missing`, `late` or `bandwidth`.
        kind: kind of messages.
        start: start of the window, ISO 8601.
        value: measured value.
        limit: limit that it exceeds.
        text: the alarm in one sentence.
    """

    alarm: str
    kind: str
    start: str
    value: float
    limit: float
    text: str


def check_window(window: Window, kinds: MessageKinds) -> list[Alarm]:
    """Return all alarms of a window, in the order of the kinds."""
    is_whole = window.covered_s >= WHOLE * window.seconds
    start = window.start.isoformat()
    return [
        Alarm(name, kind_name, start, round(value, 6), limit, f"{kind_name}: {text}")
        for kind_name, kind in kinds.kinds.items()
        for name, value, limit, text in _alarms(window, kind_name, kind, is_whole=is_whole)
    ]


_Found = tuple[str, float, float, str]


def _alarms(window: Window, name: str, kind: MessageKind, *, is_whole: bool) -> Iterator[_Found]:
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
