"""The logs of an archive, over all of its sessions."""

from collections.abc import Sequence

from groupcomm_archive.archive import ReadStore
from groupcomm_archive.compacting import Compacting
from groupcomm_archive.digesting import LogDigests
from groupcomm_archive.keys import parse_key
from groupcomm_archive.layout import Layout, LogSpec, note_groups
from groupcomm_archive.merging import MergedLogs
from groupcomm_archive.pieces import Cursors
from groupcomm_archive.store import LogStore
from groupcomm_client.history.frames import EncodedPiece
from groupcomm_log.disk import Disk
from groupcomm_log.errors import Damage, LogError
from groupcomm_log.lock import SharedLock


class RecordedLog:
    """One log.

    Attributes:
        groups: its groups.
        store: its rows.
        digests: its digests.
        intervals: what it holds.
        compacting: its compacted part; None if its groups are not compacted.
    """

    def __init__(self, spec: LogSpec, lock: SharedLock, cursors: Cursors) -> None:
        """Open the log, or make it.

        Args:
            spec: what it is.
            lock, cursors: those of the archive.

        Raises:
            LogBusy: another program writes to it.
            LogError: the folder cannot hold a log, or cannot be written.
        """
        self.groups = spec.groups
        try:
            self.store = LogStore(spec.folder, spec.limits, lock, cursors)
            note_groups(spec.folder, spec.groups)
        except OSError as error:
            raise LogError(
                f"{spec.folder} cannot be written: {error}; make room, or name another folder"
            ) from None
        self.intervals = list(self.store.intervals)
        self.digests = LogDigests(spec.folder, spec.groups, self.store.parts)
        self.compacting = None
        if spec.key is not None:
            self.compacting = Compacting(
                *(self.store, spec.groups, parse_key(spec.key)), whole_s=spec.whole_s
            )


class RecordedLogs:
    """All logs of an archive; each group is in one of them.

    Attributes:
        layout: which groups are recorded.
        logs: the logs; more may come.
        damage: the damage that was found as they were opened.
    """

    def __init__(self, layout: Layout) -> None:
        """Open the logs of all groups that are known.

        Raises:
            LogBusy, LogError: see `RecordedLog`.
        """
        self.layout = layout
        self.logs: list[RecordedLog] = []
        self.damage: list[Damage] = []
        self._cursors = Cursors()
        self._merged: dict[tuple[int, ...], MergedLogs] = {}
        try:
            Disk().make_folder(layout.folder)
            self._lock = SharedLock(layout.folder)
        except OSError as error:
            raise LogError(f"{layout.folder} cannot be made: {error}; name another") from None
        try:
            for spec in layout.logs():
                self.open(spec)
        except BaseException:
            self.close()
            raise

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the groups of all logs."""
        return tuple(group for log in self.logs for group in log.groups)

    def open(self, spec: LogSpec) -> RecordedLog:
        """Open one more log.

        Raises:
            LogBusy, LogError: see `RecordedLog`.
        """
        log = RecordedLog(spec, self._lock, self._cursors)
        self.logs.append(log)
        self.damage += log.store.damage
        return log

    def read(self, action: ReadStore) -> EncodedPiece:
        """Return the next piece of a stream; see `PieceReader.read`."""
        logs = self.logs
        wanted = self._wanted(action)
        if len(wanted) == 1:
            log = logs[wanted[0]]
            if action.is_compacted and log.compacting is not None:
                return log.compacting.read(action)
            return log.store.read(action)
        key = tuple(wanted)
        if key not in self._merged:
            of = [(logs[at].store, logs[at].groups) for at in key]
            self._merged[key] = MergedLogs(of, self._cursors)
        return self._merged[key].read(action)

    def store_of(self, action: ReadStore) -> LogStore | None:
        """Return the only log that a stream reads; None if it reads several."""
        wanted = self._wanted(action)
        return self.logs[wanted[0]].store if len(wanted) == 1 else None

    def _wanted(self, action: ReadStore) -> list[int]:
        """Return the numbers of the logs that a stream reads."""
        groups = set(action.groups)
        return [at for at, log in enumerate(self.logs) if not groups.isdisjoint(log.groups)]

    def close(self) -> None:
        """Seal all rows and release the folders.

        Raises:
            OSError: rows are not sealed; the next start seals them.
        """
        failures: list[OSError] = []
        for log in self.logs:
            try:
                log.store.close()
            except OSError as error:
                failures.append(error)
        self._lock.close()
        if failures:
            raise failures[0]


def groups_text(groups: Sequence[str]) -> str:
    """Return names of groups as a sentence has them."""
    return ", ".join(groups) or "no group yet"
