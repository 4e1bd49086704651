"""Frames: each comes back as it was, in whatever pieces; garbage is only ever BadDatagram."""

import contextlib
import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Position, Stamp, ViewId
from groupcomm.config.view import MAX_DAEMONS, MAX_RINGS
from groupcomm.errors import BadDatagram
from groupcomm.events import (
    CausalContext,
    Cause,
    Closed,
    Connected,
    DaemonStopping,
    DaemonView,
    GroupView,
    MemberId,
    Ordered,
    Undeliverable,
)
from groupcomm.session import daemon_frames, frames
from groupcomm.session.daemon_frames import (
    decode_causes_untrusted,
    decode_principal_untrusted,
    decode_view_untrusted,
    encode_causes,
    encode_principal,
    encode_view,
)
from groupcomm.session.frames import FrameReader

EDGES = [st.integers(edge - 2, edge + 2) for edge in (2**31, 2**32, 2**63)]
U64 = st.one_of(st.integers(0, 2**64 - 1), *EDGES)
U32 = st.integers(0, 2**32 - 1)
U16 = st.integers(0, 2**16 - 1)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)
MEMBERS = st.builds(MemberId, NAMES, U64)
VIEWS = st.builds(ViewId, U64, NAMES, U64)
POSITIONS = st.builds(Position, VIEWS, U64, U16, U16, U32)
DAEMON_VIEWS = st.builds(
    lambda counter, incarnation, daemons, majority: DaemonView(
        id=ViewId(counter, daemons[0], incarnation), daemons=tuple(daemons), majority=majority
    ),
    U64,
    U64,
    st.lists(NAMES, min_size=1, max_size=9),
    st.sampled_from([None, False, True]),
)
CONTEXTS = st.one_of(
    st.builds(
        CausalContext,
        U64,
        st.builds(Stamp, U64, U16),
        st.lists(U64, max_size=MAX_RINGS).map(tuple),
    ),
    st.builds(CausalContext, U64, st.none(), st.just(())),
)
MEMBER_LISTS = st.lists(MEMBERS, max_size=4).map(tuple)
GROUP_VIEWS = st.builds(
    GroupView,
    group=NAMES,
    id=POSITIONS,
    members=MEMBER_LISTS,
    cause=st.sampled_from(Cause),
    changed=MEMBER_LISTS,
    vs_set=MEMBER_LISTS,
    own=st.booleans(),
)


def only_frame(data: bytes) -> bytes:
    (frame,) = FrameReader(frames.DAEMON_FRAME_BYTES).feed(data)
    return frame


@given(user=NAMES, capabilities=U32, token=st.just("") | NAMES)
def test_hello_comes_back(user: str, capabilities: int, token: str) -> None:
    frame = only_frame(frames.encode_hello(user, capabilities, token))
    assert frames.decode_hello_untrusted(frame) == (1, capabilities, user, token)


def test_a_hello_with_an_empty_token_is_refused() -> None:
    with pytest.raises(BadDatagram, match="token"):
        frames.decode_hello_untrusted(only_frame(frames.encode_hello("ann")) + b"\0")


def test_a_hello_of_another_version_may_look_otherwise_behind_it() -> None:
    frame = bytearray(only_frame(frames.encode_hello("ann")))
    frame[1] = 2
    assert frames.decode_hello_untrusted(bytes(frame) + b"more") == (2, 0, "", "")


@given(member=MEMBERS, limit=st.integers(frames.MIN_BUNDLE_LIMIT, 2**32 - 1))
def test_welcome_comes_back(member: MemberId, limit: int) -> None:
    frame = only_frame(daemon_frames.encode_welcome(member, limit))
    expected = Connected(member=member, bundle_limit=limit)
    assert daemon_frames.decode_welcome_untrusted(frame) == expected


def test_a_welcome_with_too_small_a_limit_is_refused() -> None:
    frame = only_frame(
        daemon_frames.encode_welcome(MemberId("#a#b", 1), frames.MIN_BUNDLE_LIMIT - 1)
    )
    with pytest.raises(BadDatagram, match="bundles of 299 bytes"):
        daemon_frames.decode_welcome_untrusted(frame)


@given(view=DAEMON_VIEWS)
def test_a_view_of_daemons_comes_back_and_is_named_by_its_first(view: DaemonView) -> None:
    assert (
        daemon_frames.decode_view_id_untrusted(only_frame(daemon_frames.encode_view_id(view)))
        == view
    )


