"""The errors of a log.

::

    LogError
    +- LogBusy      another recorder writes to the folder
    +- LogDamaged   bytes of it differ from those that were written
    +- LogRemoved   requested rows have been removed
    +- LogReplaced  the place to read from is not one of this log
"""

from dataclasses import dataclass
from pathlib import Path


class LogError(Exception):
    """Base of all errors of a log; the text names the remedy."""


class LogBusy(LogError):
    """Another recorder writes to the folder."""


class LogRemoved(LogError):
    """Retention has removed rows that were requested."""


class LogReplaced(LogError):
    """The place to read from is not one of this log, or no longer.

    The log was recorded anew, or is an older copy of the one that was read before.
    """


@dataclass(frozen=True)
class Damage:
    """Bytes of a log that differ from those that were written.

    Attributes:
        path: the path of the file.
        at: the offset of the first of these bytes.
        size: the number of bytes skipped.
        rows: the numbers of the first and the last row in them; None if unknown.
        why: the kind of damage.
        torn: whether the file ends within them, so that a write was probably cut off.
    """

    path: Path
    at: int
    size: int
    rows: tuple[int, int] | None
    why: str
    torn: bool = False

    def __str__(self) -> str:
        held = f", which held rows {self.rows[0]} to {self.rows[1]}" if self.rows else ""
        return f"{self.path}: {self.size} bytes from byte {self.at} on{held}: {self.why}"


class LogDamaged(LogError):
    """Bytes of a log differ from those that were written.

    Attributes:
        damage: the damaged part.
    """

    def __init__(self, damage: Damage) -> None:
        super().__init__(str(damage))
        self.damage = damage
