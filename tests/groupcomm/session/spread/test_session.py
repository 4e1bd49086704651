"""The translation of a session, without a daemon: each side's bytes, as the other one has them."""

import itertools
from collections import deque
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.engine.held_changes import RUN_CHANGES
from groupcomm.errors import BadDatagram
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Refused
from groupcomm.level import ServiceLevel
from groupcomm.session.bundler import Bundler
from groupcomm.session.daemon_frames import (
    decode_origins_untrusted,
    encode_closed,
    encode_delivery,
    encode_origins,
    encode_refused,
    encode_transition,
    encode_view,
    encode_view_id,
    encode_welcome,
)
from groupcomm.session.differences import ChangeRun, Difference, encode_difference, place_of
from groupcomm.session.frames import (
    MIN_BUNDLE_LIMIT,
    Capability,
    FrameReader,
    decode_hello_untrusted,
)
from groupcomm.session.requests import NOTHING, TRANSLATED_WORK, Price, total
from groupcomm.session.spread import layout, views
from groupcomm.session.spread import session as module
from groupcomm.session.spread.handshake import Handshake
from groupcomm.session.spread.layout import (
    HEAD_BYTES,
    Head,
    decode_head_untrusted,
    encode_head,
    encode_names,
)
from groupcomm.session.spread.session import (
    PIECE_BYTES,
    PIECE_PARTS,
    READ_WASTE,
    READ_WORK,
    SpreadSession,
)
from groupcomm.session.spread.views import SharedChanges
from groupcomm.wire.bundle import (
    SELF_DISCARD,
    Bundle,
    BundleKind,
    body_payload,
    decode_body_untrusted,
)
from groupcomm.wire.messages import decode_messages_untrusted
from groupcomm.wire.packet import Raw

ANN, BEN, CAT = MemberId("#ann#a", 1), MemberId("#ben#b", 2), MemberId("#cat#c", 3)
VIEW = ViewId(7, "a", 1)
DAEMONS = DaemonView(id=VIEW, daemons=("a", "b", "c"), majority=True)


def opened(limit: int = 1300, shared: SharedChanges | None = None) -> SpreadSession:
    """A session of ann, admitted."""
    handshake = Handshake()
    handshake.receive_untrusted(b"\x04\x04\x00\x01\x03ann")
    handshake.receive_untrusted(b"NULL".ljust(90, b"\0"))
    session = SpreadSession(handshake, "ann", shared)
    assert session.translate(encode_welcome(ANN, limit)) == b"\x01\x05\x00\x01\x06#ann#a"
    assert session.translate(encode_view_id(DAEMONS)) == b""
    return session


def request(kind: int, groups: list[bytes], data: bytes = b"", *, tag: int = 0) -> bytes:
    """A message of ann, little-endian."""
    head = encode_head(Head(kind, b"#ann#a", len(groups), tag, False, len(data)))
    return head + encode_names(groups) + data


def bundles(frames: bytes) -> list[Bundle]:
    """Return the frames as a daemon has them."""
    reader = FrameReader(2**20)
    return [decode_body_untrusted(frame[2:]) for frame in reader.feed(frames) if frame[0] == 2]


def group_view(cause: Cause, members: list[MemberId], **more: object) -> GroupView:
    """A view of the group room."""
    values: dict[str, object] = {
        "group": "room",
        "id": Position(VIEW, 5, 0, 0, 0),
        "members": tuple(members),
        "cause": cause,
        "changed": (),
        "vs_set": (),
        "own": False,
    }
    return GroupView(**{**values, **more})  # type: ignore[arg-type]  # names as above


