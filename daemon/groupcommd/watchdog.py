"""The watchdog: ends a daemon that was told to leave and whose own process does not get on.

The core bounds how long a daemon takes to leave, but its loop has to run for that. It does not
while a write to a full pipe, a file system or anything else holds it up. A thread waits beside it.
"""

import logging
import os
import threading
import time
from typing import Final

TELL_S: Final = 0.5
"""How long the log may take for the last line: what holds up the daemon may be the log itself."""

_log = logging.getLogger("groupcommd")


class Watchdog:
    """Ends this process, some time after it was told to leave, if it is still there.

    Args:
        seconds: how long that is.
        status: the exit status then.
    """

    def __init__(self, seconds: float, status: int) -> None:
        self._seconds = seconds
        self._status = status
        self._armed = False

    def arm(self) -> None:
        """Begin to wait; what is armed stays so, since the process is to end."""
        if not self._armed:
            self._armed = True
            threading.Thread(target=self._wait, name="watchdog", daemon=True).start()

    def _wait(self) -> None:
        time.sleep(self._seconds)
        teller = threading.Thread(target=self._tell, daemon=True)
        teller.start()
        teller.join(TELL_S)
        os._exit(self._status)

    def _tell(self) -> None:
        _log.critical(
            "this process hangs, %g s after it was told to leave: it ends now, and what its"
            " programs have sent last may be lost",
            self._seconds,
        )
