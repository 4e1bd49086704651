"""Messages as text by a format string, for `groupcomm sub --format`."""

import string
from collections.abc import Callable, Mapping
from typing import Any, Final

from groupcomm.errors import ConfigError
from groupcomm.events import Message
from groupcomm.visible import visible
from groupcomm_tools.event_text import position_text

FIELDS: Final[Mapping[str, Callable[[Message], Any]]] = {
    "level": lambda message: message.level.name,
    "group": lambda message: message.groups[0],
    "groups": lambda message: " ".join(message.groups),
    "sender": lambda message: message.sender.name,
    "type": lambda message: message.type,
    "position": lambda message: position_text(message.position) or "",
    "bytes": lambda message: len(message.data),
    "data": lambda message: message.data.decode(errors="backslashreplace"),
    "data_hex": lambda message: message.data.hex(),
}
"""The names that a format may use."""

_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", "\\0": "\0", "\\\\": "\\"}


class MessageFormat:
    """A format string, as `str.format` has them, with the fields of a message by name.

    Args:
        text: such as ``{sender:<12} {data}``.

    Attributes:
        is_for_a_program: whether it ends with a zero byte; its texts then suit no terminal.

    Raises:
        ConfigError: the string is invalid, or names an unknown field.
    """

    def __init__(self, text: str) -> None:
        for written, meant in _ESCAPES.items():
            text = text.replace(written, meant)
        self.is_for_a_program = text.endswith("\0")
        self._text = text if self.is_for_a_program else f"{text}\n"
        try:
            names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
        except ValueError as error:
            raise ConfigError(f"--format {text!r}: {error}") from None
        for name in names:
            if name not in FIELDS:
                raise ConfigError(f"--format has {name!r}; it may have {', '.join(FIELDS)}")
        self._names = frozenset(names)

    def of(self, message: Message) -> str:
        """Return a message as text; its data is one line unless a program reads it."""
        found = {name: FIELDS[name](message) for name in self._names}
        if "data" in found and not self.is_for_a_program:
            found["data"] = visible(found["data"])
        try:
            return self._text.format(**found)
        except ValueError as error:  # a text has no such format
            raise ConfigError(f"--format: {error}") from None
