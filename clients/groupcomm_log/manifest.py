"""The manifest of a log, ``_log.json``: its format, what retention has kept, and its epochs.

An epoch is a start of a recorder that has written rows. Its number is above the one before by a
random step, so no other log has it: neither one that was recorded anew in the same folder, nor a
copy that was continued. So an offset says by itself which log it is of.
"""

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from groupcomm_log.errors import LogError

FORMAT: Final = 1
"""The format of logs that this release reads and writes."""

MANIFEST: Final = "_log.json"

MOST_STEP: Final = 2**32
"""The largest step from one epoch to the next: 64 bits are enough for 2^31 starts."""

MOST_EPOCHS: Final = 1000
"""The epochs that the manifest lists; those with rows are in the names of the files, too."""


@dataclass(frozen=True)
class Manifest:
    """What the file says.

    Attributes:
        kept_from: the first row that retention has kept.
        epochs: the last epochs of the log, rising; earlier releases, which counted them, list none.
    """

    kept_from: int = 0
    epochs: tuple[int, ...] = ()

    def with_epochs(self, *epochs: int) -> "Manifest":
        """Return a manifest with more epochs."""
        every = sorted({*self.epochs, *epochs})
        return Manifest(self.kept_from, tuple(every[-MOST_EPOCHS:]))

    def encode(self) -> bytes:
        """Return the contents of the file."""
        found = {"format": FORMAT, "kept_from": self.kept_from, "epochs": self.epochs}
        return json.dumps(found).encode()


def draw_step() -> int:
    """Return the step from one epoch to the next."""
    return 1 + secrets.randbelow(MOST_STEP)


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a log; None if it has none.

    Raises:
        LogError: the file is damaged, or a later release has written it.
        OSError: it cannot be read.
    """
    path = folder / MANIFEST
    try:
        found: Any = json.loads(path.read_bytes())
        _refuse_later(path, found)
        return Manifest(int(found["kept_from"]), tuple(map(int, found.get("epochs", ()))))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LogError(
            f"{path}: no recorder wrote this file; restore it from a copy, or remove it"
        ) from None


def check_format(folder: Path) -> None:
    """Raise LogError if a later release has written the log; a damaged manifest says nothing."""
    path = folder / MANIFEST
    try:
        check_format_of(path, path.read_bytes())
    except OSError:
        return


def check_format_of(path: Path | str, contents: bytes | str) -> None:
    """Raise LogError if a later release has written this manifest, of which a store has a copy."""
    try:
        found: Any = json.loads(contents)
    except ValueError:
        return
    _refuse_later(path, found)


def _refuse_later(path: Path | str, found: Any) -> None:
    try:
        form = int(found["format"])
    except (ValueError, KeyError, TypeError):
        return
    if form > FORMAT:
        raise LogError(
            f"{path}: the log has format {form}, and this release reads and writes format {FORMAT}:"
            " use the release that wrote it, or a later one"
        )
