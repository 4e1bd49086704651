"""The kinds of messages of a system, and what is normal of each; docs/spark.md has the file."""

from pathlib import Path
from typing import Final

import msgspec

from groupcomm.errors import ConfigError

MAX_TYPE: Final = 2**16 - 1


class Kind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is normal of one kind; of what is None nothing is.

    Attributes:
        type: the tag of its messages, 0 to 65,535.
        rate_hz: messages a second, of all senders together.
        least: share of this rate below which the alarm goes, 0 to 1.
        missing: share of a sender's numbers that may be missing, 0 to 1.
        late_s: a message that comes so many seconds after it was made is late.
        late: share of messages that may be late, 0 to 1.
        bytes_per_s: of all its messages, at most.
    """

    type: int
    rate_hz: float | None = None
    least: float = 0.8
    missing: float | None = None
    late_s: float = 1.0
    late: float | None = None
    bytes_per_s: float | None = None


class Kinds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All kinds of a system.

    Attributes:
        kinds: by name.
        number_at: byte at which a message has its number: 4 bytes, big-endian. None: its number in
            its sender's count, which goes on with what is sent elsewhere.
        made_at: byte at which it says when it was made: nanoseconds since 1970, 8 bytes,
            big-endian. None: when it was received.
        window_s: length of a window, seconds, by when messages were made.
        watermark_s: a window is over once a message was made so many seconds after its end; what
            comes later still is dropped, and counted.
    """

    kinds: dict[str, Kind]
    number_at: int | None = None
    made_at: int | None = None
    window_s: float = 1.0
    watermark_s: float = 2.0


def read_kinds(path: Path) -> Kinds:
    """Read them from a file of TOML.

    Raises:
        ConfigError: something in it is wrong; it says what.
        OSError: it cannot be read.
    """
    try:
        kinds = msgspec.toml.decode(path.read_bytes(), type=Kinds)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}: {error}") from None
    for what in _wrong(kinds):
        raise ConfigError(f"{path}: {what}")
    return kinds


def _wrong(kinds: Kinds) -> list[str]:
    """What does not make sense though it is of the right type."""
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
