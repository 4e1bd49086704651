"""Arguments of public calls: checked at the call, before anything is done."""

import math
from collections.abc import Iterable, Sequence

from groupcomm.errors import LocalProtocolError


def check_seconds(name: str, seconds: object) -> float:
    """Return a time in seconds, 0 for less; raise LocalProtocolError if it is no number."""
    if not isinstance(seconds, int | float) or math.isnan(seconds):
        raise LocalProtocolError(f"{name} is {seconds!r}; write a number of seconds")
    return max(0.0, seconds)


def check_type(name: str, value: object, kind: type, write: str) -> None:
    """Raise LocalProtocolError if an argument is of another type; None is of any."""
    if value is not None and not isinstance(value, kind):
        raise LocalProtocolError(f"{name} is of type {type(value).__name__}; write {write}")


def check_count(name: str, count: object, least: int = 1, most: int = 2**31 - 1) -> None:
    """Raise LocalProtocolError if a number is no whole one, or out of its range."""
    if not isinstance(count, int) or not least <= count <= most:
        raise LocalProtocolError(f"{name} is {count!r}; write a number from {least} to {most:,}")


def check_sequence(name: str, items: object) -> Sequence[object]:
    """Return a list or another sequence, but no text; raise LocalProtocolError if it is none."""
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise LocalProtocolError(f"{name} is {items!r}; write a list")
    return items


def check_function(name: str, function: object) -> None:
    """Raise LocalProtocolError if something cannot be called."""
    if not callable(function):
        raise LocalProtocolError(f"{name} is {function!r}; write a function")


def check_names(names: object) -> tuple[str, ...]:
    """Return some names; a single text is one of them, and the names are not checked themselves.

    Raises:
        LocalProtocolError: they are neither a text nor several.
    """
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, Iterable) or isinstance(names, bytes):
        raise LocalProtocolError(f"{names!r} is no group, and not several: write their names")
    return tuple(names)