@given(cuts=st.lists(st.integers(1, 300), max_size=6))
def test_requests_may_come_in_any_pieces(cuts: list[int]) -> None:
    session, whole = (
        opened(),
        b"".join(
            (request(layout.JOIN, [b"room"]), request(16, [b"room", b"#ben#b"], b"hello", tag=7))
        ),
    )
    bounds = [0, *sorted({cut for cut in cuts if cut < len(whole)}), len(whole)]
    frames = [session.receive_untrusted(whole[a:b]) for a, b in itertools.pairwise(bounds)]
    join, message = bundles(b"".join(frames))
    assert (join.kind, join.groups, join.message) == (BundleKind.JOIN, ("room",), 1)
    assert (message.groups, message.message) == (("room", "#ben#b"), 2)


def asked(session: SpreadSession, pieces: list[bytes]) -> tuple[list[object], Price]:
    """Return what a client asks for, message by message, and what reading that costs."""
    found: list[object] = []
    spent = NOTHING
    for piece in pieces:
        frames = session.receive_untrusted(piece)
        while session.ahead:
            spent = total(spent, session.pop_spent())
            frames += session.receive_untrusted(b"")
        for bundle in bundles(frames):
            how = bundle.kind, bundle.level, bundle.flags, bundle.groups
            payload = bytes(body_payload(bundle.body))
            if bundle.kind == BundleKind.MESSAGES:
                each = zip(*decode_messages_untrusted(payload, bundle.count), strict=True)
                found += [(bundle.message + n, how, one) for n, one in enumerate(each)]
            else:
                found.append((bundle.message, how, bundle.index, bundle.count, payload))
    return found, total(spent, session.pop_spent())


SOME = [
    request(16, [b"room"], b"hello", tag=7),
    request(16, [b"room"], b"HELLO", tag=7),
    request(16, [b"room"], b"hello", tag=8),
    request(16, [b"room"], b"longer", tag=7),
    request(16, [b"room"], b"", tag=7),
    request(16, [b"room"], bytes(3000), tag=7),
    request(16 | layout.SELF_DISCARD, [b"room"], b"hello", tag=7),
    request(32, [b"room"], b"hello", tag=7),
    request(16, [b"hall"], b"hello", tag=7),
    request(16, [b"room", b"#", b"hall"], b"hello", tag=7),
    request(16, [b"#"], b"hello", tag=7),
    request(layout.JOIN, [b"room"]),
    request(layout.LEAVE, [b"room"]),
]


@given(
    runs=st.lists(st.tuples(st.sampled_from(SOME), st.integers(1, 5)), max_size=8),
    cuts=st.lists(st.integers(1, 9000), max_size=4),
)
def test_requests_in_a_row_are_what_each_is_by_itself(
    runs: list[tuple[bytes, int]], cuts: list[int]
) -> None:
    requests = [one for one, times in runs for _ in range(times)]
    whole = b"".join(requests)
    bounds = [0, *sorted({cut for cut in cuts if cut < len(whole)}), len(whole)]
    row, alone = opened(), opened()
    assert asked(row, [whole[a:b] for a, b in itertools.pairwise(bounds)]) == asked(alone, requests)
    assert row.read == alone.read == len(requests)
    assert row.held_bytes == 0


