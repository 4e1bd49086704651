"""What a core wants to have on disk is written in threads; the daemon goes on meanwhile.

A disk may take seconds, or never answer, as an NFS server that is gone. The thread that waits for
it is left alone then: neither the daemon nor its end waits for it.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import trio

from groupcomm.engine import (
    Input,
    KeysStored,
    MarkNotStored,
    MarkStored,
    RollStored,
    Status,
    Store,
    StoreKeys,
    StoreMark,
)
from groupcomm.engine.status import DiskStatus
from groupcommd.key_service import KeyService
from groupcommd.state_dir import StateDir, StateError


class DiskWriter:
    """Writes for one core.

    Args:
        state: the folder for marks of view counters.
        keys: has the files of keys and identities.
        tell: has the core hear what became of a write.
        fail: is called with an error that is no failure of the disk.

    Attributes:
        writes: how many are under way.
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
        """Write one thing, and tell the core."""
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
        await self._keys.store_roll(wanted.roll)
        return RollStored(wanted.roll)

    async def _write_mark(self, mark: int) -> Input:
        try:
            await trio.to_thread.run_sync(self._state.store, mark, abandon_on_cancel=True)
        except StateError as error:
            return MarkNotStored(str(error))
        return MarkStored(mark)


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
        self._logged_slow_s = 0.0  # how slow it was said to be; 0 while it is well
        self._logged_error: str | None = None
        self._logged_unanswered = False
        self._logged_aside = False

    def report(self, status: Status) -> dict[str, Any]:
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

    def check(self, status: Status) -> None:
        """Say what has changed; called once a second and after each write."""
        waits_s = _waits_s(status)
        self._check_answer(waits_s)
        self._check_error(status.disk.error)
        self._check_speed(status.disk.write_s)
        self._check_place(status.disk, waits_s)

    def _check_answer(self, waits_s: float) -> None:
        if waits_s >= self._timeout_s and not self._logged_unanswered:
            self._logged_unanswered = True
            _log.error(
                "state_dir %s: the disk has not answered for %.1f s (disk_timeout_s = %g): see to"
                " it with dmesg, mount and df; until it answers this daemon is left out of views"
                " that need a new mark",
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
                "%s; it is tried again and again, and until it works this daemon is left out of"
                " views that need a new mark",
                error,
                extra={"state_dir": str(self._folder)},
            )
        elif error is None and self._logged_error is not None:
            _log.warning("state_dir %s: it can be written again", self._folder)
        self._logged_error = error

    def _check_speed(self, write_s: float) -> None:
        if write_s >= max(SLOW_S, 2 * self._logged_slow_s):
            self._logged_slow_s = write_s
            _log.warning(
                "state_dir %s: the disk is slow, a write took %.2f s; put the folder on a faster"
                " disk, or see what keeps this one busy",
                self._folder,
                write_s,
                extra={"state_dir": str(self._folder), "write_s": write_s},
            )
        elif self._logged_slow_s and write_s < WELL_S:
            self._logged_slow_s = 0.0
            _log.info("state_dir %s: the disk is quick again", self._folder)

    def _check_place(self, disk: DiskStatus, waits_s: float) -> None:
        """Tell of a daemon that stands aside, but not of one whose disk answers at once."""
        is_aside = disk.aside and (disk.error is not None or waits_s >= SLOW_S)
        if is_aside and not self._logged_aside:
            _log.warning(
                "others are in a view that this daemon cannot join before its disk has answered:"
                " it stands aside, and comes back then"
            )
        elif self._logged_aside and not disk.aside:
            _log.info("the disk has answered: this daemon joins the others again")
        self._logged_aside = is_aside or (self._logged_aside and disk.aside)


def _waits_s(status: Status) -> float:
    """Return for how long the write that is under way has not been answered; 0 without one."""
    asked_at = status.disk.asked_at
    return 0.0 if asked_at is None else status.at - asked_at
