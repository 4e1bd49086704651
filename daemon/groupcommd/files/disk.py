"""The disk of a daemon: writes the core's records in threads, and reports the disk's health.

A disk may take seconds, or never answer, like an NFS server that is down. The daemon continues
while a thread waits for it, and does not wait for that thread at its end, either.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import trio

from groupcomm.config.roster import RosterRecord
from groupcomm.engine import (
    Input,
    KeysStored,
    MarkNotStored,
    MarkStored,
    RollStored,
    RosterNotStored,
    RosterStored,
    Status,
    Store,
    StoreKeys,
    StoreMark,
    StoreRoster,
)
from groupcomm.engine.status import DiskStatus
from groupcommd.files.key_service import KeyService
from groupcommd.files.state_dir import StateDir, StateError


class DiskWriter:
    """A writer of files for one core.

    Args:
        state: the folder for marks of view counters, and for rosters.
        keys: writes the files of keys and identities.
        tell: passes the result of a write to the core.
        fail: is called with an error that is not a failure of the disk.

    Attributes:
        writes: the number of writes in flight.
    """

    def __init__(
        self,
        state: StateDir,
        keys: KeyService,
        tell: Callable[[Input], None],
        fail: Callable[[Exception], None],
    ) -> None:
        self._state = state
        self._keys = keys
        self._tell = tell
        self._fail = fail
        self.writes = 0

    async def write(self, wanted: Store) -> None:
        """Write one file, and pass the result to the core."""
        self.writes += 1
        try:
            answer = await self._write(wanted)
        except Exception as error:
            self._fail(error)
            return
        self.writes -= 1
        self._tell(answer)

    async def _write(self, wanted: Store) -> Input:
        if isinstance(wanted, StoreKeys):
            await self._keys.store(wanted.keys)
            return KeysStored(wanted.keys)
        if isinstance(wanted, StoreMark):
            return await self._write_mark(wanted.mark)
        if isinstance(wanted, StoreRoster):
            return await self._write_rosters(wanted.record)
        await self._keys.store_roll(wanted.roll)
        return RollStored(wanted.roll)

    async def _write_mark(self, mark: int) -> Input:
        def store() -> float:
            begun = time.monotonic()
            self._state.store(mark)
            return time.monotonic() - begun

        try:
            took_s = await trio.to_thread.run_sync(store, abandon_on_cancel=True)
        except StateError as error:
            return MarkNotStored(str(error))
        return MarkStored(mark, took_s)

    async def _write_rosters(self, record: RosterRecord) -> Input:
        write = self._state.store_rosters
        try:
            await trio.to_thread.run_sync(write, record, abandon_on_cancel=True)
        except StateError as error:
            return RosterNotStored(str(error))
        return RosterStored(record)


SLOW_S: Final = 0.2
"""Slower writes are logged; a healthy disk takes a tenth of that."""

WELL_S: Final = SLOW_S / 2
"""The write time below which a disk is healthy again."""

_log = logging.getLogger("groupcommd")


class DiskWatch:
    """A monitor of one daemon's writes, for the log, `status` and `groupcomm doctor`.

    Args:
        folder: the folder of the files.
        timeout_s: the time without an answer after which a disk counts as hanging.
    """

    def __init__(self, folder: Path, timeout_s: float) -> None:
        self._folder = folder
        self._timeout_s = timeout_s
        self._logged_slow_s = 0.0  # the time of the logged slow write; 0 while the disk is healthy
        self._logged_error: str | None = None
        self._logged_unanswered = False
        self._logged_aside = False

    def report(self, status: Status) -> dict[str, Any]:
        """Return the state of the disk, as plain values."""
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

    def check(self, status: Status) -> None:
        """Log changes; called once a second and after each write."""
        waits_s = _waits_s(status)
        self._check_answer(waits_s)
        self._check_error(status.disk.error)
        self._check_speed(status.disk.write_s)
        self._check_place(status.disk, waits_s)

    def _check_answer(self, waits_s: float) -> None:
        if waits_s >= self._timeout_s and not self._logged_unanswered:
            self._logged_unanswered = True
            _log.error(
                "state_dir %s: the disk has not answered for %.1f s (disk_timeout_s = %g); until it"
                " answers, this daemon is left out of views that need a new mark: check the disk"
                " with dmesg, mount and df",
                self._folder,
                waits_s,
                self._timeout_s,
                extra={"state_dir": str(self._folder), "waits_s": waits_s},
            )
        elif self._logged_unanswered and waits_s < self._timeout_s:
            self._logged_unanswered = False
            _log.warning("state_dir %s: the disk answers again", self._folder)

    def _check_error(self, error: str | None) -> None:
        if error is not None and error != self._logged_error:
            _log.error(
                "%s; the write is repeated, and until it succeeds this daemon is left out of views"
                " that need a new mark",
                error,
                extra={"state_dir": str(self._folder)},
            )
        elif error is None and self._logged_error is not None:
            _log.warning("state_dir %s: writes succeed again", self._folder)
        self._logged_error = error

    def _check_speed(self, write_s: float) -> None:
        if write_s >= max(SLOW_S, 2 * self._logged_slow_s):
            self._logged_slow_s = write_s
            _log.warning(
                "state_dir %s: the disk is slow, a write took %.2f s; move the folder to a faster"
                " disk, or find out what keeps this one busy",
                self._folder,
                write_s,
                extra={"state_dir": str(self._folder), "write_s": write_s},
            )
        elif self._logged_slow_s and write_s < WELL_S:
            self._logged_slow_s = 0.0
            _log.info("state_dir %s: the disk is fast again", self._folder)

    def _check_place(self, disk: DiskStatus, waits_s: float) -> None:
        """Log that the daemon stands aside, unless its disk answers at once."""
        is_aside = disk.aside and (disk.error is not None or waits_s >= SLOW_S)
        if is_aside and not self._logged_aside:
            _log.warning(
                "the other daemons have a view without this one: it cannot join them "
                "until its disk has answered"
            )
        elif self._logged_aside and not disk.aside:
            _log.info("the disk has answered: this daemon joins the others again")
        self._logged_aside = is_aside or (self._logged_aside and disk.aside)


def _waits_s(status: Status) -> float:
    """Return the seconds since the write in flight began; 0 without one."""
    asked_at = status.disk.asked_at
    return 0.0 if asked_at is None else status.at - asked_at