def test_equal_messages_in_a_row_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one they would cost ten times as much."""
    heads: list[bytes] = []

    def decode(raw: bytes) -> Head:
        heads.append(raw)
        return decode_head_untrusted(raw)

    monkeypatch.setattr(module, "decode_head_untrusted", decode)
    found, _ = asked(opened(), [SOME[0] * 50])
    assert (len(found), len(heads)) == (50, 1)


@pytest.mark.parametrize(
    ("service", "level"),
    [
        (1, ServiceLevel.UNRELIABLE),
        (2, ServiceLevel.FIFO),
        (4, ServiceLevel.AGREED),
        (8, ServiceLevel.AGREED),
        (16, ServiceLevel.AGREED),
        (32, ServiceLevel.SAFE),
    ],
)
def test_a_service_is_sent_at_its_level_and_reported_unchanged(
    service: int, level: ServiceLevel
) -> None:
    session = opened()
    (bundle,) = bundles(session.receive_untrusted(request(service | 0x40, [b"room"], b"x", tag=9)))
    assert (bundle.level, bundle.flags & SELF_DISCARD) == (level, SELF_DISCARD)
    frame = b"".join(encode_delivery("#ben#b", 2, (1, 0, 0), bundle.body))
    told = session.translate(frame)
    head = decode_head_untrusted(told[:48])
    assert head == Head(service | 0x40, b"#ben#b", 1, 9, False, 1)
    assert told[48:] == encode_names([b"room"]) + b"x"


def passed_on(session: SpreadSession, sent: bytes) -> list[Head]:
    """Return the heads with which a client's messages reach another client of Spread."""
    told = [
        session.translate(b"".join(encode_delivery("#ben#b", 2, (1, 0, at), bundle.body)))
        for at, bundle in enumerate(bundles(session.receive_untrusted(sent)))
    ]
    return [decode_head_untrusted(one[:HEAD_BYTES]) for one in told if one]


@pytest.mark.parametrize("more", [0x200, 0x1000, 0x80000, 0x400000, 0x1000000])
def test_bits_that_are_no_service_are_left_out(more: int) -> None:
    (head,) = passed_on(opened(), request(16 | 0x40 | more, [b"room"], b"x"))
    assert head.type == 16 | 0x40


@pytest.mark.parametrize("marks", [1, 2, 4, 7])
@pytest.mark.parametrize("service", [1, 2, 4, 8, 16, 32])
def test_marks_for_receivers_arrive_as_the_sender_has_set_them(service: int, marks: int) -> None:
    """The flush layer marks messages to a part of a group so, and appends the group's name."""
    type_ = service | 0x40 | marks << 28
    for groups in ([b"#ben#b"], [b"#%010d#%019d" % (user, user) for user in range(100)]):
        heads = passed_on(opened(), request(type_, groups, b"x", tag=3))
        assert {(head.type, head.tag) for head in heads} == {(type_, 3)}
        assert sum(head.groups for head in heads) == len(groups), "nobody is left out"


@pytest.mark.parametrize(
    "wrong",
    [
        request(16 | 32, [b"room"]),
        request(layout.JOIN | layout.LEAVE, [b"room"]),
        request(0, [b"room"]),
        request(layout.REG_MEMB, [b"room"]),
        request(layout.REJECT, [b"room"]),
        request(16, [b"g"] * 101),
        request(16, [b"g"], bytes(144_000 - 31)),
        request(16, [b"g"]).replace(b"#ann#a", b"#ben#b"),
        encode_head(Head(16, b"#ann#a", 1, 0, False, 2**31 - 1)),
    ],
)
def test_what_breaks_the_protocol_ends_the_session(wrong: bytes) -> None:
    session = opened()
    with pytest.raises(BadDatagram):
        session.receive_untrusted(wrong)


def test_nothing_may_come_before_the_answer() -> None:
    session = SpreadSession(Handshake(), "ann")
    with pytest.raises(BadDatagram):
        session.receive_untrusted(b"x")


def test_nothing_counts_behind_a_goodbye() -> None:
    session = opened()
    said = request(layout.KILL, [b"#ann#a"]) + request(16, [b"room"], b"late")
    frames = session.receive_untrusted(said)
    assert bundles(frames) == []
    assert frames == b"\0\0\0\x01\x03"
    assert session.receive_untrusted(request(16, [b"room"])) == b""


