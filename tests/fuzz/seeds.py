"""One valid input for each target, so that a fuzzer starts behind the first checks."""

from collections.abc import Iterator
from typing import Final

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.config.view import Incarnation
from groupcomm.events import Cause, DaemonView, GroupView, MemberId
from groupcomm.groups.announcement import Announcement, cut_announcement
from groupcomm.security.sealing import SUITE_NONE, Sealer
from groupcomm.session import frames, view_frame
from groupcomm.wire.bundle import body_payload
from groupcomm.wire.membership import Holding, Join, Past, encode_message
from groupcomm.wire.messages import encode_fragment, encode_messages
from tests.core.wire.packets import CODECS, KEY, example_bundle

_MEMBER: Final = MemberId("#ann#d1", 2**31)
_VIEW: Final = ViewId(2**32, "d1", 2**63)
_DAEMONS: Final = DaemonView(id=_VIEW, daemons=("d1", "größe"), majority=True)
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
        "view_id": frames.encode_view_id(_DAEMONS),
        "delivery": frames.encode_delivery("#ann#d1", 2**31, (2**50, 1, 2), body),
        "ordered": frames.encode_ordered(7, _POSITION, True),
        "transition": frames.encode_transition(),
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


def _membership() -> Iterator[tuple[str, bytes]]:
    holding = Holding(3, ((5, 9), (11, 11)), ((4, 2**40),), 2**40)
    past = Past(KEY, (holding, holding), (0, 2))
    join = Join(
        attempt=4,
        name="d1",
        heard=((7, 8), (9, 2**63)),
        reading=2**50,
        clock=2**50,
        counter=2**50,
        past=past,
    )
    kind, body = encode_message(join)
    yield "wire.membership.message", bytes((kind,)) + body
    yield "membership.flood", b"\2" + bytes((3, 4, 5, 2, 40, 1, 2, 3)) * 2 + bytes(range(200))
    sessions, groups = ((1, "ann"), (2, "größe")), (("g", (2, 1)),)
    (bundle,) = cut_announcement(Announcement(KEY, ((7, 8),), sessions, groups), 1000)
    yield "groups.announcement", body_payload(bundle.body) + b"\0\7"


def _rest() -> Iterator[tuple[str, bytes]]:
    sealer = Sealer(SUITE_NONE, None, cluster=0, sender=1, incarnation=Incarnation(1, 2))
    yield "security.sealing.open", sealer.seal(b"packet")
    yield "security.sealing.sealed", bytes(22) + b"\1packet"
    yield "core.gate.open", b"\0\5body"
    to_client = _frames()
    transition = to_client.pop("transition")
    hello = to_client.pop("hello")
    yield "session.frames.hello", hello[4:]
    for name, frame in to_client.items():
        yield f"session.frames.{name}", frame[4:]
    yield "session.view_frame.view", _group_view()[4:]
    yield "session.frame_reader", b"\x05" + hello + frames.encode_bye()
    told = [frame for name, frame in to_client.items() if name != "closed"]
    yield "session.client", b"".join([*told, _group_view(), transition, to_client["closed"]])
    body = example_bundle().body
    bundle = frames.encode_bundle_head(len(body), ordered=False) + body
    yield "session.daemon", bundle + frames.encode_bye()


SEEDS: Final = dict([*_wire(), *_membership(), *_rest()])
