"""Received events as columns of a log.

The messages of a bundle share everything but their type and data, and their numbers follow each
other. So the columns are computed once for a bundle, and only three values for each message.
"""

import json
from array import array
from collections.abc import Iterable, Sequence
from itertools import compress
from operator import is_not
from typing import Any, Final, Literal, NamedTuple, cast

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from groupcomm.events import (
    CausalContext,
    DaemonView,
    GroupView,
    MemberId,
    Message,
    Transition,
)
from groupcomm.level import LEVELS
from groupcomm_client.events import Received, Unfiltered, Unreadable
from groupcomm_log.schema import DAEMONS, GAP, MESSAGE, ROWS, TRANSITION, VIEW, rows_of

Cause = Literal["begin", "restart", "reconnect", "overrun", "missed"]


@attrs.frozen(kw_only=True)
class Gap:
    """A place in a log where deliveries may be missing between two rows.

    Attributes:
        cause: ``begin`` of the log, ``restart`` of the recorder, ``reconnect`` to a daemon, or
            ``overrun``: the disk did not keep up, or ``missed``: no archive has what is missing.
        member: the session that records from here on; None if it is still the same.
        groups: the groups that the session joins.
        details: further facts, for JSON.
    """

    cause: Cause
    member: MemberId | None = None
    groups: tuple[str, ...] | None = None
    details: dict[str, Any]

    @property
    def details_json(self) -> bytes:
        """Return the details as JSON."""
        return json.dumps(self.details, ensure_ascii=False).encode()


_Other = GroupView | DaemonView | Transition | Gap

_LEVELS: Final = tuple(level.name for level in LEVELS)
_NO_PLACE: Final = (None,) * 4
_MESSAGE: Final = pa.scalar(MESSAGE)
_TIME: Final = ROWS.field("received").type
_OF_BUNDLE: Final = pa.schema(
    [
        ROWS.field(name)
        for name in (
            "view",
            "stamp",
            "ring",
            "bundle",
            "sender",
            "number",
            "groups",
            "level",
            "causal_context",
        )
    ]
)
_BUNDLE: Final = pa.struct(list(_OF_BUNDLE))

_MAJORITY: Final = {None: None, True: "majority", False: "minority"}


class EventBatch(NamedTuple):
    """Events that were received together.

    Attributes:
        received_us: wall clock at that time, microseconds since 1970.
        events: the events, in order.
    """

    received_us: int
    events: Sequence[Received | Gap]


def to_rows(batches: Iterable[EventBatch]) -> pa.RecordBatch:
    """Return the rows of received events, in order."""
    parts: list[pa.RecordBatch] = []
    messages: list[Message] = []
    times: list[tuple[int, int]] = []  # time, and number of messages before its end
    for received_us, events in batches:
        for event in _runs(events):
            if isinstance(event, list):
                messages += event
                times.append((received_us, len(messages)))
                continue
            if messages:
                parts.append(_message_rows(messages, times))
                messages, times = [], []
            parts.append(rows_of([{"received": received_us, **_other_row(event)}]))
    if messages:
        parts.append(_message_rows(messages, times))
    if len(parts) == 1:
        return parts[0]
    return pa.Table.from_batches(parts, ROWS).combine_chunks().to_batches()[0]


def _runs(events: Sequence[Received | Gap]) -> Iterable[list[Message] | _Other]:
    """Yield consecutive messages together, and each other event by itself."""
    run: list[Message] = []
    if set(map(type, events)) == {Message}:
        yield cast(list[Message], events)
        return
    for event in events:
        if isinstance(event, Unfiltered | Unreadable):
            run.append(event.message)
            continue
        if isinstance(event, Message):
            run.append(event)
            continue
        if run:
            yield run
            run = []
        # A recorder sends nothing, has no keys, and opens its sessions itself.
        if isinstance(event, GroupView | DaemonView | Transition | Gap):
            yield event
    if run:
        yield run


# ---- messages ----


