"""Valid inputs for the targets in programs."""

import zlib
from collections.abc import Iterator
from typing import Final

import msgspec

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import MemberId
from groupcomm.level import ServiceLevel
from groupcomm_client import filters
from groupcomm_client.committed import markers
from groupcomm_client.coordination import (
    confirming,
    replica_messages,
    requests,
    work_exchange,
    work_messages,
)
from groupcomm_client.coordination.mutex import acknowledged, lamport, resource
from groupcomm_client.coordination.rules import Rules
from groupcomm_client.end_to_end import frames
from groupcomm_client.filters import envelope
from groupcomm_client.filters.causal_order import stamps
from groupcomm_client.filters.envelope import prefix_of
from groupcomm_client.spread_api import flush_layer
from tests.verification.campaigns.fuzz.machine_targets import Members

_ANN: Final = MemberId("#ann#d1", 2**31)
_BOB: Final = MemberId("#bob#größe", 7)
_AT: Final = Position(ViewId(2**32, "d1", 2**63), 2**50, 1, 2, 3)
_PLACE: Final = frames.Place(2**50, 2**50, 1, 2)
_KEY: Final = bytes(range(32))
_pack: Final = msgspec.msgpack.encode


def _end_to_end() -> Iterator[tuple[str, bytes]]:
    sealed = frames.encode_head(frames.Kind.DATA, _PLACE, b"12345678", 2**40) + bytes(20)
    yield "client.end_to_end.frames.head", sealed
    yield "client.end_to_end.frames.read_key_and_number", sealed
    ready = frames.Ready("größe", _PLACE, 3, True, b"12345678", _KEY, b"proof")
    entries = tuple(frames.Entry(at, ready, _KEY * 2) for at in (0, 200))
    key = frames.KeyFrame(_PLACE, _KEY, b"12345678", True, _KEY, entries, b"proof")
    for frame in (ready, key):
        yield "client.end_to_end.frames.frame", frames.encode_frame(frame)


def _filters() -> Iterator[tuple[str, bytes]]:
    name = "client.filters.envelope.open_envelope"
    yield name, envelope.MAGIC + b"\x0bzlib,causal\x02data"
    for data in (b"", b"abc" * 50, bytes(4096)):
        yield "client.filters.compressing.decompress", zlib.compress(data)
    yield (
        "client.filters.causal_order.stamps.mark",
        stamps.encode_mark(stamps.Mark(1, 2, (_ANN, _BOB))),
    )
    for stamp in (stamps.Stamp(1, 0, ()), stamps.Stamp(2**40, 300, (0, 1, 2**50))):
        yield "client.filters.causal_order.stamps.stamp", stamps.encode_stamp(stamp) + b"data"


def _coordination() -> Iterator[tuple[str, bytes]]:
    for said in (
        replica_messages.Command(2**40, b"command"),
        replica_messages.Claim(_AT, (_ANN, _BOB), None),
        replica_messages.Snapshot(_AT, (_ANN,), b"state"),
        replica_messages.Piece(_AT, b"piece"),
        replica_messages.Part(3, 1, 4, b"part"),
    ):
        yield "client.coordination.replica_messages", replica_messages.encode(said)
    rules = work_messages.Settings(5, 60_000, True)
    for command in (
        work_messages.Ready(16, rules),
        work_messages.Report((_AT,), ((_AT, 1, "torn"),), ((_AT, 1, 2),), ((_AT, 1),)),
        work_messages.PutBack((_AT,)),
        work_messages.Discard((_AT,)),
    ):
        yield "client.coordination.work_messages.command", work_messages.encode(command)
    entry = work_messages.Entry(_AT, _ANN, 7, b"page", b"key", 2, 1, 0, _BOB, "torn")
    state = work_messages.QueueState(rules, [(_BOB, 16)], [entry], [entry], [(_AT, _AT)], _AT, 3)
    yield "client.coordination.work_messages.state", work_messages.encode(state)
    ids = work_exchange.pack([_AT, _AT._replace(message=_AT.message + 1)])
    change = work_messages.Change(0, 2, 1, 0, _BOB, "torn", (_BOB,))
    claim = work_messages.QueueClaim(
        rules, [(_BOB, 16)], ids, ids, [change], ids, [(_AT, _AT)], _AT, 3
    )
    for target in ("work_messages.claim", "work_exchange", "work_exchange.unpack"):
        yield f"client.coordination.{target}", work_messages.encode(claim)
    yield "client.coordination.rules", _pack(Rules("agreed", 3))
    yield "client.coordination.confirming.number", _pack(confirming.Mark(7))
    yield "client.coordination.work_messages.piece", work_messages.encode([entry])
    for wire in (
        requests.Call(7, requests.Whom.ALL, b"question"),
        requests.Reply(_ANN, 7, b"answer", False, (_ANN, _BOB)),
    ):
        yield "client.coordination.requests", _pack(wire)
    words = (
        acknowledged.Word(acknowledged.Kind.STATE, 7, _AT, _AT),
        lamport.Word(lamport.Kind.STATE, 2**40, 7, _AT),
        lamport.Word(lamport.Kind.REQUEST, 1, 1),
    )
    for word in words:
        yield "client.coordination.mutex.form", _pack(word)
    yield "client.coordination.mutex.resource.use", _pack(resource.Use(b"print"))


def _received() -> Iterator[tuple[str, bytes]]:
    """Yield messages of members that have the same filters, or another secret, after the
    level."""
    stamp = stamps.encode_stamp(stamps.Stamp(1, 1, (0, 1)))
    mark = stamps.encode_mark(stamps.Mark(1, 0, (_ANN, _BOB)))
    prefix = prefix_of([filters.causal(), filters.compression()])
    packed = b"\1" + zlib.compress(stamp + b"data" * 50)
    for origin, inside in ((0, b"\0" + stamp + b"data"), (1, mark), (0, packed)):
        yield "client.filters.receive", b"\2" + prefix + bytes((origin,)) + inside
    others = Members(b"x" * 32)
    others.ann.send(ServiceLevel.AGREED)
    sealed = list(dict.fromkeys(others.world.wire))
    kinds = {frames.kind_of(data): data for data in sealed}
    for data in kinds.values():
        yield "client.end_to_end.receive", b"\4" + data


def client_seeds() -> Iterator[tuple[str, bytes]]:
    """Yield names of targets, and inputs for them."""
    yield from _end_to_end()
    yield from _filters()
    yield from _coordination()
    yield from _received()
    for marker in (markers.Begin("größe", 2**40), markers.End("q", 1, {"g": 3}, {"g": 0})):
        yield "client.committed.markers.marker", markers.encode_marker(marker)
    for group in (b"", "größe".encode()):
        head = flush_layer._HEAD.pack(flush_layer._SUBGROUP, b"12345678", len(group))
        yield "client.spread_api.flush_layer.flush_message", head + group + b"data"
    for request in (b'{"do":"join","id":1,"group":"g"}', b'{"do":"connect","id":0,"token":"t"}'):
        yield "tools.web.frames", request
    head = b'{"do":"multicast","id":2,"groups":["g"],"level":"SAFE"}'
    yield "tools.web.frames", len(head).to_bytes(2, "big") + head + b"data"