def test_a_network_view_has_a_set_for_each_view_that_daemons_came_from() -> None:
    session = opened()
    session.translate(encode_origins({"a": 0, "b": 1, "c": 1}))
    view = group_view(Cause.NETWORK, [CAT, ANN, BEN], vs_set=(ANN,))
    told = session.translate(encode_view(view))
    head = decode_head_untrusted(told[:48])
    assert head == Head(0x1800, b"room", 3, 0, False, head.size)
    names = [member.name.encode() for member in (ANN, BEN, CAT)]
    assert told[48:144] == encode_names(names)
    sets = b"\1\0\0\0" + encode_names(names[:1]) + b"\2\0\0\0" + encode_names(names[1:])
    assert told[156:] == b"\2\0\0\0" + b"\0\0\0\0" + sets
    transition = session.translate(encode_origins({"a": 0}) + encode_transition())
    assert decode_head_untrusted(transition[:48]) == Head(0x2000, b"room", 0, 0, False, 12)
    assert transition[48:] == told[144:156]


def test_group_ids_tell_views_apart_and_have_the_view_of_daemons_in_front() -> None:
    later = ViewId(8, "a", 1)
    places = [
        Position(view, time, ring, 0, 0)
        for view in (VIEW, later)
        for time in (5, 6)
        for ring in (0, 1)
    ]
    ids = {(group, at): views.group_id(group, at) for group in ("room", "hall") for at in places}
    assert len(set(ids.values())) == len(ids)
    assert {len(one) for one in ids.values()} == {12}
    for view in (VIEW, later):
        assert len({one[:8] for (_, at), one in ids.items() if at.view == view}) == 1
    assert len({one[:4] for one in ids.values()}) == 2
    times = {at.view: int.from_bytes(one[4:8], "little") for (_, at), one in ids.items()}
    assert times == {VIEW: VIEW.counter, later: later.counter}


def test_the_offset_leads_to_the_clients_own_set() -> None:
    session = opened()
    session.translate(encode_origins({"a": 0, "b": 1, "c": 0}))
    other = MemberId("#aaa#0", 9)
    view = group_view(Cause.NETWORK, [ANN, BEN, CAT, other], vs_set=(ANN, CAT))
    data = session.translate(encode_view(view))[48 + 4 * 32 :]
    offset = int.from_bytes(data[16:20], "little")
    own = data[20 + offset :]
    assert own[:4] == b"\2\0\0\0"
    assert own[4:68] == encode_names([b"#ann#a", b"#cat#c"])


def test_who_may_not_see_members_does_not_learn_that_others_come_and_go() -> None:
    session = opened()
    assert session.translate(encode_view(group_view(Cause.JOIN, [ANN], changed=(ANN,))))
    for cause in (Cause.JOIN, Cause.LEAVE, Cause.DISCONNECT):
        assert session.translate(encode_view(group_view(cause, [ANN]))) == b""
    session.translate(encode_origins({"a": 0}) + encode_transition())
    assert session.translate(encode_view(group_view(Cause.NETWORK, [ANN], vs_set=(ANN,)))) == b""


def types(told: bytes) -> list[tuple[int, bytes]]:
    """Return the type and the group of each message in what a client is told."""
    found = []
    while told:
        head = decode_head_untrusted(told[:48])
        found.append((head.type, head.name))
        told = told[48 + head.rest :]
    return found


def test_a_group_that_nobody_is_lost_to_gets_no_change_of_daemons() -> None:
    session = opened()
    for group, members in (("room", [ANN, BEN]), ("hall", [ANN, CAT])):
        view = group_view(Cause.JOIN, members, group=group, changed=(ANN,))
        session.translate(encode_view(view))
    together = encode_origins({"a": 0, "b": 0})  # c came from another view
    told = session.translate(together + encode_transition())
    assert types(told) == [(layout.TRANSITION, b"hall")]
    told = session.translate(
        encode_view_id(DAEMONS)
        + together
        + encode_view(group_view(Cause.NETWORK, [ANN], group="hall", vs_set=(ANN,)))
        + encode_view(group_view(Cause.NETWORK, [ANN, BEN], vs_set=(ANN, BEN)))
    )
    assert types(told) == [(0x1800, b"hall")]