def _message_rows(messages: list[Message], times: list[tuple[int, int]]) -> pa.RecordBatch:
    count = len(messages)
    index_list = [message.index for message in messages]
    indices = _int64(index_list)
    # Of a bundle there may be some messages only: then the next one need not begin with index 0.
    of = [message.bundle for message in messages]
    changes = compress(range(1, count), map(is_not, of[1:], of))
    starts = sorted({0, *pc.indices_nonzero(pc.equal(indices, 0)).to_pylist(), *changes})
    bundles = _bundles([messages[start] for start in starts])
    shared = bundles.take(_spread([*range(len(starts))], [*starts[1:], count])).flatten()
    columns = dict(zip(_OF_BUNDLE.names, shared, strict=True))
    columns |= {
        "kind": pa.repeat(_MESSAGE, count),
        "received": _spread([time for time, _ in times], [end for _, end in times]).cast(_TIME),
        "message": pc.if_else(columns["view"].is_valid(), indices, None),
        "number": pc.add(columns["number"], indices),
        "type": _int64([message.type for message in messages]),
        "data": pa.array([message.data for message in messages], pa.binary()),
    }
    return pa.RecordBatch.from_arrays(
        [columns.get(field.name, pa.nulls(count, field.type)) for field in ROWS], schema=ROWS
    )


def _bundles(firsts: list[Message]) -> pa.StructArray:
    """Return the shared columns of the messages of each bundle; `number` is that of index 0."""
    views = {bundle.view: str(bundle.view) for m in firsts if (bundle := m.bundle) is not None}
    senders = {sender: str(sender) for sender in {message.sender for message in firsts}}
    rows = [
        (
            *(_NO_PLACE if (place := m.bundle) is None else (views[place.view], *place[1:4])),
            senders[m.sender],
            m.number - m.index,
            m.groups,
            _LEVELS[m.level],
            None if (causes := m.causes) is None else _context(causes),
        )
        for m in firsts
    ]
    try:
        return pa.array(rows, _BUNDLE)
    except OverflowError:  # the sender chooses the number
        signed = [(*map(_signed, row[:-1]), row[-1] and [*map(_signed, row[-1])]) for row in rows]
        return pa.array(signed, _BUNDLE)


def _context(causes: CausalContext) -> tuple[int, ...]:
    """Return the causes as the column has them: the packet, and from CAUSAL up A's time and ring,
    and V.
    """
    agreed = causes.agreed
    return (causes.packet,) if agreed is None else (causes.packet, *agreed, *causes.heard)


def _signed(value: Any) -> Any:
    """Return an unsigned integer of 64 bits as a signed one with the same bits."""
    return value - 2**64 if isinstance(value, int) and value >= 2**63 else value


def _int64(values: list[int]) -> pa.Array:
    """Return the array that pa.array makes, in a tenth of its time for few values."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(array("q", values))])


def _spread(values: list[int], ends: list[int]) -> pa.Array:
    """Return an array that repeats each value up to the end of its run."""
    runs = pa.RunEndEncodedArray.from_arrays(_int64(ends), _int64(values))
    return pc.run_end_decode(runs)


# ---- other events ----


def _other_row(event: _Other) -> dict[str, Any]:
    match event:
        case GroupView():
            return {"kind": VIEW, **_group_view(event)}
        case DaemonView():
            return {
                "kind": DAEMONS,
                "view": str(event.id),
                "members": event.daemons,
                "cause": _MAJORITY[event.majority],
            }
        case Transition():
            return {"kind": TRANSITION, "view": str(event.view)}
        case Gap():
            return {
                "kind": GAP,
                "cause": event.cause,
                "sender": event.member and str(event.member),
                "groups": event.groups,
                "data": event.details_json,
            }


def _group_view(event: GroupView) -> dict[str, Any]:
    view, stamp, ring, bundle, message = event.id
    return {
        "view": str(view),
        "stamp": stamp,
        "ring": ring,
        "bundle": bundle,
        "message": message,
        "groups": [event.group],
        "members": [str(member) for member in event.members],
        "changed": [str(member) for member in event.changed],
        "cause": event.cause.name.lower(),
        "vs_set": [str(member) for member in event.vs_set],
    }
