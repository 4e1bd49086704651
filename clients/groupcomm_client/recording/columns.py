"""What was received, as columns.

The messages of a bundle share all but their type and data, and their numbers follow each other. So
a bundle costs one look, and a message three.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from groupcomm.events import DaemonView, GroupView, Message, Transition, Undeliverable
from groupcomm.level import LEVELS
from groupcomm_client.conversation import Received
from groupcomm_client.recording.gap import Gap
from groupcomm_log.schema import DAEMONS, GAP, MESSAGE, ROWS, TRANSITION, VIEW, rows_of

_Other = GroupView | DaemonView | Transition | Gap

_LEVELS: Final = tuple(level.name for level in LEVELS)
_NO_PLACE: Final = (None,) * 5

_MAJORITY: Final = {None: None, True: "majority", False: "minority"}


class Taken(NamedTuple):
    """What came together.

    Attributes:
        received_us: when, by the wall clock, microseconds since 1970.
        events: in their order.
    """

    received_us: int
    events: Sequence[Received | Gap]


def to_rows(all_taken: Iterable[Taken]) -> pa.RecordBatch:
    """The rows of what was received, in its order."""
    parts: list[pa.RecordBatch] = []
    messages: list[Message] = []
    times: list[tuple[int, int]] = []  # when, and behind how many messages it ends
    for received_us, events in all_taken:
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
    """Messages that follow each other together, and what else is between them."""
    run: list[Message] = []
    if set(map(type, events)) == {Message}:
        yield cast(list[Message], events)
        return
    for event in events:
        if isinstance(event, Message):
            run.append(event)
            continue
        if run:
            yield run
            run = []
        if not isinstance(event, Undeliverable):  # a recorder sends nothing
            yield event
    if run:
        yield run


# ---- messages ----


def _message_rows(messages: list[Message], times: list[tuple[int, int]]) -> pa.RecordBatch:
    count = len(messages)
    indices = pa.array([message.index for message in messages], pa.int64())
    starts = pc.indices_nonzero(pc.equal(indices, 0)).to_pylist()
    if not starts or starts[0]:
        starts.insert(0, 0)
    firsts = [messages[start] for start in starts]
    bundles = [message.bundle for message in firsts]
    ends = pa.array([*starts[1:], count], pa.int32())

    def of_bundle(name: str, values: Sequence[Any]) -> pa.Array:
        return _spread(_array(values, ROWS.field(name).type), ends)

    views, stamps, rings, in_packet, _ = zip(
        *(bundle or _NO_PLACE for bundle in bundles), strict=True
    )
    view = of_bundle("view", _texts(views))
    numbers = of_bundle("number", [message.number - message.index for message in firsts])
    columns = {
        "kind": pa.repeat(pa.scalar(MESSAGE), count),
        "received": _received(times),
        "view": view,
        "stamp": of_bundle("stamp", stamps),
        "ring": of_bundle("ring", rings),
        "bundle": of_bundle("bundle", in_packet),
        "message": pc.if_else(pc.is_valid(view), indices, None),
        "sender": of_bundle("sender", _texts([message.sender for message in firsts])),
        "number": pc.add(numbers, indices),
        "groups": of_bundle("groups", [message.groups for message in firsts]),
        "level": of_bundle("level", [_LEVELS[message.level] for message in firsts]),
        "type": pa.array([message.type for message in messages], pa.int64()),
        "data": pa.array([message.data for message in messages], pa.binary()),
    }
    return pa.RecordBatch.from_arrays(
        [columns.get(field.name, pa.nulls(count, field.type)) for field in ROWS], schema=ROWS
    )


def _texts(values: Sequence[object]) -> list[str | None]:
    """Each as text; few are different."""
    texts = {value: None if value is None else str(value) for value in set(values)}
    return [texts[value] for value in values]


def _received(times: list[tuple[int, int]]) -> pa.Array:
    received = pa.array([time for time, _ in times], ROWS.field("received").type)
    return _spread(received, pa.array([end for _, end in times], pa.int32()))


def _spread(values: pa.Array, ends: pa.Array) -> pa.Array:
    """Each value as often as its run is long."""
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, values))


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array; integers of 64 bits that are above a signed one's come as negative ones."""
    try:
        return pa.array(values, kind)
    except OverflowError:
        return pa.array(values, pa.uint64()).view(pa.int64())


# ---- what is no message ----


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
                "data": event.told,
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
