"""Rows of a log as events of the line: runs of messages, and views."""

from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import repeat
from operator import sub
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from groupcomm.clocks.stamp import Position, parse_view
from groupcomm.events import Cause, DaemonView, GroupView, MemberId
from groupcomm.level import AGREED_LEVELS
from groupcomm_client.history.places import place_of
from groupcomm_log.schema import DAEMONS, MESSAGE, PLACE, VIEW

LEVELS: Final = {level.name: int(level) for level in AGREED_LEVELS}
"""The levels of the line."""

_RUN: Final = ("kind", *PLACE, "sender", "number", "groups", "level")
_SAME: Final = ("kind", "view", "stamp", "ring", "bundle", "level")
_OTHER: Final = ("members", "changed", "cause", "vs_set")

READ: Final = ("epoch", "row", *_RUN, "type", "data", *_OTHER)
"""The columns that `parts_of` needs, and the offset."""

UNSIGNED: Final = 2**64 - 1
"""A mask with which a signed integer of a log is unsigned again."""


class MessageRun(NamedTuple):
    """Consecutive messages of one bundle.

    Attributes:
        place: the place of the first one.
        number: its number.
        sender, groups, level: what they share.
        types, data: the types and the data of all.
    """

    place: Position
    number: int
    sender: MemberId
    groups: tuple[str, ...]
    level: int
    types: list[int]
    data: list[bytes]

    @property
    def last(self) -> Position:
        """Return the place of the last message."""
        view, time, ring, bundle, message = self.place
        return Position(view, time, ring, bundle, message + len(self.data) - 1)

    def upto(self, place: Position) -> "MessageRun":
        """Return the messages up to a place of the same bundle; there is one at least."""
        count = place.message - self.place.message + 1
        return self._replace(types=self.types[:count], data=self.data[:count])

    def behind(self, place: Position) -> "MessageRun":
        """Return the messages behind a place of the same bundle; there is one at least."""
        count = place.message - self.place.message + 1
        return self._replace(
            place=place._replace(message=place.message + 1),
            number=self.number + count,
            types=self.types[count:],
            data=self.data[count:],
        )


class Block(NamedTuple):
    """Runs of messages and nothing else, by columns: far quicker than one `MessageRun` for each.

    Attributes:
        bundles: the position of each run's bundle.
        indices, numbers: the place in the bundle, and the number, of each run's first message.
        senders, groups, levels, counts: of each run.
        types, data: the types and the data of all messages.
    """

    bundles: list[Position]
    indices: list[int]
    numbers: list[int]
    senders: list[MemberId]
    groups: list[tuple[str, ...]]
    levels: list[int]
    counts: list[int]
    types: list[int]
    data: list[bytes]

    @property
    def first(self) -> Position:
        """Return the place of the first message."""
        return self.bundles[0]._replace(message=self.indices[0])

    @property
    def last(self) -> Position:
        """Return the place of the last message."""
        return self.bundles[-1]._replace(message=self.indices[-1] + self.counts[-1] - 1)

    def runs(self) -> Iterator[MessageRun]:
        """Yield the runs one by one."""
        at = 0
        for bundle, index, number, sender, groups, level, count in zip(*self[:7], strict=True):
            place = bundle._replace(message=index)
            of = (self.types[at : at + count], self.data[at : at + count])
            yield MessageRun(place, number, sender, groups, level, *of)
            at += count


Part: TypeAlias = MessageRun | GroupView | DaemonView


def place_of_part(part: Part | Block) -> Position | None:
    """Return the place of the first event of a part."""
    if isinstance(part, Block):
        return part.first
    return part.place if isinstance(part, MessageRun) else place_of(part)


