"""Rows of a log as text: by a format string, or as JSON."""

import string
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from groupcomm.errors import ConfigError
from groupcomm.visible import visible
from groupcomm_log.schema import PLACE, SCHEMA

DEFAULT_FORMAT: Final = "{row} {time} {what}"
"""The default format of `groupcomm log cat`."""

MADE: Final = ("time", "place", "data_hex", "what")
"""Fields that are not columns: the time of receipt in ISO 8601, the position as `groupcomm sub
--json` has it, the data in hexadecimal, and a sentence.
"""

FIELDS: Final = (*SCHEMA.names, *MADE)

_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", "\\0": "\0", "\\\\": "\\"}


class RowFormat(string.Formatter):
    """A format string, as `str.format` has them, with the fields of a row by name.

    Args:
        text: such as ``{row:>8} {sender} {data}``.

    Raises:
        ConfigError: the string is invalid, or names an unknown field.
    """

    def __init__(self, text: str) -> None:
        for written, meant in _ESCAPES.items():
            text = text.replace(written, meant)
        self._text = text
        try:
            names = [name for _, name, _, _ in self.parse(text) if name is not None]
            unknown = [name for name in names if name not in FIELDS]
            if not unknown:
                self.of(dict.fromkeys(SCHEMA.names))
        except ValueError as error:
            raise ConfigError(f"--format {text!r}: {error}; write {{row}} {{sender}}") from None
        if unknown:
            raise ConfigError(
                f"--format {text!r} has no field {unknown[0]!r}; there are {', '.join(FIELDS)}"
            )

    def of(self, row: Mapping[str, Any]) -> str:
        """Return the row as text; null columns are empty."""
        return self.vformat(self._text, (), _Fields(row))

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        """Return the field of this name; fields have no parts."""
        return kwargs[field_name], field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return null as an empty text, whatever the format is."""
        return "" if value is None else super().format_field(value, format_spec)


class _Fields(dict[str, Any]):
    """A mapping that computes only the fields that are used."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        super().__init__()
        self._row = row

    def __missing__(self, name: str) -> Any:
        return field(self._row, name)


def field(row: Mapping[str, Any], name: str) -> Any:
    """Return a field of a row as text or number."""
    match name:
        case "time":
            received = row["received"]
            return received and received.astimezone(UTC).isoformat(timespec="microseconds")
        case "place":
            return position_of(row)
        case "data":
            return row["data"] and row["data"].decode(errors="backslashreplace")
        case "data_hex":
            return row["data"] and row["data"].hex()
        case "received":
            return row["received"] and str(row["received"])
        case "what":
            return sentence(row)
        case _:
            value = row[name]
            return " ".join(map(str, value)) if isinstance(value, list) else value


def position_of(row: Mapping[str, Any]) -> str | None:
    """Return the position of a row; None if it has none."""
    if row["stamp"] is None:
        return None
    view, stamp, *rest = (row[name] for name in PLACE)
    return f"{view}/{stamp}.{'.'.join(map(str, rest))}"


def sentence(row: Mapping[str, Any]) -> str:
    """Return a row as a sentence."""
    match row["kind"]:
        case "message":
            return f"{row['level']:<10} {row['sender']} {_line(row)}"
        case "view":
            return (
                f"group {field(row, 'groups')}: {row['cause']} {field(row, 'changed')}".rstrip()
                + f" - members {field(row, 'members') or 'none'}"
                + f" - came along {field(row, 'vs_set') or 'none'}"
            )
        case "daemons":
            return f"daemons: {field(row, 'members')}"
        case "transition":
            return "transition: until the next view, others may lack the messages that follow"
        case "gap":
            return f"gap: {row['cause']} {field(row, 'data')}"
        case _:
            return f"{row['kind']}"


def _line(row: Mapping[str, Any]) -> str:
    """Return the data of a message in one line: it must not look like another row."""
    return visible((row["data"] or b"").decode(errors="backslashreplace"))


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row without its null columns; data that is not text is in ``data_hex``."""
    found = {name: value for name, value in row.items() if value is not None}
    if isinstance(received := found.get("received"), datetime):
        found["received"] = received.astimezone(UTC).isoformat(timespec="microseconds")
    data = found.pop("data", None)
    if data is not None:
        try:
            found["data"] = data.decode()
        except UnicodeDecodeError:
            found["data_hex"] = data.hex()
    return found
