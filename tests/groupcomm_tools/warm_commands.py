"""`groupcomm` with what its commands import, for processes that are forked from this one."""

import faulthandler
import importlib
import warnings
from collections.abc import Sequence
from typing import Final

from groupcomm_tools import cli

IMPORTED: Final = (
    *(f"groupcomm_tools.commands.{name}" for name in ("chat", "history", "record", "request")),
    *(f"groupcomm_tools.commands.{name}" for name in ("serve", "sub", "top", "watch", "work")),
    *("groupcomm_log.writer", "groupcomm_tools.archive.serving"),
    *("groupcomm_tools.archive.recorded", "groupcomm_tools.recording.recorder"),
)
"""What takes time; the rest is imported by the command, as usual."""

for _name in IMPORTED:
    importlib.import_module(_name)
# The threads of Arrow's allocator and of numpy know of forks.
warnings.filterwarnings("ignore", ".* is multi-threaded, use of fork", DeprecationWarning)


def main(arguments: Sequence[str]) -> int:
    """Run the command."""
    faulthandler.enable()  # at SIGABRT it says where it is
    return cli.main(arguments)