@given(within_ms=U32, addresses=st.lists(NAMES, max_size=5).map(tuple))
def test_a_notice_that_the_daemon_stops_comes_back(
    within_ms: int, addresses: tuple[str, ...]
) -> None:
    notice = DaemonStopping(within_s=within_ms / 1000, addresses=addresses)
    frame = only_frame(daemon_frames.encode_stopping(notice))
    assert daemon_frames.decode_stopping_untrusted(frame) == notice


def test_a_view_of_as_many_daemons_as_there_may_be_comes_back() -> None:
    names = tuple(f"{number:0255}" for number in range(MAX_DAEMONS))
    view = DaemonView(id=ViewId(1, names[0], 2), daemons=names, majority=None)
    assert (
        daemon_frames.decode_view_id_untrusted(only_frame(daemon_frames.encode_view_id(view)))
        == view
    )


def test_a_view_without_daemons_or_with_another_majority_is_refused() -> None:
    head = daemon_frames.encode_view_id(SOME_DAEMONS)[4:21]
    for majority, rest in ((0, b"\0\0"), (5, b"\0\1\1a"), (1, b"\xff\xff\1a")):
        with pytest.raises(BadDatagram):
            daemon_frames.decode_view_id_untrusted(head + bytes((majority,)) + rest)


@given(context=CONTEXTS)
def test_causes_come_back(context: CausalContext) -> None:
    assert decode_causes_untrusted(only_frame(encode_causes(context))) == context


def test_causes_that_are_reported_only_in_part_are_refused() -> None:
    frame = bytearray(only_frame(encode_causes(CausalContext(7, Stamp(8, 1), (9, 10)))))
    for told in (0, 2):
        frame[9] = told
        with pytest.raises(BadDatagram, match=f"told is {told}"):
            decode_causes_untrusted(bytes(frame))


def test_an_ordered_frame_says_yes_or_no() -> None:
    frame = only_frame(daemon_frames.encode_ordered(1, SOME_POSITION, True))
    with pytest.raises(BadDatagram):
        daemon_frames.decode_ordered_untrusted(frame[:-1] + b"\2", SOME_VIEW)


def test_a_transition_is_its_kind_alone() -> None:
    assert only_frame(daemon_frames.encode_transition()) == bytes((frames.FrameKind.TRANSITION,))


@given(
    sender=MEMBERS,
    parts=st.one_of(st.none(), st.tuples(U64, U16, U16)),
    body=st.binary(max_size=50),
)
def test_a_delivery_comes_back(
    sender: MemberId, parts: daemon_frames.Parts | None, body: bytes
) -> None:
    data = daemon_frames.encode_delivery(sender.name, sender.connection, parts, body)
    decoded = daemon_frames.decode_delivery_untrusted(only_frame(b"".join(data)))
    assert decoded == (sender, parts, memoryview(body))


def test_the_cache_of_senders_is_bounded() -> None:
    for number in range(daemon_frames._CACHED_SENDERS + 5):
        data = daemon_frames.encode_delivery("#a#d", number, None, b"")
        assert daemon_frames.decode_delivery_untrusted(only_frame(b"".join(data)))[0] == MemberId(
            "#a#d", number
        )
    assert 0 < len(daemon_frames._senders_cache) <= daemon_frames._CACHED_SENDERS


@given(view=GROUP_VIEWS)
def test_a_group_view_comes_back(view: GroupView) -> None:
    assert decode_view_untrusted(only_frame(encode_view(view)), view.id.view) == view


@given(number=U64, position=POSITIONS, target=NAMES, late=st.booleans())
def test_fates_of_messages_come_back(
    number: int, position: Position, target: str, late: bool
) -> None:
    frame = only_frame(daemon_frames.encode_ordered(number, position, late))
    ordered = Ordered(number=number, position=position, transitional=late)
    assert daemon_frames.decode_ordered_untrusted(frame, position.view) == ordered
    frame = only_frame(daemon_frames.encode_undeliverable(number, target, position))
    lost = Undeliverable(number=number, target=target, position=position)
    assert daemon_frames.decode_undeliverable_untrusted(frame, position.view) == lost


@given(sender=MEMBERS, number=U64, code=st.integers(-(2**31), 2**31 - 1), reason=st.text())
def test_abort_and_closed_come_back(sender: MemberId, number: int, code: int, reason: str) -> None:
    frame = only_frame(daemon_frames.encode_abort(sender, number))
    assert daemon_frames.decode_abort_untrusted(frame) == (sender, number)
    told = daemon_frames.decode_closed_untrusted(
        only_frame(daemon_frames.encode_closed(code, reason))
    )
    assert told == Closed(code=code, reason=reason.encode(errors="replace").decode())