def block_of(batch: pa.RecordBatch, groups: Collection[str]) -> Block | None:
    """Return rows as a block; None if they are not all messages of the line to these groups.

    Args:
        batch: rows with the columns of READ, one at least.
        groups: the groups whose messages are wanted.
    """
    starts = _starts(batch)
    kinds, levels = (batch[name].take(starts).unique().to_pylist() for name in ("kind", "level"))
    if kinds != [MESSAGE] or not LEVELS.keys() >= set(levels):
        return None
    of = {name: batch[name].take(starts).to_pylist() for name in _RUN}
    to = list(map(tuple, of["groups"]))
    wanted = frozenset(groups)
    if any(map(wanted.isdisjoint, set(to))):
        return None
    at = starts.to_pylist()
    views, stamps = map(_parse_view, of["view"]), _unsigned(of["stamp"])
    return Block(
        bundles=list(map(Position, views, stamps, of["ring"], of["bundle"], repeat(0))),
        indices=of["message"],
        numbers=_unsigned(of["number"]),
        senders=list(map(_member, of["sender"])),
        groups=to,
        levels=list(map(LEVELS.__getitem__, of["level"])),
        counts=list(map(sub, [*at[1:], batch.num_rows], at)),
        types=_types(batch["type"]),
        data=batch["data"].to_pylist(),
    )


def _unsigned(values: list[int]) -> list[int]:
    return values if min(values) >= 0 else [value & UNSIGNED for value in values]


def _types(column: pa.Array) -> list[int]:
    least, most = pc.min_max(column).as_py().values()
    return [least] * len(column) if least == most else column.to_pylist()


def parts_of(batch: pa.RecordBatch, groups: Collection[str]) -> Iterator[Part]:
    """Yield the events of the line in rows, in their order.

    Args:
        batch: rows with the columns of READ.
        groups: the groups whose messages and views are yielded.
    """
    if not batch.num_rows:
        return
    starts = _starts(batch)
    heads = [batch[name].take(starts).to_pylist() for name in _RUN]
    at = starts.to_pylist()
    types, data = batch["type"].to_pylist(), batch["data"].to_pylist()
    ends = [*at[1:], batch.num_rows]
    wanted = frozenset(groups)
    for start, end, kind, view, stamp, ring, bundle, message, sender, number, to, level in zip(
        at, ends, *heads, strict=True
    ):
        if kind == MESSAGE:
            if level in LEVELS and not wanted.isdisjoint(to):
                yield MessageRun(
                    Position(_parse_view(view), stamp & UNSIGNED, ring, bundle, message),
                    number & UNSIGNED,
                    _member(sender),
                    tuple(to),
                    LEVELS[level],
                    types[start:end],
                    data[start:end],
                )
        elif kind == DAEMONS or (kind == VIEW and to[0] in wanted):
            for index in range(start, end):
                row = {name: batch[name][index].as_py() for name in (*_RUN, *_OTHER)}
                yield _view(row)


def _starts(batch: pa.RecordBatch) -> pa.Array:
    """Return the indices of rows that do not continue the run of the row before."""
    count = batch.num_rows
    differs = pc.not_equal(
        pc.subtract(batch["message"][1:], batch["message"][: count - 1]), 1
    ).fill_null(True)
    for name in _SAME:
        column = batch[name]
        differs = pc.or_(differs, pc.not_equal(column[1:], column[: count - 1]).fill_null(True))
    first = pa.array([True])
    return pc.indices_nonzero(pa.concat_arrays([first, differs]))


def place_of_row(row: dict[str, Any]) -> Position:
    """Return the place of a row: of a message, a group view or a view of daemons."""
    view = _parse_view(row["view"])
    if row["kind"] == DAEMONS:
        return Position(view, 0, 0, 0, 0)
    stamp, ring, bundle, message = (row[name] for name in PLACE[1:])
    return Position(view, stamp & UNSIGNED, ring, bundle, message)


_parse_view = lru_cache(maxsize=1024)(parse_view)


@lru_cache(maxsize=4096)
def _member(text: str) -> MemberId:
    name, _, connection = text.rpartition("/")
    return MemberId(name, int(connection))


_CAUSES: Final = {cause.name.lower(): cause for cause in Cause}
_MAJORITY: Final = {"majority": True, "minority": False, None: None}


def _view(row: dict[str, Any]) -> GroupView | DaemonView:
    if row["kind"] == DAEMONS:
        return DaemonView(
            id=_parse_view(row["view"]),
            daemons=tuple(row["members"]),
            majority=_MAJORITY[row["cause"]],
        )
    return GroupView(
        group=row["groups"][0],
        id=place_of_row(row),
        members=tuple(map(_member, row["members"])),
        cause=_CAUSES[row["cause"]],
        changed=tuple(map(_member, row["changed"])),
        vs_set=tuple(map(_member, row["vs_set"])),
        own=False,
    )
