"""`groupcomm` with what its commands import, for processes that are forked from this one.

The word `reader` and a number start the process that sends from the files of an archive, in pieces
of so many rows.
"""

import faulthandler
import importlib
import warnings
from collections.abc import Sequence
from typing import Final
from unittest.mock import patch

from groupcomm_archive import file_reader, pieces
from groupcomm_tools import cli

IMPORTED: Final = (
    *(f"groupcomm_tools.commands.{name}" for name in ("chat", "history", "record", "request")),
    *(f"groupcomm_tools.commands.{name}" for name in ("serve", "sub", "top", "watch", "work")),
    *("groupcomm_log.writer", "groupcomm_archive.serving"),
    *("groupcomm_archive.recorded", "groupcomm_tools.recording.recorder"),
)
"""What takes time; the rest is imported by the command, as usual."""

for _name in IMPORTED:
    importlib.import_module(_name)
# The threads of Arrow's allocator and of numpy know of forks.
warnings.filterwarnings("ignore", ".* is multi-threaded, use of fork", DeprecationWarning)


def main(arguments: Sequence[str]) -> int:
    """Run the command."""
    faulthandler.enable()  # at SIGABRT it says where it is
    if arguments[0] == "reader":
        with patch.object(pieces, "PIECE_ROWS", int(arguments[1])):  # a test has little data
            file_reader.main()
        return 0
    return cli.main(arguments)
