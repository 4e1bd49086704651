"""Logs that some receivers of one cluster could have written, made fast and without daemons."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from groupcomm_log.schema import DAEMONS, GAP, MESSAGE, SCHEMA, TRANSITION, VIEW

Ints = NDArray[np.int64]

LEVELS: Final = ("UNRELIABLE", "RELIABLE", "FIFO", "CAUSAL", "AGREED", "SAFE")
SHARES: Final = (0.05, 0.1, 0.2, 0.2, 0.3, 0.15)
"""The share of each level."""

GROUPS: Final = (("g",), ("h",), ("g", "h"))
DAEMON_NAMES: Final = ("a", "b", "c")
RINGS: Final = 2
LAG: Final = 12
"""The packets before its own up to which a sender has received all."""

FIRST_STAMP: Final = 1_700_000_000_000_000
TRANSITIONAL: Final = 0.95
"""Behind this share of a view its transitional part begins."""

PLACE: Final = ("stamp", "ring", "bundle", "message")


@dataclass(frozen=True)
class Receiver:
    """A recorder.

    Attributes:
        name: the name of its log, and of its session's user.
        daemon: the daemon that it is connected to.
        groups: the groups that it joins.
    """

    name: str
    daemon: str
    groups: tuple[str, ...] = ("g", "h")

    @property
    def member(self) -> str:
        return f"#{self.name}#{self.daemon}/1"


RECEIVERS: Final = (Receiver("r0", "a"), Receiver("r1", "b"))


class History:
    """The events of a cluster: some views, each with some messages.

    Attributes:
        receivers: the receivers that record.
        incarnation: the incarnation of all views; it distinguishes them from another history's.
    """

    def __init__(
        self,
        messages: int,
        *,
        views: int = 3,
        senders: int = 20,
        receivers: Sequence[Receiver] = RECEIVERS,
        payload: int = 16,
        incarnation: int = 0xA,
        seed: int = 0,
    ) -> None:
        self.receivers = receivers
        self.incarnation = incarnation
        self._views = views
        self._random = np.random.default_rng(seed)
        self._senders = [f"#s{at}#{DAEMON_NAMES[at % 3]}/{at}" for at in range(senders)]
        self._numbers = np.zeros(senders, np.int64)
        self._payload = payload
        each = messages // views
        self._tables = [self._make_view(each, view) for view in range(views)]

    def view_id(self, view: int) -> str:
        return f"{10 + view}.a.{self.incarnation:x}"

    # ---- messages ----

    def _make_view(self, count: int, view: int) -> pa.Table:
        """All messages of a view in the order of their stamps, one in each packet."""
        random = self._random
        at = np.arange(count)
        level = random.choice(len(LEVELS), count, p=SHARES)
        sender = random.integers(0, len(self._senders), count)
        ring = sender % 3 % RINGS
        packet = np.zeros(count, np.int64)
        heard = np.zeros((count, RINGS), np.int64)
        for one in range(RINGS):
            passed = np.cumsum(ring == one)
            packet[ring == one] = passed[ring == one]
            heard[LAG:, one] = passed[:-LAG] if count > LAG else 0
        agreed = np.maximum.accumulate(np.where(level >= 4, at, -1))
        last = np.full(count, -1)
        last[LAG:] = agreed[:-LAG] if count > LAG else -1
        stamp = FIRST_STAMP + view * 10**9 + at
        after = np.where(last >= 0, stamp[np.maximum(last, 0)], 0)
        after_ring = np.where(last >= 0, ring[np.maximum(last, 0)], 0)
        placed = level > 0
        return pa.table(
            {
                "kind": pa.repeat(MESSAGE, count),
                "received": pa.array(stamp, pa.timestamp("us", tz="UTC")),
                "view": _where(placed, pa.repeat(self.view_id(view), count)),
                "stamp": _where(placed, stamp),
                "ring": _where(placed, ring),
                "bundle": _where(placed, np.zeros(count, np.int64)),
                "message": _where(placed, np.zeros(count, np.int64)),
                "sender": pa.array(self._senders).take(pa.array(sender)),
                "number": self._number(sender),
                "groups": pa.array(GROUPS, pa.list_(pa.string())).take(
                    pa.array(random.integers(0, len(GROUPS), count))
                ),
                "level": pa.array(LEVELS).take(pa.array(level)),
                "type": random.integers(0, 5, count),
                "data": _payloads(random, count, self._payload),
                "causal_context": _contexts(level, packet, after, after_ring, heard),
            }
        )

    def _number(self, sender: Ints) -> Ints:
        """The next numbers of each sender."""
        order = np.argsort(sender, kind="stable")
        counts = np.bincount(sender, minlength=len(self._numbers))
        starts = np.cumsum(counts) - counts
        number = np.empty(len(sender), np.int64)
        number[order] = np.arange(len(sender)) - np.repeat(starts, counts)
        number += self._numbers[sender]
        self._numbers += counts
        return number

    # ---- what a receiver is told ----

    def log_of(self, receiver: Receiver) -> pa.Table:
        """Its whole log."""
        parts = [self._events(self._session(receiver))]
        for view, table in enumerate(self._tables):
            mine = self._received(table, receiver)
            regular = int(len(mine) * TRANSITIONAL)
            parts += [self._events(self._begin(view, receiver)), mine.slice(0, regular)]
            if view < self._views - 1:
                transition = {"kind": TRANSITION, "view": self.view_id(view)}
                parts += [self._events([transition]), mine.slice(regular)]
        rows = pa.concat_tables(part.select(parts[0].column_names) for part in map(_full, parts))
        rows = rows.set_column(
            SCHEMA.names.index("row"), SCHEMA.field("row"), [np.arange(len(rows))]
        )
        epoch = pa.repeat(pa.scalar(1, pa.int64()), len(rows))
        return rows.set_column(SCHEMA.names.index("epoch"), SCHEMA.field("epoch"), [epoch])

    def _received(self, table: pa.Table, receiver: Receiver) -> pa.Table:
        """Neighbours that have no order may change places, as they come on different ways."""
        wanted = [at for at, groups in enumerate(GROUPS) if set(groups) & set(receiver.groups)]
        if len(wanted) < len(GROUPS):
            kept = [not set(g).isdisjoint(receiver.groups) for g in table["groups"].to_pylist()]
            table = table.filter(pa.array(kept))
        count = len(table) // 2
        level = _codes(table["level"], LEVELS)[: 2 * count].reshape(-1, 2)
        sender = _codes(table["sender"], self._senders)[: 2 * count].reshape(-1, 2)
        free = ((level < 4).any(axis=1)) & (sender[:, 0] != sender[:, 1])
        swap = free & (self._random.random(count) < 0.5)
        order = np.arange(len(table))
        pairs = order[: 2 * count].reshape(-1, 2)
        pairs[swap] = pairs[swap][:, ::-1]
        return table.take(pa.array(order))

    @staticmethod
    def _session(receiver: Receiver) -> list[dict[str, Any]]:
        gap = {"kind": GAP, "cause": "begin", "sender": receiver.member, "data": b"{}"}
        return [{**gap, "groups": list(receiver.groups)}]

    def _begin(self, view: int, receiver: Receiver) -> list[dict[str, Any]]:
        """A view of daemons, and of the groups."""
        daemons = {"kind": DAEMONS, "view": self.view_id(view), "members": DAEMON_NAMES}
        rows: list[dict[str, Any]] = [daemons]
        for group in receiver.groups:
            inside = [each.member for each in self.receivers if group in each.groups]
            place = {"view": self.view_id(view), **dict.fromkeys(PLACE, 0)}
            if view:
                change = {"cause": "network", "changed": [], "members": inside, "vs_set": inside}
                rows.append({"kind": VIEW, **place, "groups": [group], **change})
                continue
            for at, member in enumerate(inside):
                place["stamp"] = 1 + 10 * sorted({"g", "h"}).index(group) + at
                change = {"cause": "join", "changed": [member], "members": inside[: at + 1]}
                own = member == receiver.member
                vs_set = [member] if own else inside[:at]
                if at >= inside.index(receiver.member):
                    rows.append(
                        {"kind": VIEW, **place, "groups": [group], **change, "vs_set": vs_set}
                    )
        return rows

    def _events(self, rows: list[dict[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist(rows, SCHEMA)

    def logs(self) -> dict[str, pa.Table]:
        """All logs, by name."""
        return {receiver.name: self.log_of(receiver) for receiver in self.receivers}


def _full(table: pa.Table) -> pa.Table:
    """Return the table with all columns of a log."""
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in SCHEMA
    ]
    return pa.table(columns, schema=SCHEMA)


def _where(condition: NDArray[np.bool_], values: Any) -> pa.Array:
    array = values if isinstance(values, pa.Array) else pa.array(values, pa.int64())
    return pc.if_else(pa.array(condition), array, None)


def _codes(column: pa.ChunkedArray, names: Sequence[str]) -> Ints:
    codes: Ints = pc.index_in(column, pa.array(names)).combine_chunks().to_numpy()
    return codes.astype(np.int64)


def _payloads(random: np.random.Generator, count: int, size: int) -> pa.Array:
    offsets = np.arange(count + 1, dtype=np.int32) * size
    data = random.bytes(count * size)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def _contexts(level: Ints, packet: Ints, after: Ints, ring: Ints, heard: Ints) -> pa.Array:
    """[packet] below CAUSAL, [packet, A.time, A.ring, V...] above; null for UNRELIABLE."""
    full = np.column_stack([packet, after, ring, heard])
    sizes = np.where(level >= 3, full.shape[1], np.where(level > 0, 1, 0))
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    values = full[np.arange(full.shape[1]) < sizes[:, None]]
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))
    return pc.if_else(pa.array(level > 0), lists, None)
