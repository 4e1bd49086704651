"""How the disk of the state folder does: for the log, for `status` and for `groupcomm doctor`."""

import logging
from pathlib import Path
from typing import Any, Final

from groupcomm.engine import Status
from groupcomm.engine.status import DiskStatus

SLOW_S: Final = 0.2
"""Writes that take longer are told of: a disk that is well takes a tenth of that."""

WELL_S: Final = SLOW_S / 2
"""A disk whose writes take less again is well."""

_log = logging.getLogger("groupcommd")


class DiskWatch:
    """Watches the writes of one daemon.

    Args:
        folder: where they go.
        timeout_s: a disk that has not answered for so long counts as one that does not answer.
    """

    def __init__(self, folder: Path, timeout_s: float) -> None:
        self._folder = folder
        self._timeout_s = timeout_s
        self._told_s = 0.0  # how slow it was said to be; 0 while it is well
        self._told_error: str | None = None
        self._told_unanswered = False
        self._told_aside = False

    def told(self, status: Status) -> dict[str, Any]:
        """Return what there is to tell about the disk, as plain values."""
        disk, waits_s = status.disk, _waits_s(status)
        return {
            "folder": str(self._folder),
            "write_s": round(disk.write_s, 3),
            "slow": disk.write_s >= SLOW_S,
            "waits_s": round(waits_s, 3),
            "answers": waits_s < self._timeout_s,
            "error": disk.error,
            "aside": disk.aside,
        }

    def look(self, status: Status) -> None:
        """Say what has changed; called once a second and after each write."""
        waits_s = _waits_s(status)
        self._look_at_answer(waits_s)
        self._look_at_error(status.disk.error)
        self._look_at_speed(status.disk.write_s)
        self._look_at_place(status.disk, waits_s)

    def _look_at_answer(self, waits_s: float) -> None:
        if waits_s >= self._timeout_s and not self._told_unanswered:
            self._told_unanswered = True
            _log.error(
                "state_dir %s: the disk has not answered for %.1f s (disk_timeout_s = %g): see to"
                " it with dmesg, mount and df; until it answers this daemon is left out of views"
                " that need a new mark",
                self._folder,
                waits_s,
                self._timeout_s,
                extra={"state_dir": str(self._folder), "waits_s": waits_s},
            )
        elif self._told_unanswered and waits_s < self._timeout_s:
            self._told_unanswered = False
            _log.warning("state_dir %s: the disk answers again", self._folder)

    def _look_at_error(self, error: str | None) -> None:
        if error is not None and error != self._told_error:
            _log.error(
                "%s; it is tried again and again, and until it works this daemon is left out of"
                " views that need a new mark",
                error,
                extra={"state_dir": str(self._folder)},
            )
        elif error is None and self._told_error is not None:
            _log.warning("state_dir %s: it can be written again", self._folder)
        self._told_error = error

    def _look_at_speed(self, write_s: float) -> None:
        if write_s >= max(SLOW_S, 2 * self._told_s):
            self._told_s = write_s
            _log.warning(
                "state_dir %s: the disk is slow, a write took %.2f s; put the folder on a faster"
                " disk, or see what keeps this one busy",
                self._folder,
                write_s,
                extra={"state_dir": str(self._folder), "write_s": write_s},
            )
        elif self._told_s and write_s < WELL_S:
            self._told_s = 0.0
            _log.info("state_dir %s: the disk is quick again", self._folder)

    def _look_at_place(self, disk: DiskStatus, waits_s: float) -> None:
        """Tell of a daemon that stands aside, but not of one whose disk answers at once."""
        is_aside = disk.aside and (disk.error is not None or waits_s >= SLOW_S)
        if is_aside and not self._told_aside:
            _log.warning(
                "others are in a view that this daemon cannot join before its disk has answered:"
                " it stands aside, and comes back then"
            )
        elif self._told_aside and not disk.aside:
            _log.info("the disk has answered: this daemon joins the others again")
        self._told_aside = is_aside or (self._told_aside and disk.aside)


def _waits_s(status: Status) -> float:
    """Return for how long the write that is under way has not been answered; 0 without one."""
    asked_at = status.disk.asked_at
    return 0.0 if asked_at is None else status.at - asked_at
