"""The messages of the line in a log, for `groupcomm history export`."""

from collections.abc import Callable, Collection, Generator, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from groupcomm.clocks.stamp import Position, parse_position
from groupcomm_archive.rows import LEVELS, UNSIGNED
from groupcomm_log.reader import LogReader, OnDamage
from groupcomm_log.schema import GAP, MESSAGE, PLACE
from groupcomm_tools.exported import Exported
from groupcomm_tools.recording.row_text import sentence

_COLUMNS: Final = (
    *("kind", "received", *PLACE, "sender", "groups", "level", "type", "data", "cause"),
)

_MOST_ROWS: Final = 1000
"""The rows that are objects of Python at a time."""


def exported_from_log(
    folder: Path,
    groups: Collection[str] | None,
    start: Position | datetime | None,
    until: Position | datetime | None,
    on_gap: Callable[[str], None],
    on_damage: OnDamage,
) -> Generator[Exported, None, None]:
    """Yield the AGREED and SAFE messages of a log, in order, up to its present end.

    Args:
        folder: the folder of the log.
        groups: only messages to one of these groups; None for all.
        start: only messages behind this place, or received then or later; None for all.
        until: only messages up to this place, or received before; None for all.
        on_gap: called with a sentence for each gap between the first and the last message.
        on_damage: see `LogReader`.

    Raises:
        LogError, OSError: see `LogReader.batches`.
    """
    wanted = None if groups is None else frozenset(groups)
    begin = start if isinstance(start, Position) else None
    end = until if isinstance(until, Position) else None
    for batch in LogReader(folder, on_damage).batches(columns=_COLUMNS):
        kept = batch.filter(_mask(batch, start, until))
        for at in range(0, kept.num_rows, _MOST_ROWS):
            part = kept.slice(at, _MOST_ROWS)
            for index, message in enumerate(_messages(part)):
                if message is None:
                    on_gap(sentence(part.slice(index, 1).to_pylist()[0]))
                elif wanted is None or not wanted.isdisjoint(message.groups):
                    if begin is not None and parse_position(message.position) <= begin:
                        continue
                    if end is not None and parse_position(message.position) > end:
                        continue
                    yield message


def _messages(rows: pa.RecordBatch) -> Iterator[Exported | None]:
    """Yield each row as a message, and None for a gap; whole columns are quicker than rows."""
    naive = pc.cast(rows["received"], pa.timestamp("us"))
    times = pc.strftime(naive, "%Y-%m-%dT%H:%M:%S+00:00").to_pylist()
    names = (*PLACE, "sender", "groups", "level", "type", "data")
    columns = [rows[name].to_pylist() for name in names]
    for time, view, stamp, ring, bundle, message, sender, groups, level, type_, data in zip(
        times, *columns, strict=True
    ):
        if level is None:
            yield None
            continue
        place = f"{view}/{stamp & UNSIGNED}.{ring}.{bundle}.{message}"
        name = sender.rpartition("/")[0]
        yield Exported(place, time, tuple(groups), name, type_, level, data)


def _mask(
    batch: pa.RecordBatch, start: Position | datetime | None, until: Position | datetime | None
) -> pa.Array:
    """Return which rows are messages of the line in a span of time, or gaps."""
    agreed = pc.is_in(batch["level"], pa.array([*LEVELS]))
    gaps = pc.and_(pc.equal(batch["kind"], GAP), pc.not_equal(batch["cause"], "begin"))
    messages = pc.and_(pc.equal(batch["kind"], MESSAGE), agreed)
    mask = pc.or_(messages.fill_null(False), gaps.fill_null(False))
    if isinstance(start, datetime):
        mask = pc.and_(mask, pc.greater_equal(batch["received"], _time(start)))
    if isinstance(until, datetime):
        mask = pc.and_(mask, pc.less(batch["received"], _time(until)))
    return mask.fill_null(False)


def _time(moment: datetime) -> pa.Scalar:
    return pa.scalar(moment, pa.timestamp("us", tz="UTC"))
