"""The columns of a log; docs/recorder.md describes them. Columns are only ever added.

Every column may be null, integers are signed 64 bits, times are microseconds UTC: Spark, pandas,
DuckDB and others all accept that.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

_NAMES: Final = pa.list_(pa.string())

SCHEMA: Final = pa.schema(
    [
        pa.field("epoch", pa.int64()),  # of a start of the recorder, rising, in no other log
        pa.field("row", pa.int64()),  # from 0, rising by one
        pa.field("kind", pa.string()),  # one of KINDS
        pa.field("received", pa.timestamp("us", tz="UTC")),  # by the recorder's wall clock
        pa.field("view", pa.string()),  # of daemons; the next four complete the position
        pa.field("stamp", pa.int64()),
        pa.field("ring", pa.int64()),
        pa.field("bundle", pa.int64()),
        pa.field("message", pa.int64()),
        pa.field("sender", pa.string()),  # private name and connection number
        pa.field("number", pa.int64()),  # the message's number in its sender's count
        pa.field("groups", _NAMES),
        pa.field("level", pa.string()),
        pa.field("type", pa.int64()),
        pa.field("data", pa.binary()),
        pa.field("causal_context", pa.list_(pa.int64())),  # packet, A, V
        pa.field("members", _NAMES),
        pa.field("changed", _NAMES),
        pa.field("cause", pa.string()),
        pa.field("vs_set", _NAMES),
    ]
)
"""The columns of a log, with their types; docs/recorder.md describes each."""

OFFSET: Final = ("epoch", "row")
"""The columns of a row's offset; the writer fills them in."""

PLACE: Final = ("view", "stamp", "ring", "bundle", "message")
"""The columns of a position."""

MESSAGE, VIEW, DAEMONS, TRANSITION, GAP = KINDS = (
    "message",
    "view",
    "daemons",
    "transition",
    "gap",
)
"""Kinds of rows: a message; a group view; a view of daemons; the end of the regular part of a view;
a gap, before which rows may be missing.
"""

ROWS: Final = pa.schema([field for field in SCHEMA if field.name not in OFFSET])
"""The columns that a recorder fills in."""


def schema_of(names: Iterable[str]) -> pa.Schema:
    """Return the schema of some columns, in this order."""
    return pa.schema([SCHEMA.field(name) for name in names])


class Offset(NamedTuple):
    """The name of a row: offsets of one log increase, and none is used twice, by no other log.

    Attributes:
        epoch: increases with each start of a recorder, by a random step. If a power failure
            destroyed a row that somebody had read, its number occurs again, in a later epoch.
        row: row number from 0, which continues through epochs.
    """

    epoch: int
    row: int


def rows_of(dicts: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Return rows with the given columns; all others are null."""
    return pa.RecordBatch.from_pylist(list(dicts), schema=ROWS)
