"""A log cut into periods: the rows that one session of a recorder received in one view of
daemons."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from groupcomm.level import AGREED_LEVELS, LEVELS, ServiceLevel
from groupcomm_log.reader import LogReader
from groupcomm_log.schema import MESSAGE, PLACE

ORDERED: Final = tuple(level.name for level in AGREED_LEVELS)
UNORDERED: Final = tuple(
    level.name for level in LEVELS[ServiceLevel.RELIABLE : ServiceLevel.AGREED]
)
"""Levels of which two members receive the same set in a view, in any order between senders."""

KEY: Final = PLACE[1:]
"""The columns of a position within one view, in their order."""

COLUMNS: Final = (*PLACE, "kind", "sender", "number", "groups", "level", "type", "data")
EVENTS: Final = ("members", "changed", "cause", "vs_set")

Key = tuple[float, ...]
"""A position within one view."""

FIRST: Final[Key] = (-1,)
NEVER: Final[Key] = (inf,)

DIGESTS: Final = pa.schema(
    [
        *(pa.field(name, pa.int64()) for name in KEY),
        pa.field("level", pa.string()),
        pa.field("groups", pa.string()),
        pa.field("digest", pa.int64()),
    ]
)
NO_MESSAGES: Final = DIGESTS.empty_table()

SEPARATOR: Final = "\0"  # a character that no name contains


@dataclass(frozen=True)
class GroupChange:
    """A group view."""

    key: Key
    group: str
    members: tuple[str, ...]
    changed: tuple[str, ...]
    cause: str
    vs_set: tuple[str, ...]


@dataclass
class ViewPeriod:
    """The rows that one session received in one view of daemons, or in a part of it.

    Attributes:
        view: id of the view of daemons.
        member: the session.
        joined: the groups of which it is a member.
        start: the position after which nothing of the agreed order is missing; NEVER before it has
            joined.
        next_view: view that followed for this session; None if none was delivered.
        regular_end: last position of the agreed order in the regular part of the view.
        changes: group views.
        messages: messages with a position: keys, level, groups and a digest of everything else.
    """

    view: str
    member: str
    joined: set[str]
    start: Key
    next_view: str | None = None
    regular_end: Key = FIRST
    changes: list[GroupChange] = field(default_factory=list)
    messages: list[pa.Table] = field(default_factory=list)


def read_periods(reader: LogReader) -> Iterator[ViewPeriod]:
    """Yield the periods of a log, in order.

    Raises:
        LogError, OSError: see `LogReader.batches`.
    """
    cutter = _Cutter()
    for batch in reader.batches(columns=[*COLUMNS, *EVENTS]):
        done = 0
        for at in pc.indices_nonzero(pc.not_equal(batch["kind"], MESSAGE)).to_pylist():
            cutter.messages(batch.slice(done, at - done))
            yield from cutter.event(batch.slice(at, 1).to_pylist()[0])
            done = at + 1
        cutter.messages(batch.slice(done))
    yield from cutter.end()


class _Cutter:
    def __init__(self) -> None:
        self._period: ViewPeriod | None = None
        self._member = ""
        self._transitional = self._behind_gap = False

    def event(self, row: dict[str, Any]) -> Iterator[ViewPeriod]:
        """Read a row that is not a message; yield a period that it ends."""
        match row["kind"]:
            case "gap" if row["sender"] is not None:  # a new session
                yield from self.end()
                self._member = row["sender"]
            case "gap":
                old = self._period
                yield from self.end()
                if old is not None:
                    self._period = ViewPeriod(old.view, old.member, old.joined, NEVER)
                    self._behind_gap = True
            case "daemons":
                yield from self._next_view(row["view"])
            case "transition":
                self._transitional = True
            case "view":
                self._group_view(row)
            case _:
                pass

    def end(self) -> Iterator[ViewPeriod]:
        """End the period: later rows belong to another session."""
        if self._period is not None:
            yield self._period
        self._period = None
        self._behind_gap = False

    def _next_view(self, view: str) -> Iterator[ViewPeriod]:
        old = self._period
        if old is not None:
            old.next_view = view
        yield from self.end()
        self._transitional = False
        joined = set() if old is None else old.joined
        self._period = ViewPeriod(view, self._member, set(joined), FIRST if joined else NEVER)

    def _group_view(self, row: dict[str, Any]) -> None:
        period = self._period
        if period is None:
            return
        key = tuple(row[name] for name in KEY)
        group, changed = row["groups"][0], tuple(row["changed"])
        if row["cause"] == "join" and period.member in changed:
            period.joined.add(group)
            period.start = key
        period.changes.append(
            GroupChange(
                key, group, tuple(row["members"]), changed, row["cause"], tuple(row["vs_set"])
            )
        )
        self._ordered(key)

    def messages(self, batch: pa.RecordBatch) -> None:
        """Read rows that are messages."""
        batch = batch.filter(pc.is_valid(batch["view"]))
        if self._period is None or not batch.num_rows:
            return
        self._period.messages.append(_digested(batch))
        ordered = batch.filter(pc.is_in(batch["level"], pa.array(ORDERED)))
        if ordered.num_rows:
            for at in (0, ordered.num_rows - 1):
                (row,) = ordered.slice(at, 1).select(KEY).to_pylist()
                self._ordered(tuple(row.values()))

    def _ordered(self, key: Key) -> None:
        assert self._period is not None
        if self._behind_gap:
            self._period.start, self._behind_gap = key, False
        if not self._transitional:
            self._period.regular_end = max(self._period.regular_end, key)


def _digested(batch: pa.RecordBatch) -> pa.Table:
    """Return positions, levels and groups of messages, and a digest of everything else."""
    groups = pc.binary_join(batch["groups"], SEPARATOR)
    digest = pa.array(map(zlib.crc32, batch["data"].to_pylist()), pa.int64())
    for factor, column in ((31, _crcs(batch["sender"])), (37, _crcs(groups))):
        digest = pc.add(digest, pc.multiply(column, pa.scalar(factor << 32, pa.int64())))
    for factor, name in ((41, "number"), (43, "type")):
        digest = pc.add(digest, pc.multiply(batch[name], pa.scalar(factor << 16, pa.int64())))
    columns = [batch[name] for name in (*KEY, "level")]
    return pa.table([*columns, groups, digest], schema=DIGESTS)


def _crcs(texts: pa.Array) -> pa.Array:
    """Return the CRC-32 of each text, of which few are different."""
    codes = texts.dictionary_encode()
    crcs = pa.array(
        [zlib.crc32(text.encode()) for text in codes.dictionary.to_pylist()], pa.int64()
    )
    return crcs.take(codes.indices)
