"""What can be wrong with a log.

::

    LogError
    +- LogBusy      another recorder writes to the folder
    +- LogDamaged   bytes of it are not what was written
    +- LogRemoved   rows that are asked for are there no longer
"""

from dataclasses import dataclass
from pathlib import Path


class LogError(Exception):
    """Base of all errors of a log; the text says what to do."""


class LogBusy(LogError):
    """Another recorder writes to the folder."""


class LogRemoved(LogError):
    """Retention has removed rows that are asked for."""


@dataclass(frozen=True)
class Damage:
    """Bytes of a log that are not what was written.

    Attributes:
        path: of the file.
        at: where they begin, from 0.
        size: how many are skipped.
        rows: numbers of the first and last row that they held; None if that is unknown.
        why: what is wrong with them.
        torn: the file ends within them: as far as can be seen a write was cut off.
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
    """Bytes of a log are not what was written.

    Attributes:
        damage: which.
    """

    def __init__(self, damage: Damage) -> None:
        super().__init__(str(damage))
        self.damage = damage