def test_a_group_learns_who_has_come_and_who_came_from_elsewhere() -> None:
    session = opened()
    session.translate(encode_view(group_view(Cause.JOIN, [ANN, BEN], changed=(ANN,))))
    everybody = encode_origins({"a": 0, "b": 0})
    assert session.translate(everybody + encode_transition()) == b""
    view = group_view(Cause.NETWORK, [ANN, BEN, CAT], vs_set=(ANN, BEN))
    assert types(session.translate(encode_view(view))) == [(0x1800, b"room")]
    view = group_view(Cause.NETWORK, [ANN, BEN, CAT], vs_set=(ANN, CAT))  # ben was lost meanwhile
    told = [(layout.TRANSITION, b"room"), (0x1800, b"room")]
    assert types(session.translate(encode_view(view))) == told


def test_a_group_that_loses_a_member_has_another_view_even_if_that_one_is_back() -> None:
    session = opened()
    session.translate(encode_view(group_view(Cause.JOIN, [ANN, BEN], changed=(ANN,))))
    told = session.translate(encode_origins({"a": 0}) + encode_transition())
    assert types(told) == [(layout.TRANSITION, b"room")]
    view = encode_view(group_view(Cause.NETWORK, [ANN, BEN], vs_set=(ANN, BEN)))
    assert types(session.translate(view)) == [(0x1800, b"room")]
    assert session.translate(view) == b""


@pytest.mark.parametrize("whole", [True, False], ids=["view", "difference"])
@pytest.mark.parametrize("joiner", [BEN, CAT])
def test_a_member_that_joins_last_and_will_be_lost_is_announced(
    joiner: MemberId, whole: bool
) -> None:
    session = opened()
    before = group_view(Cause.JOIN, [ANN], changed=(ANN,))
    session.translate(encode_view(before))
    together = encode_origins({"a": 0, "b": 0})
    assert session.translate(together + encode_transition()) == b""
    at = Position(VIEW, 6, 0, 0, 0)
    frame = encode_view(group_view(Cause.JOIN, [ANN, joiner], changed=(joiner,), id=at))
    if not whole:
        frame = encode_difference(
            Difference(
                group="room",
                id=at,
                before=place_of(before.id),
                cause=Cause.JOIN,
                size=2,
                members=(joiner,),
            )
        )
    joined = layout.REG_MEMB | layout.CAUSED_BY_JOIN
    told = [(joined, b"room"), (layout.TRANSITION, b"room")][: 1 + (joiner is CAT)]
    assert types(session.translate(frame)) == told
    stay = [ANN] if joiner is CAT else [ANN, BEN]
    after = encode_view(group_view(Cause.NETWORK, stay, vs_set=tuple(stay)))
    told_after = types(session.translate(encode_view_id(DAEMONS) + together + after))
    assert told_after == ([(0x1800, b"room")] if joiner is CAT else [])


def test_a_loss_of_daemons_that_part_after_all_is_announced_before_the_view_without_them() -> None:
    session = opened()
    session.translate(encode_view(group_view(Cause.JOIN, [ANN, BEN], changed=(ANN,))))
    together = encode_origins({"a": 0, "b": 0})
    assert session.translate(together + encode_transition()) == b""
    after = encode_view(group_view(Cause.NETWORK, [ANN], vs_set=(ANN,)))
    told = session.translate(encode_view_id(DAEMONS) + encode_origins({"a": 0}) + after)
    assert types(told) == [(layout.TRANSITION, b"room"), (0x1800, b"room")]


def test_who_joins_last_learns_of_members_that_will_be_lost() -> None:
    session = opened()
    session.translate(encode_origins({"a": 0, "b": 0}) + encode_transition())
    told = session.translate(encode_view(group_view(Cause.JOIN, [CAT, ANN], changed=(ANN,))))
    assert types(told) == [(0x1100, b"room"), (layout.TRANSITION, b"room")]


