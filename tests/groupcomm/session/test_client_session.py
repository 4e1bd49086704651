"""The client's side: its requests in each state, and its events from the daemon's frames."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import Code, LocalProtocolError
from groupcomm.events import (
    Cause,
    Closed,
    Connected,
    DaemonView,
    Event,
    GroupView,
    MemberId,
    Message,
    Ordered,
    Transition,
    Undeliverable,
)
from groupcomm.level import ServiceLevel
from groupcomm.session.client_session import ClientSession, ClientSessionState
from groupcomm.session.daemon_frames import (
    encode_abort,
    encode_closed,
    encode_ordered,
    encode_origins,
    encode_transition,
    encode_undeliverable,
    encode_view,
    encode_view_id,
    encode_welcome,
)
from groupcomm.session.daemon_session import SessionLimits
from groupcomm.session.frames import FrameReader
from groupcomm.wire.bundle import (
    SELF_DISCARD,
    WITHOUT_VIEWS,
    BundleKind,
    decode_body_untrusted,
    encode_body,
)
from groupcomm.wire.messages import encode_fragment
from tests.groupcomm.session.pair import DAEMONS, PLENTY, VIEW, Pair, whole_delivery
from tests.groupcomm.wire.payloads import encode_messages

AGREED = ServiceLevel.AGREED
LATER = DaemonView(id=ViewId(4, "c", 5), daemons=("c", "d1"), majority=False)
UNRELIABLE = ServiceLevel.UNRELIABLE
ANN = MemberId("#ann#d1", 1)
BOB = MemberId("#bob#d2", 7)
POSITION = Position(VIEW, 100, 1, 2, 3)


def open_client() -> ClientSession:
    client = ClientSession("ann")
    client.receive(encode_welcome(ANN, 1000) + encode_view_id(DAEMONS))
    client.pop_output(PLENTY)
    return client


def fragment_of(number: int, index: int, *, level: int = AGREED, total: int = 4) -> bytes:
    payload = encode_fragment(0, total, b"ab")
    body = encode_body(BundleKind.FRAGMENT, level, 0, number, ("g",), payload, index, 2)
    return whole_delivery(BOB.name, BOB.connection, (9, 0, 0), body)


def group_view(cause: Cause, *changed: MemberId) -> GroupView:
    return GroupView(
        group="g",
        id=POSITION,
        members=(ANN,),
        cause=cause,
        changed=changed,
        vs_set=(ANN,),
        own=False,
    )


# ---- requests ----


@pytest.mark.parametrize("user", ["", "a#b", "x" * 256, "a\n"])
def test_a_bad_user_is_refused(user: str) -> None:
    with pytest.raises(LocalProtocolError, match="user name"):
        ClientSession(user)


def test_nothing_is_sent_before_the_daemon_has_answered() -> None:
    client = ClientSession("ann")
    for call in (client.join, client.leave, lambda g: client.multicast(g, b"", level=AGREED)):
        with pytest.raises(LocalProtocolError, match="wait for Connected"):
            call("g")
    assert client.state is ClientSessionState.GREETING


def test_connected_tells_the_identity_and_the_limit() -> None:
    pair = Pair(bundle_limit=777, connection=2**63)
    connected = Connected(member=MemberId("#ann#d1", 2**63), bundle_limit=777)
    assert pair.opening == [connected, DAEMONS]
    assert pair.client.state is ClientSessionState.OPEN


@pytest.mark.parametrize(
    ("groups", "options", "text"),
    [
        ([], {}, "one group at least"),
        (["g"] * 256, {}, "256 destinations; at most 255"),
        ("", {}, "empty"),
        ("#a", {}, "private name"),
        (["g", "#a#b#c"], {}, "private name"),
        ("x" * 256, {}, "too long"),
        ("g", {"type": -1}, "type is -1"),
        ("g", {"type": 65536}, "type is 65536"),
        ("g", {"level": 6}, "must be a ServiceLevel"),
        ("g", {"level": -1}, "must be a ServiceLevel"),
        ("g", {"level": ServiceLevel.CAUSAL, "ordered": True}, "ordered=True at CAUSAL"),
        ("g", {"level": ServiceLevel.UNRELIABLE, "ordered": True}, "UNRELIABLE"),
    ],
)
def test_a_bad_message_is_refused_and_takes_no_number(
    groups: str | list[str], options: dict[str, object], text: str
) -> None:
    client = open_client()
    arguments: dict[str, object] = {"level": AGREED} | options
    with pytest.raises(LocalProtocolError, match=text):
        client.multicast(groups, b"data", **arguments)  # type: ignore[arg-type]
    assert client.pending_bytes == 0
    assert client.multicast("g", b"", level=AGREED, type=65535) == 1


@pytest.mark.parametrize("data", [3, "text", None])
def test_data_must_be_bytes(data: object) -> None:
    client = open_client()
    with pytest.raises(TypeError):
        client.multicast("g", data, level=AGREED)  # type: ignore[arg-type]
    assert client.pending_bytes == 0


def test_a_buffer_may_change_after_the_call() -> None:
    pair = Pair()
    buffer = bytearray(b"before")
    pair.client.multicast("g", buffer, level=AGREED)
    buffer[:] = b"after!"
    (message,) = pair.echo()
    assert isinstance(message, Message)
    assert message.data == b"before"


@pytest.mark.parametrize("group", ["", "#a#b", "x" * 256])
def test_only_groups_can_be_joined(group: str) -> None:
    client = open_client()
    for call in (client.join, client.leave):
        with pytest.raises(LocalProtocolError):
            call(group)
    assert client.join("g") == 1


@pytest.mark.parametrize("start", [0, 2**31 - 3, 2**32 - 3, 2**63 - 3])
def test_every_request_takes_the_next_number(start: int) -> None:
    pair = Pair(start_message=start)
    client = pair.client
    numbers = [
        client.multicast("g", b"", level=AGREED),
        client.join("g"),
        client.multicast("g", b"x" * 5000, level=AGREED),
        client.leave("g"),
        client.multicast("g", b"", level=AGREED),
        client.multicast("g", b"", level=AGREED),
    ]
    assert numbers == list(range(start + 1, start + 7))
    messages = [event for event in pair.echo() if isinstance(event, Message)]
    assert [message.number - start for message in messages] == [1, 3, 5, 6]


def test_after_goodbye_nothing_is_sent_but_what_comes_is_reported() -> None:
    pair = Pair()
    pair.client.multicast("g", b"last", level=AGREED)
    pair.client.close()
    pair.client.close()
    with pytest.raises(LocalProtocolError, match="open another"):
        pair.client.multicast("g", b"", level=AGREED)
    submit, _ = pair.daemon.receive(pair.client.pop_output(PLENTY))
    pair.daemon.push(pair.delivery(submit.bundle))  # type: ignore[union-attr]
    pair.daemon.close(Code.OK, "left")
    message, closed = pair.events()
    assert isinstance(message, Message)
    assert closed == Closed(code=0, reason="left")
    assert pair.client.connection_lost() == []


def test_a_client_may_leave_before_it_is_admitted() -> None:
    client = ClientSession("ann")
    client.close()
    told = client.receive(encode_welcome(ANN, 1000))
    assert [type(event) for event in told] == [Connected]
    assert client.state is ClientSessionState.CLOSING


# ---- events ----


def test_all_that_a_daemon_tells() -> None:
    client = open_client()
    payload = encode_messages([(5, b"one"), (6, b"two")])
    body = encode_body(
        BundleKind.MESSAGES, AGREED, SELF_DISCARD, 2**63, ("g", "#ann#d1"), payload, 0, 2
    )
    stream = b"".join(
        (
            whole_delivery(BOB.name, BOB.connection, (100, 1, 2), body),
            encode_view(group_view(Cause.LEAVE, BOB)),
            encode_ordered(2**32, POSITION),
            encode_undeliverable(4, "#bob#d2", POSITION),
            encode_closed(0, "bye"),
        )
    )
    expected: list[Event] = [
        Message(
            sender=BOB,
            number=2**63 + index,
            groups=("g", "#ann#d1"),
            level=AGREED,
            type=5 + index,
            data=(b"one", b"two")[index],
            bundle=Position(VIEW, 100, 1, 2, 0),
            index=index,
        )
        for index in (0, 1)
    ]
    expected += [
        group_view(Cause.LEAVE, BOB),
        Ordered(number=2**32, position=POSITION),
        Undeliverable(number=4, target="#bob#d2", position=POSITION),
        Closed(code=0, reason="bye"),
    ]
    assert client.receive(stream + encode_ordered(1, POSITION)) == expected
    assert client.receive(stream) == []
    client = open_client()
    assert [event for byte in stream for event in client.receive(bytes((byte,)))] == expected


def test_positions_are_of_the_view_announced_last() -> None:
    client = open_client()
    begun, ordered = client.receive(encode_view_id(LATER) + encode_ordered(1, POSITION))
    assert begun == LATER
    assert isinstance(ordered, Ordered)
    assert ordered.position == POSITION._replace(view=LATER.id)


def test_a_transition_is_of_the_view_announced_last_and_changes_no_positions() -> None:
    client = open_client()
    over = encode_transition()
    told = client.receive(over + encode_ordered(1, POSITION, transitional=True))
    assert told == [Transition(VIEW), Ordered(number=1, position=POSITION, transitional=True)]
    assert client.receive(encode_view_id(LATER) + over) == [LATER, Transition(LATER.id)]


def test_a_transition_names_the_daemons_that_go_on_together() -> None:
    client = open_client()
    going, over = encode_origins({"d2": 0, "d1": 0}), encode_transition()
    assert client.receive(going + over) == [Transition(VIEW, ("d1", "d2"))]
    begun = encode_view_id(LATER) + encode_origins({"d1": 0, "d2": 1, "d3": 0})
    shown = group_view(Cause.NETWORK, BOB)
    told = client.receive(begun + encode_view(shown) + over)
    assert told[-1] == Transition(LATER.id), "those frames were about the view that begins"


def test_a_view_names_the_daemons_that_came_into_it_together() -> None:
    """They may be fewer than those that went on together: some may have been in others since."""
    client = open_client()
    origins = encode_origins({"d1": 0, "d2": 1, "d3": 0})
    (begun,) = client.receive(encode_view_id(LATER) + origins)
    assert isinstance(begun, DaemonView)
    assert begun.together == ("d1", "d3")
    (shown,) = client.receive(encode_view(group_view(Cause.NETWORK, BOB)))
    assert isinstance(shown, GroupView)
    assert shown.others == (("d2",),)
    assert client.receive(encode_view_id(LATER)) == [LATER]
    assert client.receive(origins) == [], "the view was notified already"
    over = encode_origins({"d1": 0, "d2": 0}) + encode_transition()
    told = client.receive(encode_view_id(LATER) + origins + over)
    assert told == [begun, Transition(LATER.id, ("d1", "d2"))]


def test_an_unreliable_message_has_no_position() -> None:
    pair = Pair()
    pair.client.multicast("g", b"x", level=UNRELIABLE)
    pair.client.multicast("g", b"x" * 3000, level=UNRELIABLE)
    messages = pair.echo()
    assert [message.position for message in messages if isinstance(message, Message)] == [None] * 2


@pytest.mark.parametrize(
    "ending",
    [
        encode_abort(BOB, 5),
        encode_abort(BOB, 0),
        encode_view(group_view(Cause.DISCONNECT, BOB)),
    ],
    ids=["abort one", "abort all", "disconnect"],
)
def test_a_message_given_up_by_its_sender_is_never_reported(ending: bytes) -> None:
    client = open_client()
    told = client.receive(fragment_of(5, 0) + ending + fragment_of(5, 1))
    assert not any(isinstance(event, Message) for event in told)
    assert len(client.receive(fragment_of(6, 0) + fragment_of(6, 1))) == 1


@pytest.mark.parametrize(
    "other",
    [
        encode_abort(BOB, 4),
        encode_abort(MemberId(BOB.name, 8), 5),
        encode_view(group_view(Cause.LEAVE, BOB)),
        encode_view(group_view(Cause.DISCONNECT, ANN)),
        encode_view_id(LATER),
        encode_transition(),
    ],
    ids=["other message", "other session", "leave", "other member", "view", "transition"],
)
def test_other_events_leave_a_message_in_fragments_alone(other: bytes) -> None:
    client = open_client()
    events = client.receive(fragment_of(5, 0) + other + fragment_of(5, 1))
    assert isinstance(events[-1], Message)


def test_a_payload_that_does_not_decode_is_its_senders_fault() -> None:
    client = open_client()
    bad = encode_body(BundleKind.MESSAGES, AGREED, 0, 1, ("g",), b"\0\0\0\0\0\7x", 0, 1)
    stream = whole_delivery(BOB.name, BOB.connection, (9, 0, 0), bad)
    stream += fragment_of(5, 0) + fragment_of(5, 1, total=5)
    assert client.receive(stream) == []
    assert client.malformed == 2
    assert client.state is ClientSessionState.OPEN


def test_too_many_unfinished_messages_end_the_session() -> None:
    client = ClientSession("ann", reassembly_cap_bytes=2000)
    client.receive(encode_welcome(ANN, 1000) + encode_view_id(DAEMONS))
    stream = fragment_of(5, 0, level=ServiceLevel.RELIABLE)
    assert client.receive(stream) == []
    (closed,) = client.receive(fragment_of(6, 0, level=ServiceLevel.RELIABLE) + stream)
    assert isinstance(closed, Closed)
    assert closed.code == Code.MESSAGE_TOO_LONG
    assert "reassembly_cap_bytes" in closed.reason


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        b"\0\0\0\1\x02",  # a frame that only clients send
        b"\0\0\0\1\x12",  # a delivery without contents
        encode_transition()[:3] + b"\2\x18\0",  # a transition with bytes behind it
        encode_welcome(ANN, 1000),  # a second welcome
        whole_delivery("", 1, None, b""),
        whole_delivery(BOB.name, 1, None, b"body"),
    ],
)
def test_garbage_from_the_daemon_closes_behind_what_came_before(garbage: bytes) -> None:
    client = open_client()
    ordered, closed = client.receive(encode_ordered(1, POSITION) + garbage)
    assert isinstance(ordered, Ordered)
    assert isinstance(closed, Closed)
    assert closed.code == Code.NET_ERROR
    with pytest.raises(LocalProtocolError):
        client.join("g")
    assert client.pop_output(PLENTY) == b""


@pytest.mark.parametrize(
    "early",
    [
        encode_transition(),
        encode_ordered(1, POSITION),
        encode_view(group_view(Cause.JOIN, ANN)),
        fragment_of(1, 0),
    ],
)
def test_a_position_without_a_view_is_garbage(early: bytes) -> None:
    client = ClientSession("ann")
    (closed,) = client.receive(early)
    assert isinstance(closed, Closed)
    assert closed.code == Code.NET_ERROR


@given(data=st.data())
def test_any_bytes_give_events_and_closed_at_most_once(data: st.DataObject) -> None:
    good = encode_ordered(1, POSITION) + fragment_of(1, 0) + encode_view(group_view(Cause.JOIN))
    stream = bytearray(good + data.draw(st.binary(max_size=40)))
    for _ in range(data.draw(st.integers(0, 3))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    client = open_client()
    events = client.receive(bytes(stream)) + client.receive(b"more") + client.connection_lost()
    ends = [index for index, event in enumerate(events) if isinstance(event, Closed)]
    assert ends == [len(events) - 1]


def test_a_lost_connection_is_reported_once() -> None:
    client = open_client()
    (closed,) = client.connection_lost()
    assert isinstance(closed, Closed)
    assert closed.code == Code.CONNECTION_CLOSED
    assert client.connection_lost() == []


def test_a_refusal_is_reported() -> None:
    pair = Pair(limits=SessionLimits())
    client = ClientSession("ann")
    pair.daemon.close(Code.REJECT_NOT_UNIQUE, "there is an ann")
    (closed,) = client.receive(pair.output())
    assert closed == Closed(code=-6, reason="there is an ann")


def test_a_group_is_joined_once_and_left_once() -> None:
    client = open_client()
    with pytest.raises(LocalProtocolError, match="has not joined 'g'"):
        client.leave("g")
    client.join("g")
    with pytest.raises(LocalProtocolError, match="has joined 'g' already"):
        client.join("g")
    client.leave("g")
    assert client.join("g") == client.leave("g") - 1


@pytest.mark.parametrize("readers", [True, False])
def test_a_join_without_views_is_marked_if_the_daemon_knows_it(readers: bool) -> None:
    """A daemon of an earlier release would end the session."""
    client = ClientSession("ann")
    client.receive(encode_welcome(ANN, 1000, readers=readers) + encode_view_id(DAEMONS))
    client.pop_output(PLENTY)
    client.join("g", views=False)
    client.join("h")
    frames = [frame[2:] for frame in FrameReader(PLENTY).feed(client.pop_output(PLENTY))]
    flags = [decode_body_untrusted(body).flags for body in frames]
    assert flags == [WITHOUT_VIEWS if readers else 0, 0]


def test_a_session_may_ask_for_its_own_views_alone() -> None:
    plain, quiet = (
        ClientSession("u", own_views_only=wish).pop_output(PLENTY)[6:10] for wish in (False, True)
    )
    assert int.from_bytes(quiet) == int.from_bytes(plain) | 256 != int.from_bytes(plain)