SOME_VIEW = ViewId(1, "d", 2)
SOME_DAEMONS = DaemonView(id=SOME_VIEW, daemons=("d", "e"), majority=True)
SOME_POSITION = Position(SOME_VIEW, 1, 2, 3, 4)
MEMBER = MemberId("#a#d", 1)
NOTICE = DaemonStopping(within_s=1.5, addresses=("tls://10.0.0.2:4804", "tls://[::1]:1"))
GROUP_VIEW = GroupView(
    group="g",
    id=SOME_POSITION,
    members=(MEMBER, MemberId("#b#d", 2)),
    cause=Cause.JOIN,
    changed=(MEMBER,),
    vs_set=(),
    own=True,
)
DECODERS: list[tuple[bytes, Callable[[bytes], object]]] = [
    (frames.encode_hello("ann"), frames.decode_hello_untrusted),
    (daemon_frames.encode_welcome(MEMBER, 1000), daemon_frames.decode_welcome_untrusted),
    (daemon_frames.encode_view_id(SOME_DAEMONS), daemon_frames.decode_view_id_untrusted),
    (
        daemon_frames.encode_ordered(1, SOME_POSITION),
        lambda frame: daemon_frames.decode_ordered_untrusted(frame, SOME_VIEW),
    ),
    (
        daemon_frames.encode_undeliverable(1, "#a#d", SOME_POSITION),
        lambda frame: daemon_frames.decode_undeliverable_untrusted(frame, SOME_VIEW),
    ),
    (daemon_frames.encode_abort(MEMBER, 1), daemon_frames.decode_abort_untrusted),
    (encode_causes(CausalContext(7, Stamp(8, 1), (9, 10))), decode_causes_untrusted),
    (encode_principal("unix:ann"), decode_principal_untrusted),
    (daemon_frames.encode_stopping(NOTICE), daemon_frames.decode_stopping_untrusted),
    (encode_view(GROUP_VIEW), lambda frame: decode_view_untrusted(frame, SOME_VIEW)),
]


@pytest.mark.parametrize(("data", "decode"), DECODERS)
def test_a_frame_cut_or_lengthened_is_refused(
    data: bytes, decode: Callable[[bytes], object]
) -> None:
    frame = data[4:]
    for size in range(1, len(frame)):
        with pytest.raises(BadDatagram):
            decode(frame[:size])
    with pytest.raises(BadDatagram):
        decode(frame + b"\0")


@given(data=st.data(), rest=st.binary(max_size=60))
def test_any_bytes_decode_or_are_bad(data: st.DataObject, rest: bytes) -> None:
    example, decode = data.draw(st.sampled_from(DECODERS))
    with contextlib.suppress(BadDatagram):
        decode(example[4:5] + rest)
    changed = bytearray(example[4:])
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadDatagram):
        decode(bytes(changed))


@given(head=st.binary(min_size=1, max_size=60))
def test_any_bytes_are_a_delivery_or_bad(head: bytes) -> None:
    with contextlib.suppress(BadDatagram):
        daemon_frames.decode_delivery_untrusted(head)
    with contextlib.suppress(BadDatagram):
        daemon_frames.decode_closed_untrusted(head)


def test_a_long_list_of_members_that_is_not_there_allocates_nothing() -> None:
    frame = bytearray(encode_view(GROUP_VIEW)[4:])
    count = frame.index(b"\0\0\0\2")
    frame[count : count + 4] = b"\xff\xff\xff\xff"
    with pytest.raises(BadDatagram, match="a list of 4294967295 members"):
        decode_view_untrusted(bytes(frame), SOME_VIEW)


# ---- the reader ----


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@given(
    bodies=st.lists(st.binary(min_size=1, max_size=30), max_size=8),
    cuts=st.lists(st.integers(0, 280), max_size=8),
)
def test_frames_come_whole_from_any_pieces(bodies: list[bytes], cuts: list[int]) -> None:
    stream = framed(*bodies)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    reader = FrameReader(30)
    got: list[bytes] = []
    for start, end in itertools.pairwise(edges):
        got += reader.feed(stream[start:end])
    assert got == bodies


def test_frames_come_whole_byte_by_byte() -> None:
    reader = FrameReader(1000)
    stream = framed(b"a", b"b" * 1000, b"c")
    got = [frame for byte in stream for frame in reader.feed(bytes((byte,)))]
    assert got == [b"a", b"b" * 1000, b"c"]


@pytest.mark.parametrize("length", [0, 31, 2**32 - 1])
def test_a_bad_length_is_refused_after_the_good_frames_before_it(length: int) -> None:
    reader = FrameReader(30)
    feed = reader.feed(framed(b"good") + length.to_bytes(4, "big"))
    assert next(feed) == b"good"
    with pytest.raises(BadDatagram, match=f"a frame of {length} bytes"):
        next(feed)