def test_a_refusal_comes_back_as_a_rejected_message() -> None:
    session = opened()
    session.receive_untrusted(request(layout.JOIN, [b"room"]))
    for verb, old in (("join", layout.CAUSED_BY_JOIN), ("send", layout.SAFE)):
        refused = Refused(
            number=1,
            count=1,
            verb=verb,
            group="room",
            principal="spread:ann",
            level=ServiceLevel.SAFE,
        )
        told = session.translate(encode_refused(refused))
        assert decode_head_untrusted(told[:48]) == Head(layout.REJECT, b"#ann#a", 2, 0, False, 0)
        assert told[48:] == old.to_bytes(4, "little") + encode_names([b"room", b"#ann#a"])
    assert bundles(session.receive_untrusted(request(layout.JOIN, [b"room"])))  # it may retry


def test_an_end_before_the_answer_is_reported_as_its_code() -> None:
    handshake = Handshake()
    session = SpreadSession(handshake, "ann")
    assert session.translate(encode_closed(-6, "in use")) == b"\xfa"
    assert session.ended


def test_bundles_that_do_not_decode_are_dropped_and_counted() -> None:
    session = opened()
    (bundle,) = bundles(session.receive_untrusted(request(16, [b"room"], b"x")))
    broken = bytes(bundle.body[:-1])
    assert session.translate(b"".join(encode_delivery("#ben#b", 2, (1, 0, 0), broken))) == b""
    assert session.malformed == 1


def parts_of(sender: MemberId, number: int, size: int) -> list[bytes]:
    """Return the frames with which a message of ours reaches a client, in parts."""
    bundler = Bundler()
    bundler.bundle_limit = 1300
    bundler.add_message(number, 5, b"x" * size, ("room",), ServiceLevel.FIFO, 0, False)
    return [
        b"".join(encode_delivery(sender.name, sender.connection, (number, 0, at), part.body))
        for at, part in enumerate(bundles(bundler.pop(2**30)))
    ]


def sizes(told: bytes) -> list[int]:
    """Return the sizes of the messages that a client gets."""
    found = []
    while told:
        head = decode_head_untrusted(told[:HEAD_BYTES])
        found.append(head.size)
        told = told[HEAD_BYTES + head.rest :]
    return found


def test_a_message_that_is_too_large_is_skipped_and_the_session_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HELD_BYTES", 20_000)
    session = opened()
    mixed = itertools.zip_longest(parts_of(BEN, 1, 100_000), parts_of(CAT, 1, 5000), fillvalue=b"")
    told = b"".join(session.translate(frame) for pair in mixed for frame in pair if frame)
    assert sizes(told) == [5000]
    assert (session.skipped, session.skipped_from) == (1, BEN)
    assert session._reassembly.held_bytes == 0
    for number in range(2, 5):
        told = b"".join(map(session.translate, parts_of(BEN, number, 10_000)))
        assert sizes(told) == [10_000]
    pair = zip(parts_of(BEN, 9, 12_000), parts_of(CAT, 9, 12_000), strict=True)
    told = b"".join(session.translate(frame) for both in pair for frame in both)
    assert sizes(told) == [12_000], "together they are too large, and one is not"
    assert session.skipped == 2
    assert not session.ended


def test_what_was_skipped_is_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_BYTES", 1000)
    session = opened()
    for number in range(1, 3 * module._MOST_SKIPPED):
        session.translate(parts_of(BEN, number, 3000)[0])
    assert session.skipped > 2 * module._MOST_SKIPPED
    assert len(session._skipped) <= module._MOST_SKIPPED


