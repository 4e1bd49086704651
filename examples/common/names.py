"""Finding what a user has named, or telling what he may have meant."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from groupcomm.errors import ConfigError

T = TypeVar("T")


def known(name: str, things: Mapping[str, T], kind: str) -> T:
    """The thing of a name.

    Raises:
        ConfigError: there is none; the text names those that are close.
    """
    if name in things:
        return things[name]
    close = get_close_matches(name, things, n=3, cutoff=0.4) or [
        each for each in things if name in each
    ]
    hint = f"did you mean {' or '.join(close)}?" if close else "--list tells all names"
    raise ConfigError(f"no {kind} is named {name!r}; {hint}")
