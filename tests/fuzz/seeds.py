"""One valid input for each target, so that a fuzzer starts behind the first checks."""

from collections.abc import Iterator
from typing import Final

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.config.view import Incarnation
from groupcomm.events import Cause, GroupView, MemberId
from groupcomm.security.sealing import SUITE_NONE, Sealer
from groupcomm.session import frames, view_frame
from groupcomm.wire.messages import encode_fragment, encode_messages
from tests.core.wire.packets import CODECS, KEY, example_bundle

_MEMBER: Final = MemberId("#ann#d1", 2**31)
_VIEW: Final = ViewId(2**32, "d1", 2**63)
_POSITION: Final = Position(_VIEW, 2**50, 1, 2, 3)


def _group_view() -> bytes:
    view = GroupView(
        group="größe",
        id=_POSITION,
        members=(_MEMBER, MemberId("#bob#d2", 7)),
        cause=Cause.JOIN,
        changed=(_MEMBER,),
        vs_set=(),
        own=True,
    )
    return view_frame.encode_view(view)


def _frames() -> dict[str, bytes]:
    """Whole frames, from their length on."""
    body = example_bundle().body
    return {
        "hello": frames.encode_hello("ann"),
        "welcome": frames.encode_welcome(_MEMBER, 1000),
        "view_id": frames.encode_view_id(_VIEW),
        "delivery": frames.encode_delivery("#ann#d1", 2**31, (2**50, 1, 2), body),
        "ordered": frames.encode_ordered(7, _POSITION),
        "undeliverable": frames.encode_undeliverable(7, "#bob#d2", _POSITION),
        "abort": frames.encode_abort(_MEMBER, 7),
        "closed": frames.encode_closed(-8, "too slow"),
    }


def _wire() -> Iterator[tuple[str, bytes]]:
    for codec in CODECS:
        name = codec.kind.name.lower()
        yield f"wire.{name}.{name}", codec.example.encode(KEY)
    record = example_bundle().encode()
    yield "wire.packet.peek", bytes(20)
    yield "wire.bundle.body", example_bundle().body
    yield "wire.bundle.bundles", b"\0\2" + record + record
    yield "wire.messages.messages", b"\0\0\0\2" + encode_messages([(1, b"ab"), (2, b"")])
    yield "wire.messages.fragment", encode_fragment(1, 9, b"part")


def _rest() -> Iterator[tuple[str, bytes]]:
    sealer = Sealer(SUITE_NONE, None, cluster=0, sender=1, incarnation=Incarnation(1, 2))
    yield "security.sealing.open", sealer.seal(b"packet")
    yield "security.sealing.sealed", bytes(22) + b"\1packet"
    yield "core.gate.open", b"\0\5body"
    to_client = _frames()
    hello = to_client.pop("hello")
    yield "session.frames.hello", hello[4:]
    for name, frame in to_client.items():
        yield f"session.frames.{name}", frame[4:]
    yield "session.view_frame.view", _group_view()[4:]
    yield "session.frame_reader", b"\x05" + hello + frames.encode_bye()
    told = [frame for name, frame in to_client.items() if name != "closed"]
    yield "session.client", b"".join([*told, _group_view(), to_client["closed"]])
    body = example_bundle().body
    bundle = frames.encode_bundle_head(len(body), ordered=False) + body
    yield "session.daemon", bundle + frames.encode_bye()


SEEDS: Final = dict([*_wire(), *_rest()])
