"""Finds a thing by its name, or reports similar names."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from groupcomm.errors import ConfigError

T = TypeVar("T")


def known(name: str, things: Mapping[str, T], kind: str) -> T:
    """Return the thing of a name.

    Raises:
        ConfigError: the name is unknown; the text gives similar names.
    """
    if name in things:
        return things[name]
    close = get_close_matches(name, things, n=3, cutoff=0.4) or [
        each for each in things if name in each
    ]
    hint = f"did you mean {' or '.join(close)}?" if close else "--list tells all names"
    raise ConfigError(f"no {kind} is named {name!r}; {hint}")
