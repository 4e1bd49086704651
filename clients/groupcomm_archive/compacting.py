"""The compaction of one log: its older files become a snapshot, with the last message of each key.

It blocks. docs/history.md says what stays, and why a crash between any two steps does no harm.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from groupcomm.clocks.stamp import Position
from groupcomm_archive.archive import ReadStore
from groupcomm_archive.keys import MOST_KEYS, KeyOf, LastOfKeys
from groupcomm_archive.rows import MessageRun, Part
from groupcomm_archive.snapshots import SnapshotFile, events_of
from groupcomm_archive.store import LogStore
from groupcomm_client.history.frames import EncodedPiece, Interval
from groupcomm_client.history.places import Line, place_of
from groupcomm_log.disk import Disk

SHARE: Final = 1.0
"""The size of the sealed files, as a share of the snapshot's, at which they are compacted."""


class TooManyKeys(Exception):
    """The group has more keys than are compacted."""


class Compacting:
    """The compacted part of a log.

    Attributes:
        part: the part of the line for which the snapshot stands; None if there is none.
    """

    def __init__(
        self,
        store: LogStore,
        groups: Collection[str],
        key_of: KeyOf,
        *,
        whole_s: float = 0.0,
        disk: Disk | None = None,
    ) -> None:
        """Begin with what is on the disk.

        Args:
            store: the log.
            groups: its groups.
            key_of: returns the key of a message.
            whole_s: the age in seconds up to which sealed files stay whole.
            disk: see `Disk`.

        Raises:
            LogError: the snapshot is damaged.
            OSError: it cannot be read.
        """
        self._store = store
        self._groups = tuple(groups)
        self._key_of = key_of
        self._whole_s = whole_s
        self._file = SnapshotFile(store.folder, disk)
        snapshot = self._file.load()
        self.part: Interval | None = None
        if snapshot is not None:
            self.part = snapshot.first, snapshot.horizon

    def wanted(self) -> Position | None:
        """Return the place up to which the log should be compacted; None while it is small.

        Raises:
            OSError: files cannot be read.
        """
        sealed = self._store.sealed_upto(self._whole_s)
        if sealed is None or (self.part is not None and sealed[0] <= self.part[1]):
            return None
        place, size = sealed
        return place if size >= SHARE * self._file.size else None

    def compact(
        self, horizon: Position, intervals: Sequence[Interval], at_us: int
    ) -> Position | None:
        """Make a snapshot up to a place in an interval, and remove the files that it covers.

        Args:
            horizon: the place.
            intervals: what the log holds.
            at_us: the time, in microseconds since 1970.

        Returns:
            The place up to which the log has no events any more, if files were removed.

        Raises:
            TooManyKeys: nothing was changed.
            LogError, OSError: the log cannot be read; or what was written is not on disk.
        """
        first, state = self._own(horizon, intervals)
        return self._replace(first, horizon, state, at_us)

    def adopt(
        self,
        after: Position,
        horizon: Position,
        fetched: Iterable[Line],
        intervals: Sequence[Interval],
        at_us: int,
    ) -> Position | None:
        """Make a snapshot with what another archive has of a compacted part; see `compact`.

        Args:
            after: the place behind which this was fetched; what is held up to there counts, too.
            horizon: the end of that part.
            fetched: what stays of the part.
            intervals, at_us: see `compact`.
        """
        first, state = self._own(after, intervals)
        state.add(fetched)
        return self._replace(first, horizon, state, at_us)

    def _own(self, end: Position, intervals: Sequence[Interval]) -> tuple[Position, LastOfKeys]:
        """Return what stays up to a place of what this archive holds, and where that begins."""
        state = LastOfKeys(self._key_of)
        begin = next((first for first, last in intervals if first <= end <= last), end)
        first = begin
        if self.part is not None and self.part[1] >= begin:
            first = self.part[0]
            state.add(events_of(self._file.parts(first, self._groups)))
            begin = max(begin, self.part[1])
        if begin < end:
            state.add(events_of(self._until(begin, end)))
        return first, state

    def _replace(
        self, first: Position, horizon: Position, state: LastOfKeys, at_us: int
    ) -> Position | None:
        if state.count > MOST_KEYS:
            raise TooManyKeys
        self._file.store(first, horizon, state.events(), at_us)
        self.part = first, horizon
        return self._store.remove_upto(horizon)

    def _until(self, after: Position, end: Position) -> Iterable[Part]:
        """Yield the events of the log behind a place, up to another one."""
        for part in self._store.parts(after, self._groups):
            first = part.place if isinstance(part, MessageRun) else place_of(part)
            assert first is not None, "an event of the line has a place"
            if first > end:
                return
            if isinstance(part, MessageRun) and part.last > end:
                yield part.upto(end)
            else:
                yield part

    def read(self, action: ReadStore) -> EncodedPiece:
        """Return the next piece of a stream; see `SnapshotFile.read`."""
        return self._file.read(action)
