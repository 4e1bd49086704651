"""The mark in a state folder of the daemon that it belongs to: its cluster, and its name.

Starts, marks and rosters of one daemon, read by another one of the same name in another cluster,
would make it take that cluster's roster and addresses for its own.
"""

import json
from pathlib import Path
from typing import Any, Final

import attrs

from groupcomm.errors import ConfigError
from groupcomm.host.private_files import open_unwritable

RECORD: Final = "state.json"
"""The name of the file with the number of starts, which each used folder has."""

OWNER: Final = "owner.json"
"""The name of the file. Folders of releases that wrote none get it at their next start."""


@attrs.frozen
class Owner:
    """A daemon that a state folder belongs to.

    Attributes:
        cluster: the name of its cluster.
        daemon: its own name.
    """

    cluster: str
    daemon: str

    def __str__(self) -> str:
        return f"daemon {self.daemon} of cluster {self.cluster}"


def encode_owner(owner: Owner) -> bytes:
    """Return the contents of the file."""
    return json.dumps(attrs.asdict(owner), ensure_ascii=False).encode() + b"\n"


def read_owner(folder: Path) -> Owner | None:
    """Return the daemon that a folder belongs to; None if it has no mark, or does not exist.

    Raises:
        ConfigError: the mark is damaged, or others could have changed it.
        OSError: it cannot be read.
    """
    path = folder / OWNER
    try:
        with open_unwritable(path, "state_dir") as file:
            found: Any = json.load(file)
        owner = Owner(found["cluster"], found["daemon"])
        if not all(isinstance(text, str) for text in attrs.astuple(owner)):
            raise ValueError
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            f"{path} is damaged: write into it whose folder this is, such as"
            ' {"cluster": "plant", "daemon": "press"}'
        ) from None
    return owner


def check_owner(folder: Path, owner: Owner) -> bool:
    """Check that a folder belongs to a daemon; return whether it has a mark.

    Raises:
        ConfigError: it belongs to another one, or the mark is wrong; the text says what to do.
        OSError: the mark cannot be read.
    """
    found = read_owner(folder)
    if found is not None and found != owner:
        raise ConfigError(
            f"state_dir {folder} belongs to {found}, and this is {owner}: give this one a folder of"
            " its own, with state_dir in its file or --state-dir. If the daemon itself has another"
            f" cluster or name now, remove {folder}: it starts as one whose disk was lost"
        )
    return found is not None
