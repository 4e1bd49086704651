"""Keys of messages, and what stays of a line if only the last message of each key does. Pure."""

import json
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import msgspec

from groupcomm.clocks.stamp import Position
from groupcomm.events import DaemonView, GroupView, Message
from groupcomm_client.history.places import Line, place_of

MOST_KEYS: Final = 1_000_000
"""The keys of a group; with more it is left as it is."""

KeyOf: TypeAlias = Callable[[Message], object]
"""A function that returns the key of a message; None if it has none."""

_decode: Final = msgspec.json.Decoder().decode


def parse_key(text: str) -> KeyOf:
    """Return the function that a word of the command line names.

    Raises:
        ValueError: it names none.
    """
    kind, _, name = text.partition(":")
    if text == "type":
        return lambda message: message.type
    if text == "line":
        return lambda message: message.data.split(b"\n", 1)[0]
    if kind == "json" and name:
        return lambda message: _field(message.data, name)
    raise ValueError(f"{text}: it must be type, line or json:NAME")


def _field(data: bytes, name: str) -> object:
    """Return a field of a JSON object, as text; None if there is none."""
    try:
        found = _decode(data)
        value = found.get(name) if isinstance(found, dict) else None
        return None if value is None else json.dumps(value, sort_keys=True)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None


class LastOfKeys:
    """What stays of events: the last message of each key, messages without a key, the last views.

    Events may be added in any order, and again.
    """

    def __init__(self, key_of: KeyOf) -> None:
        """Begin without an event."""
        self._key_of = key_of
        self._last: dict[object, tuple[Position, Line]] = {}

    @property
    def count(self) -> int:
        """Return the number of events that stay."""
        return len(self._last)

    def add(self, events: Iterable[Line]) -> None:
        """Add events of the line."""
        last = self._last
        for event in events:
            place = place_of(event)
            assert place is not None, "an event of the line has a place"
            key: object
            if isinstance(event, Message):
                value = self._key_of(event)
                key = (Message, place) if value is None else (None, value)
            elif isinstance(event, GroupView):
                key = (GroupView, event.group)
            else:
                key = DaemonView
            if key not in last or last[key][0] <= place:
                last[key] = place, event

    def events(self) -> list[Line]:
        """Return what stays, in order; a view of daemons precedes others of its place."""
        found = sorted(
            self._last.values(), key=lambda each: (each[0], not isinstance(each[1], DaemonView))
        )
        return [event for _, event in found]