@pytest.mark.parametrize("limit", [MIN_BUNDLE_LIMIT, 1192, 29_862])
@pytest.mark.parametrize(("count", "size"), [(43, 1), (43, 100_000), (100, 140_000)])
def test_a_message_to_many_groups_has_one_place_in_the_order_for_all(
    limit: int, count: int, size: int
) -> None:
    """The limits are the least one, and those in clusters with several sites and with one."""
    groups = [b"%031d" % number for number in range(count)]
    names = [group.decode() for group in groups]
    sent = bundles(opened(limit).receive_untrusted(request(16, groups, bytes(size))))
    assert {(bundle.message, bundle.groups) for bundle in sent} == {(1, tuple(names))}
    (head,) = passed_on(opened(limit), request(16, groups, bytes(size)))
    assert (head.groups, head.size) == (count, size)


@pytest.mark.parametrize(
    "frame", [b"", b"\x1d\0\1", b"\x1d\0\1\1a\0", b"\x1d\0\1\1\xff\0\0", b"\x1d\0\0x"]
)
def test_an_origins_frame_that_breaks_its_layout_is_refused(frame: bytes) -> None:
    with pytest.raises(BadDatagram):
        decode_origins_untrusted(frame)


@given(origins=st.dictionaries(st.text("abc", max_size=5), st.integers(0, 65535), max_size=5))
def test_an_origins_frame_comes_back_as_it_was(origins: dict[str, int]) -> None:
    assert decode_origins_untrusted(encode_origins(origins)[4:]) == origins


VOID = {
    "to nobody": request(16, []),
    "to names that nobody can have": request(16, [b"\xff", b"#"]),
    "a leave of a group that it is not in": request(layout.LEAVE, [b"room"]),
    "a join of no group": request(layout.JOIN, []),
}


@pytest.mark.parametrize("void", VOID)
def test_what_asks_for_nothing_is_charged_as_a_message_that_is_wasted(void: str) -> None:
    session, raw = opened(), VOID[void]
    assert session.receive_untrusted(raw * 3) == b""
    spent = session.pop_spent()
    assert (spent.messages, spent.size) == (3, 3 * len(raw))
    assert spent.wasted == spent.work > 0
    assert session.pop_spent() is NOTHING


def test_a_message_is_charged_by_its_frame_and_its_translation_as_work() -> None:
    session = opened()
    session.receive_untrusted(request(16, [b"room"], b"x"))
    assert session.pop_spent() == (TRANSLATED_WORK, 0, 0, 0, 0)
    session.receive_untrusted(request(16, [b"g"] * 100, bytes(100_000)))
    assert session.pop_spent().work > TRANSLATED_WORK + 20


@pytest.mark.parametrize("raw", [request(16, []), request(16, [b"room"], b"x")])
def test_a_read_does_so_much_work_and_leaves_the_rest(raw: bytes) -> None:
    session, count = opened(), 3 * READ_WORK
    session.receive_untrusted(raw * count)
    reads, work = 1, session.pop_spent().work
    while session.ahead:
        session.receive_untrusted(b"")
        spent = session.pop_spent()
        assert spent.work <= READ_WORK
        assert spent.wasted <= READ_WASTE
        reads, work = reads + 1, work + spent.work
    assert work == count * TRANSLATED_WORK
    assert reads >= count * TRANSLATED_WORK // READ_WORK
    assert (session.held_bytes, session.read) == (0, count)


@pytest.mark.parametrize(("flags", "wants"), [(b"\x01", True), (b"\x00", False)])
def test_who_wants_no_membership_messages_asks_the_daemon_for_none(
    flags: bytes, wants: bool
) -> None:
    handshake = Handshake()
    handshake.receive_untrusted(b"\x04\x04\x00" + flags + b"\x03ann")
    handshake.receive_untrusted(b"NULL".ljust(90, b"\0"))
    (hello,) = FrameReader(2**20).feed(SpreadSession(handshake, "ann").hello())
    asked = Capability(decode_hello_untrusted(hello).capabilities)
    assert (Capability.NO_VIEWS in asked) != wants
    assert (Capability.ORIGINS in asked) == wants
    assert Capability.DIFFERENCES in asked


