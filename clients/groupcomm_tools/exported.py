"""Messages of history for other programs: lines of JSON, or CSV."""

import csv
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

import msgspec

from groupcomm.clocks.stamp import Position, format_position
from groupcomm.events import Message


class Exported(NamedTuple):
    """One message of the line.

    Attributes:
        position: its position, which `groupcomm sub --start` takes.
        time: when the recorder received it, in ISO 8601, UTC; None if that is not known.
        groups: all destinations.
        sender: the private name of its sender.
        type: the sender's tag.
        level: the name of its level.
        data: its data.
    """

    position: str
    time: str | None
    groups: tuple[str, ...]
    sender: str
    type: int
    level: str
    data: bytes


Write = Callable[[Exported], None]

CSV_COLUMNS: Final = (*Exported._fields, "encoding")
"""The last column says what the data is: ``text`` or ``base64``."""


def exported(message: Message, place: Position) -> Exported:
    """Return a message of a subscription."""
    return Exported(
        *(format_position(place), None, message.groups, message.sender.name),
        *(message.type, message.level.name, message.data),
    )


def json_writer(output: TextIO, *, only_base64: bool) -> Write:
    """Return a function that writes a message as an object in one line; None is left out.

    Args:
        output: where to write.
        only_base64: have all data as ``data_base64``; else only data that is no UTF-8.
    """

    def write(message: Exported) -> None:
        found: dict[str, Any] = message._asdict()
        text, encoding = _text_of(found.pop("data"), only_base64=only_base64)
        if message.time is None:
            del found["time"]
        found["data" if encoding == "text" else "data_base64"] = text
        output.write(msgspec.json.encode(found).decode() + "\n")

    return write


def csv_writer(output: TextIO, *, only_base64: bool) -> Write:
    """Write the names of the columns; return a function that writes a message as a row.

    Args:
        output: where to write; it must leave ends of lines as they are.
        only_base64: have all data as base64; else only data that is no UTF-8.
    """
    rows = csv.writer(output, lineterminator="\n")
    rows.writerow(CSV_COLUMNS)

    def write(message: Exported) -> None:
        encoded = _text_of(message.data, only_base64=only_base64)
        rows.writerow((*message[:2], " ".join(message.groups), *message[3:6], *encoded))

    return write


def _text_of(data: bytes, *, only_base64: bool) -> tuple[str, str]:
    if not only_base64:
        try:
            return data.decode(), "text"
        except UnicodeDecodeError:
            pass
    return b64encode(data).decode(), "base64"


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Yield a file to write; it has its name once the block has ended without an error.

    A link stays one, and its target is written; a device or a pipe is written as it is.

    Raises:
        OSError: it cannot be written.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="") as output:
            yield output
        return
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with unfinished.open("w", encoding="utf-8", newline="") as output:
            yield output
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
