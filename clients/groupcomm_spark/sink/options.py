"""What a user asks of the sink, checked before anything is written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import attrs

from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm.level import ServiceLevel
from groupcomm.names import check_destination
from groupcomm_client.committed.markers import TYPE

FOLDER: Final = "groupcomm"
"""Below the checkpoint of a query its batches are staged here."""

TIMEOUT_S: Final = 30.0

LEVELS: Final = (
    ServiceLevel.FIFO,
    ServiceLevel.CAUSAL,
    ServiceLevel.AGREED,
    ServiceLevel.SAFE,
)
"""Of these a sender's messages come in order."""

_KNOWN: Final = ("address", "group", "level", "type", "staging", "timeout")
_OF_SPARK: Final = ("checkpointlocation", "queryname")
"""What Spark hands on among them."""


@attrs.frozen(kw_only=True)
class Options:
    """Of one query.

    Attributes:
        staging: the folder for batches that are not published yet.
        address: of the daemon; None for the default one of the driver's host.
        group: for rows that name none; None: all do.
        level: of the rows.
        type: of rows that have none.
        timeout_s: the daemon must be there, and take what it is sent, within so many seconds.
    """

    staging: Path
    address: str | None = None
    group: str | None = None
    level: ServiceLevel = ServiceLevel.AGREED
    type: int = 0
    timeout_s: float = TIMEOUT_S


def parse_options(given: Mapping[str, str]) -> Options:
    """Options as Spark hands them on.

    Raises:
        ConfigError: one is wrong; it names it.
    """
    options = {name.lower(): value for name, value in given.items()}
    unknown = sorted(options.keys() - set(_KNOWN) - set(_OF_SPARK))
    if unknown:
        raise ConfigError(
            f'format("groupcomm") has no option {unknown[0]!r} for writing; there are:'
            f" {', '.join(_KNOWN)}"
        )
    return Options(
        staging=_staging(options),
        address=options.get("address"),
        group=_group(options.get("group")),
        level=_level(options.get("level", "agreed")),
        type=_type(options.get("type", "0")),
        timeout_s=_timeout(options.get("timeout")),
    )


def _staging(options: Mapping[str, str]) -> Path:
    text = options.get("staging") or options.get("checkpointlocation")
    if not text:
        raise ConfigError(
            "neither of the options staging and checkpointLocation is given: name a folder that"
            " the driver and all executors reach"
        )
    parts = urlsplit(text)
    if parts.scheme not in {"", "file"} or parts.netloc:
        raise ConfigError(
            f"{text} is no folder of a file system: give the option staging a path that the"
            " driver and all executors have mounted"
        )
    path = Path(unquote(parts.path) if parts.scheme else text)
    return path if options.get("staging") else path / FOLDER


def _group(text: str | None) -> str | None:
    try:
        return None if text is None else check_destination(text)
    except LocalProtocolError as error:
        raise ConfigError(f"option group: {error}") from None


def _level(text: str) -> ServiceLevel:
    for level in LEVELS:
        if level.name == text.upper():
            return level
    names = ", ".join(level.name.lower() for level in LEVELS)
    raise ConfigError(f"option level is {text!r}; rows stay in order with one of {names}")


def _type(text: str) -> int:
    if not text.isdecimal() or int(text) >= TYPE:
        raise ConfigError(f"option type is {text!r}; it must be 0 to {TYPE - 1}")
    return int(text)


def _timeout(text: str | None) -> float:
    try:
        seconds = TIMEOUT_S if text is None else float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(f"option timeout is {text!r}; it must be a number of seconds above 0")
    return seconds
