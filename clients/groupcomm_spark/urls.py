"""URLs of stores, which are told from paths of this host before Spark or pyarrow is there."""

import re
from pathlib import Path
from typing import Final

_URL: Final = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+://.+")


def is_url(path: str | Path) -> bool:
    """Return whether a path is one of a store, not of this host (`file://` is)."""
    return isinstance(path, str) and _URL.fullmatch(path) is not None