def test_a_difference_becomes_the_same_message_as_the_whole_view() -> None:
    """Spread's programs get whole lists in any case."""
    before = group_view(Cause.JOIN, [CAT, ANN], changed=(ANN,), vs_set=(ANN,), own=True)
    after = group_view(Cause.JOIN, [CAT, ANN, BEN], changed=(BEN,), vs_set=(CAT, ANN))
    after = msgspec.structs.replace(after, id=Position(VIEW, 6, 0, 0, 0))
    change = Difference(
        group="room",
        id=after.id,
        before=place_of(before.id),
        cause=Cause.JOIN,
        size=3,
        members=(BEN,),
    )
    told = []
    for frame in (encode_view(after), encode_difference(change)):
        session = opened()
        session.translate(encode_view(before))
        told.append(session.translate(frame))
    assert told[0] == told[1] != b""
    with pytest.raises(BadDatagram, match="difference"):
        session.translate(encode_difference(change))


def joins(count: int) -> list[Difference]:
    """Joins of a group of ann, each after the one before."""
    at = [Position(VIEW, 5 + number, 0, 0, 0) for number in range(count + 1)]
    return [
        Difference(
            group="room",
            id=at[number + 1],
            before=place_of(at[number]),
            cause=Cause.JOIN,
            size=number + 2,
            members=(MemberId(f"#user{number}#b", number + 2),),
        )
        for number in range(count)
    ]


def in_the_room(shared: SharedChanges) -> SpreadSession:
    """A session that has joined the group alone."""
    session = opened(shared=shared)
    session.translate(encode_view(group_view(Cause.JOIN, [ANN], changed=(ANN,), own=True)))
    return session


def test_a_change_is_encoded_once_for_all_sessions_of_a_daemon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changes = list(map(encode_difference, joins(20)))
    alone = in_the_room(SharedChanges())
    expected = [alone.translate(change) for change in changes]
    encoded: list[GroupView] = []
    encode = views._encode

    def counted(view: GroupView, *rest: Any) -> bytes:
        encoded.append(view)
        return encode(view, *rest)

    shared = SharedChanges()
    sessions = [in_the_room(shared) for _ in range(10)]
    monkeypatch.setattr(views, "_encode", counted)
    for session in sessions:  # each gets all changes at once, as after a pause
        assert [session.translate(change) for change in changes] == expected
    assert len(encoded) == len(changes)


def test_what_is_due_at_once_is_translated_in_pieces() -> None:
    frames: list[Raw] = [*map(encode_difference, joins(300))]
    starts = range(0, len(frames), RUN_CHANGES)
    due = deque[Raw](ChangeRun(b"".join(frames[at : at + RUN_CHANGES])) for at in starts)
    own = opened()
    (bundle,) = bundles(own.receive_untrusted(request(layout.AGREED, [b"room"], bytes(1000))))
    for at in range(100):
        due += encode_delivery("#ben#b", 2, (1, 0, at), bundle.body)
    alone, session = in_the_room(SharedChanges()), in_the_room(SharedChanges())
    expected, pieces = alone.translate(b"".join(due)), []
    while due:
        before = sum(map(len, due))
        pieces.append(session.translate_piece(due))
        assert before - sum(map(len, due)) < PIECE_BYTES + bundle.size + 100
    assert b"".join(itertools.chain.from_iterable(pieces)) == expected
    assert max(map(len, pieces)) < PIECE_PARTS + RUN_CHANGES
    assert len(pieces) > 5


def test_messages_that_are_shared_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "SHARED_BYTES", 2000)
    shared = SharedChanges()
    quick, slow = in_the_room(shared), in_the_room(shared)
    changes = list(map(encode_difference, joins(20)))
    expected = [quick.translate(change) for change in changes]
    for recent in (shared._messages, shared._by_frame, shared._by_run):
        assert recent._bytes == sum(size for _, size in recent._kept.values()) <= 2000
    assert [slow.translate(change) for change in changes] == expected, "encoded anew"
