"""The daemon's side: it believes nothing, keeps little, and tells everything in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import BadDatagram, Code, ConfigError, RemoteProtocolError, SessionError
from groupcomm.events import (
    Cause,
    Closed,
    DaemonView,
    GroupView,
    MemberId,
    Message,
    Ordered,
    Transition,
    Undeliverable,
)
from groupcomm.level import ServiceLevel
from groupcomm.session.daemon_frames import (
    encode_abort,
    encode_delivery,
    encode_ordered,
    encode_transition,
    encode_undeliverable,
    encode_view,
    encode_view_id,
)
from groupcomm.session.daemon_session import DaemonSession, DaemonSessionState, SessionLimits
from groupcomm.session.frames import encode_bundle_head, encode_bye, encode_hello
from groupcomm.session.requests import Bye, Hello, Submit
from groupcomm.wire.bundle import SELF_DISCARD, BundleKind, encode_body
from groupcomm.wire.messages import MAX_MESSAGE_BYTES, encode_fragment
from tests.groupcomm.session.pair import DAEMONS, PLENTY, VIEW, Pair
from tests.groupcomm.wire.payloads import encode_messages

AGREED = ServiceLevel.AGREED
POSITION = Position(VIEW, 100, 1, 2, 0)


def new_session() -> DaemonSession:
    return DaemonSession(1, limits=SessionLimits())


def connecting() -> DaemonSession:
    session = new_session()
    session.receive(encode_hello("ann"))
    session.connect("#ann#d1")
    return session


def bundle_frame(
    kind: int = BundleKind.MESSAGES,
    *,
    message: int = 1,
    level: int = AGREED,
    ordered: bool = False,
    flags: int = 0,
    index: int = 0,
    count: int = 1,
    groups: tuple[str, ...] = ("g",),
    size: int = 1,
) -> bytes:
    payload = b""
    if kind == BundleKind.MESSAGES:
        payload = encode_messages([(0, b"x" * size)] * count)
    elif kind == BundleKind.FRAGMENT:
        payload = encode_fragment(0, 100, b"x" * size)
    body = encode_body(kind, level, flags, message, groups, payload, index, count)
    return encode_bundle_head(len(body), ordered) + body


def fragment_frame(message: int, index: int, count: int, **options: object) -> bytes:
    return bundle_frame(
        BundleKind.FRAGMENT,
        message=message,
        index=index,
        count=count,
        **options,  # type: ignore[arg-type]
    )


# ---- the hello ----


def test_a_hello_asks_for_admission_whatever_pieces_it_comes_in() -> None:
    session = new_session()
    stream = encode_hello("ann")
    requests = [request for byte in stream for request in session.receive(bytes((byte,)))]
    (hello,) = requests
    assert isinstance(hello, Hello)
    assert hello.user == session.user == "ann"
    assert session.state is DaemonSessionState.GREETED


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (encode_bye(), Code.ILLEGAL_SESSION),
        (bundle_frame(), Code.ILLEGAL_SESSION),
        (encode_hello("ann").replace(b"\1\1\0", b"\1\2\0"), Code.REJECT_VERSION),
        (encode_hello("a#b"), Code.REJECT_NAME),
        (encode_hello(""), Code.REJECT_NAME),
        (encode_hello("ann") + bundle_frame(), Code.ILLEGAL_SESSION),
        (encode_hello("ann") + encode_hello("ann"), Code.ILLEGAL_SESSION),
    ],
)
def test_what_is_no_opening_is_refused(data: bytes, code: Code) -> None:
    with pytest.raises(SessionError) as caught:
        new_session().receive(data)
    assert caught.value.code == code


def test_before_the_welcome_a_frame_has_4_kib_at_most() -> None:
    for prefix in (b"", encode_hello("ann")):
        session = new_session()
        with pytest.raises(BadDatagram, match="4097 bytes; 1 to 4096 are allowed"):
            session.receive(prefix + (4097).to_bytes(4, "big"))
    pair = Pair(bundle_limit=60_000)
    pair.client.multicast("g", b"x" * 50_000, level=AGREED)
    assert len(pair.bundles()) == 1


def test_another_protocol_is_refused_at_its_first_bytes() -> None:
    with pytest.raises(BadDatagram):
        new_session().receive(b"GET / HTTP/1.1\r\n")


# ---- bundles ----


def test_a_bundle_comes_addressed_and_counts_for_the_backlog() -> None:
    pair = Pair(connection=2**32)
    frame = bundle_frame(groups=("g", "#bob#d2", "#eve#d3"), flags=SELF_DISCARD)
    (submit,) = pair.daemon.receive(frame)
    assert isinstance(submit, Submit)
    bundle = submit.bundle
    assert (bundle.session, bundle.user, bundle.targets) == (2**32, "ann", (0, 0))
    assert bundle.flags == SELF_DISCARD
    assert pair.daemon.backlog_bytes == bundle.size == sum(map(len, bundle.record()))
    bundle.address(2**32, "ann", (2**63, 9))
    assert pair.daemon.backlog_bytes == bundle.size


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (bundle_frame(size=1200), Code.MESSAGE_TOO_LONG),
        (bundle_frame(ordered=True, level=ServiceLevel.CAUSAL), Code.ILLEGAL_SERVICE),
        (bundle_frame(ordered=True, level=ServiceLevel.UNRELIABLE), Code.ILLEGAL_SERVICE),
        (bundle_frame(BundleKind.JOIN, ordered=True), Code.ILLEGAL_SERVICE),
        (bundle_frame(BundleKind.CONNECT, groups=()), Code.ILLEGAL_MESSAGE),
        (bundle_frame(BundleKind.DISCONNECT, groups=()), Code.ILLEGAL_MESSAGE),
        (bundle_frame(message=0), Code.ILLEGAL_MESSAGE),
        (fragment_frame(1, 1, 2), Code.ILLEGAL_MESSAGE),
    ],
)
def test_a_bundle_that_breaks_a_rule_is_refused(frame: bytes, code: Code) -> None:
    pair = Pair(bundle_limit=1200)
    with pytest.raises(SessionError) as caught:
        pair.daemon.receive(frame)
    assert caught.value.code == code
    assert pair.daemon.backlog_bytes == 0


MANY = tuple(f"{number:031}" for number in range(43))


@pytest.mark.parametrize(("over", "fits"), [(0, True), (1, False)])
@pytest.mark.parametrize(
    ("groups", "most"),
    [
        (("g",), 1200),
        (("g", "#bob#d2"), 1200),
        (MANY, 2 * (21 + 43 * 32)),
        ((*MANY, "#bob#d2"), 2 * (21 + 43 * 32 + 16)),
        (tuple(f"{number:0255}" for number in range(100)), 32 * 1024),
    ],
)
def test_the_bundle_limit_is_exact(
    groups: tuple[str, ...], most: int, over: int, fits: bool
) -> None:
    pair = Pair(bundle_limit=1200)
    names = sum(1 + len(name) + 8 * (name[0] == "#") for name in groups)
    frame = bundle_frame(groups=groups, size=most - 21 - names - 6 + over)
    if fits:
        assert len(pair.daemon.receive(frame)) == 1
    else:
        text = f"a bundle has {most + 1} bytes; the WELCOME allows {most}"
        with pytest.raises(SessionError, match=text):
            pair.daemon.receive(frame)


@pytest.mark.parametrize("level", [ServiceLevel.AGREED, ServiceLevel.SAFE])
def test_ordered_is_passed_on(level: ServiceLevel) -> None:
    (submit,) = Pair().daemon.receive(bundle_frame(ordered=True, level=level))
    assert isinstance(submit, Submit)
    assert submit.ordered


@pytest.mark.parametrize("first", [1, 2**31 - 1, 2**32 - 1, 2**63 - 1])
def test_numbers_rise_by_one_from_wherever_they_start(first: int) -> None:
    daemon = Pair().daemon
    stream = (
        bundle_frame(message=first, count=3)
        + bundle_frame(BundleKind.JOIN, message=first + 3)
        + fragment_frame(first + 4, 0, 2)
        + fragment_frame(first + 4, 1, 2)
        + bundle_frame(message=first + 5)
    )
    assert len(daemon.receive(stream)) == 5
    for wrong in (first, first + 5, first + 7):
        with pytest.raises(SessionError, match=f"message {wrong} follows {first + 5}"):
            daemon.receive(bundle_frame(message=wrong))


def test_numbers_behind_a_line_may_have_gaps_and_rise() -> None:
    daemon = Pair().daemon
    join = bundle_frame(BundleKind.JOIN, message=1)
    line = encode_body(BundleKind.LINE, AGREED, 0, 2, (), bytes(16))
    begun = join + encode_bundle_head(len(line), False) + line
    stream = begun + bundle_frame(message=2**32 + 7, count=3) + bundle_frame(message=2**32 + 20)
    assert len(daemon.receive(stream)) == 4
    for wrong in (1, 2**32 + 9, 2**32 + 20):
        with pytest.raises(SessionError, match=f"message {wrong} follows {2**32 + 20}"):
            daemon.receive(bundle_frame(message=wrong))


@pytest.mark.parametrize(
    "intruder",
    [
        bundle_frame(message=2),
        bundle_frame(BundleKind.LEAVE, message=2),
        fragment_frame(2, 0, 2),
        fragment_frame(1, 0, 3),
        fragment_frame(1, 2, 3),
        fragment_frame(2, 1, 3),
        fragment_frame(1, 1, 4),
        fragment_frame(1, 1, 3, level=ServiceLevel.SAFE),
        fragment_frame(1, 1, 3, groups=("h",)),
        fragment_frame(1, 1, 3, flags=SELF_DISCARD),
    ],
)
def test_nothing_comes_between_the_fragments_of_a_message(intruder: bytes) -> None:
    daemon = Pair().daemon
    daemon.receive(fragment_frame(1, 0, 3))
    with pytest.raises(SessionError) as caught:
        daemon.receive(intruder)
    assert caught.value.code == Code.ILLEGAL_MESSAGE
    daemon.receive(fragment_frame(1, 1, 3) + fragment_frame(1, 2, 3))


def test_reading_stops_at_the_cap_and_goes_on_below_it() -> None:
    pair = Pair(limits=SessionLimits(backlog_cap_bytes=3000))
    sizes = []
    number = 0
    while pair.daemon.reading:
        number += 1
        (submit,) = pair.daemon.receive(bundle_frame(message=number, size=900))
        assert isinstance(submit, Submit)
        sizes.append(submit.bundle.size)
    assert pair.daemon.backlog_bytes == sum(sizes)
    assert sum(sizes[:-1]) < 3000 <= sum(sizes)
    pair.daemon.backlog_bytes = 3000
    assert not pair.daemon.reading
    pair.daemon.backlog_bytes -= 1
    assert pair.daemon.reading


def test_goodbye_is_the_last_request() -> None:
    daemon = Pair().daemon
    submit, bye = daemon.receive(bundle_frame() + encode_bye())
    assert isinstance(submit, Submit)
    assert isinstance(bye, Bye)
    assert daemon.push(b"still delivered")
    with pytest.raises(SessionError):
        daemon.receive(bundle_frame(message=2))


def test_goodbye_is_said_once() -> None:
    for daemon in (Pair().daemon, connecting()):
        with pytest.raises(SessionError) as caught:
            daemon.receive(encode_bye() + encode_bye())
        assert caught.value.code == Code.ILLEGAL_SESSION


def test_a_client_that_leaves_at_once_may_still_be_welcomed() -> None:
    session = connecting()
    session.receive(encode_bye())
    session.welcome(1000, DAEMONS)
    assert session.state is DaemonSessionState.LEAVING
    with pytest.raises(SessionError):
        session.receive(bundle_frame())


@given(data=st.data())
def test_any_bytes_are_requests_or_a_protocol_error(data: st.DataObject) -> None:
    stream = bytearray(
        bundle_frame() + fragment_frame(2, 0, 2) + fragment_frame(2, 1, 2) + encode_bye()
    )
    stream += data.draw(st.binary(max_size=20))
    for _ in range(data.draw(st.integers(0, 3))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    session = Pair().daemon if data.draw(st.booleans()) else new_session()
    try:
        requests = session.receive(bytes(stream))
    except RemoteProtocolError as error:
        session.close(Code.ILLEGAL_SESSION, str(error))
    else:
        total = sum(item.bundle.size for item in requests if isinstance(item, Submit))
        assert session.backlog_bytes == total
    assert session.closed or session.receive(b"") == []


# ---- output ----


def test_every_notification_comes_in_order() -> None:
    pair = Pair()
    ann, bob = MemberId("#ann#d1", 1), MemberId("#bob#d2", 5)
    view = GroupView(
        group="g",
        id=POSITION,
        members=(ann, bob),
        cause=Cause.JOIN,
        changed=(ann,),
        vs_set=(ann,),
        own=True,
    )
    pair.daemon.push(encode_view(view))
    pair.daemon.push(encode_ordered(3, POSITION))
    pair.daemon.push(encode_undeliverable(4, "#bob#d2", POSITION))
    pair.daemon.push(encode_abort(bob, 9))
    pair.daemon.close(Code.OK, "left")
    pair.daemon.close(Code.CONNECTION_CLOSED, "again")
    assert not pair.daemon.push(b"never")
    assert pair.events() == [
        view,
        Ordered(number=3, position=POSITION),
        Undeliverable(number=4, target="#bob#d2", position=POSITION),
        Closed(code=0, reason="left"),
    ]
    assert pair.daemon.receive(b"garbage") == []


def test_positions_are_of_the_view_that_was_announced_last() -> None:
    pair = Pair()
    later = ViewId(4, "d1", 1)
    begun = DaemonView(id=later, daemons=("d1",), majority=None)
    pair.daemon.push(encode_transition())
    pair.daemon.push(encode_view_id(begun))
    pair.daemon.push(encode_ordered(1, POSITION._replace(view=later)))
    assert pair.events() == [
        Transition(VIEW),
        begun,
        Ordered(number=1, position=POSITION._replace(view=later)),
    ]


def test_pop_gives_whole_items_up_to_its_limit() -> None:
    daemon = Pair().daemon
    items = [bytes((index,)) * 100 for index in range(10)]
    for item in items:
        daemon.push(item)
    assert daemon.output_bytes == 1000
    assert daemon.pop_output(1) == [items[0]]
    assert daemon.pop_output(150) == [items[1], items[2]]
    assert daemon.output_bytes == 700
    assert daemon.pop_output(700) == items[3:]
    assert daemon.output_bytes == 0
    assert daemon.pop_output(700) == []


def test_a_slow_receiver_loses_unreliable_messages_first_and_then_its_session() -> None:
    limits = SessionLimits(unreliable_drop_bytes=1000, output_cap_bytes=2000)
    pair = Pair(limits=limits)
    item = bytes(100)
    for _ in range(20):
        assert pair.daemon.push(item, droppable=True)
    assert pair.daemon.output_bytes == 1000
    assert pair.daemon.dropped == 10
    for _ in range(10):
        assert pair.daemon.push(item)
    assert not pair.daemon.too_slow
    assert pair.daemon.push(item, droppable=True)
    assert not pair.daemon.push(item)
    assert pair.daemon.too_slow
    assert pair.daemon.closed
    assert pair.daemon.output_bytes < 200
    (closed,) = pair.events()
    assert isinstance(closed, Closed)
    assert closed.code == -8
    assert "too slow" in closed.reason


def test_a_client_that_reads_again_gets_unreliable_messages_again() -> None:
    pair = Pair(limits=SessionLimits(unreliable_drop_bytes=100))
    pair.daemon.push(bytes(101))
    pair.daemon.push(b"lost", droppable=True)
    pair.daemon.pop_output(PLENTY)
    pair.daemon.push(b"comes", droppable=True)
    assert pair.daemon.pop_output(PLENTY) == [b"comes"]
    assert pair.daemon.dropped == 1


def test_the_default_cap_holds_a_message_of_the_greatest_size_with_the_longest_names() -> None:
    limit, group = 1200, "x" * 255
    pair = Pair(bundle_limit=limit)
    pair.client.multicast(group, b"x" * 2 * limit, level=AGREED)
    first = pair.bundles()[0]
    fragments = MAX_MESSAGE_BYTES // (limit - 21 - 256 - 10) + 1
    item = encode_delivery("#" + "a" * 253 + "#", 1, (1, 0, 0), first.body)
    assert fragments * sum(map(len, item)) < SessionLimits().output_cap_bytes


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"backlog_cap_bytes": 0}, "backlog_cap_bytes"),
        ({"unreliable_drop_bytes": 11, "output_cap_bytes": 10}, "unreliable_drop_bytes"),
        ({"unreliable_drop_bytes": -1}, "unreliable_drop_bytes"),
    ],
)
def test_limits_that_contradict_each_other_are_refused(wrong: dict[str, int], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        SessionLimits(**wrong)


def test_one_item_serves_many_sessions() -> None:
    pairs = [Pair(connection=number) for number in (1, 2)]
    pairs[0].client.multicast("g", b"for both", level=AGREED)
    item = pairs[0].delivery(pairs[0].bundles()[0])
    for pair in pairs:
        pair.daemon.push(item)
    told = [pair.events() for pair in pairs]
    assert told[0] == told[1]
    assert isinstance(told[0][0], Message)
