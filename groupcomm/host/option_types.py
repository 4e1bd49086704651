"""Types of options on command lines: existing files, numbers in a range, addresses, levels.

Each is a function for `type=` of `argparse`. It returns the value, or raises ArgumentTypeError with
the reason, to which the parser adds the name of the option.
"""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import parse_daemon_address
from groupcomm.level import LEVELS

LEVEL_NAMES: Final = tuple(level.name.lower() for level in LEVELS)


def existing_file(text: str) -> Path:
    """Return the path of an existing file, or of a device or pipe."""
    path = _existing(Path(text))
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder; name a file")
    return path


def existing_file_or_dash(text: str) -> Path | None:
    """Return the path of an existing file; None for ``-``, which is standard input."""
    return None if text == "-" else existing_file(text)


def existing_path(text: str) -> Path:
    """Return the path of an existing file or folder."""
    return _existing(Path(text))


def existing_folder(text: str) -> Path:
    """Return the path of an existing folder."""
    path = _existing(Path(text))
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no folder")
    return path


def _existing(path: Path) -> Path:
    try:
        path.stat()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error.strerror}") from None
    except ValueError:  # the text contains a zero byte
        raise argparse.ArgumentTypeError(f"{str(path)!r} is no path") from None
    return path


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a type for whole numbers from `least` to `most`."""

    def parse(text: str) -> int:
        try:
            found = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
        if found < least:
            raise argparse.ArgumentTypeError(f"it is {found}, and must be at least {least}")
        if most is not None and found > most:
            raise argparse.ArgumentTypeError(f"it is {found}, and must be at most {most}")
        return found

    return parse


one_or_more: Final = whole_number(1)
"""A number of things: 1 at least."""

natural: Final = whole_number(0)
"""A number of things, perhaps none."""

port_number: Final = whole_number(0, 65535)
"""A port; 0 lets the system choose."""


def number(text: str) -> float:
    """Return a finite number."""
    try:
        found = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError(f"it is {text}, and must be finite")
    return found


def positive(text: str) -> float:
    """Return a finite number above 0, such as a duration, a rate or a size."""
    found = number(text)
    if found <= 0:
        raise argparse.ArgumentTypeError(f"it is {text}, and must be above 0")
    return found


_UNITS_S: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def duration(text: str) -> float:
    """Return the seconds of a time above 0, such as ``90s``, ``10m``, ``1h`` or ``7d``."""
    unit = _UNITS_S.get(text[-1:])
    return positive(text) if unit is None else unit * positive(text[:-1])


def not_negative(text: str) -> float:
    """Return a finite number, 0 at least, such as a delay."""
    found = number(text)
    if found < 0:
        raise argparse.ArgumentTypeError(f"it is {text}, and must be at least 0")
    return found


def probability(text: str) -> float:
    """Return a number from 0 to 1."""
    found = not_negative(text)
    if found > 1:
        raise argparse.ArgumentTypeError(f"it is {text}, and must be at most 1")
    return found


def daemon_address(text: str) -> str:
    """Return an address at which programs connect to a daemon, as it was written."""
    try:
        parse_daemon_address(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def daemon_addresses(text: str) -> str:
    """Return one or several addresses, separated by commas, as they were written."""
    for each in text.split(","):
        daemon_address(each.strip())
    return text


def level_name(text: str) -> str:
    """Return the name of a service level in small letters; it may be written in capitals."""
    return text.lower()
