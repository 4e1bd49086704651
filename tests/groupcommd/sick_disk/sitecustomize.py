"""A disk that is unwell under the state folder of one daemon; Python reads this at the start.

$SICK_DISK names a file. What is in it befalls each write: ``0.5`` takes so many seconds, ``hangs``
does not end while the file says so, ``full`` fails. Nothing, or no file, and the disk is well.
"""

import errno
import os
import select
import time
from contextlib import suppress
from pathlib import Path

from groupcommd.files.state_dir import StateDir, StateRecord

_write = StateDir._write


def wait(seconds: float) -> None:
    """Sleep in place of time.sleep, which fails under the faketime of Debian 12."""
    select.select([], [], [], seconds)


time.sleep = wait  # type: ignore[assignment]


def write_slowly(self: StateDir, record: StateRecord) -> None:
    """Write as the file wants it."""
    path, how = Path(os.environ["SICK_DISK"]), ""
    with suppress(OSError):  # no file, or no descriptor to read it
        while (how := path.read_text()) == "hangs":
            wait(0.005)
    if how == "full":
        raise self._unusable(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    wait(float(how or 0.0))
    _write(self, record)


StateDir._write = write_slowly  # type: ignore[method-assign]
