"""Client to daemon to client: the same messages, in order, whatever they are and however cut."""

from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Position
from groupcomm.events import Event, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm.session.bundler import names_bytes
from groupcomm.session.frames import MIN_BUNDLE_LIMIT
from groupcomm.wire.bundle import BODY_HEAD_BYTES, SELF_DISCARD, Bundle
from tests.groupcomm.session.pair import PLENTY, VIEW, Pair

GROUPS = st.lists(
    st.sampled_from(
        ["g", "größe", "#ann#d1", "#bob#d2", "h" * 200, *(f"{n:031}" for n in range(9))]
    ),
    min_size=1,
    max_size=12,
    unique=True,
)
DATA = st.one_of(
    st.binary(max_size=12),
    st.integers(0, 3000).map(lambda size: (b"0123456789" * 300)[:size]),
)
SENDS = st.lists(
    st.fixed_dictionaries(
        {
            "groups": GROUPS,
            "data": DATA,
            "level": st.sampled_from(ServiceLevel),
            "type": st.integers(0, 65535),
            "self_discard": st.booleans(),
        }
    ),
    max_size=12,
)
LIMITS = st.one_of(
    st.integers(MIN_BUNDLE_LIMIT, MIN_BUNDLE_LIMIT + 5), st.sampled_from([1300, 9000, 60_000])
)
STARTS = st.one_of(st.just(0), *[st.integers(edge - 5, edge) for edge in (2**31, 2**32, 2**63)])


def expected(pair: Pair, sent: list[tuple[int, dict[str, object]]]) -> list[tuple[object, ...]]:
    sender = MemberId("#ann#d1", pair.daemon.connection)
    return [
        (sender, number, tuple(call["groups"]), call["level"], call["type"], call["data"])  # type: ignore[arg-type]
        for number, call in sent
    ]


def told(events: list[Event]) -> list[tuple[object, ...]]:
    return [
        (event.sender, event.number, event.groups, event.level, event.type, event.data)
        for event in events
        if isinstance(event, Message)
    ]


@given(
    calls=SENDS,
    limit=LIMITS,
    start=STARTS,
    connection=STARTS,
    data=st.data(),
)
def test_messages_arrive_as_they_were_sent(
    calls: list[dict[str, object]],
    limit: int,
    start: int,
    connection: int,
    data: st.DataObject,
) -> None:
    pair = Pair(bundle_limit=limit, start_message=start, connection=connection)
    sent: list[tuple[int, dict[str, object]]] = []
    bundles: list[Bundle] = []
    for call in calls:
        sent.append((pair.client.multicast(**call), call))  # type: ignore[arg-type]
        if data.draw(st.booleans()):
            bundles += pair.bundles()
    bundles += pair.bundles()
    assert [number for number, _ in sent] == list(range(start + 1, start + 1 + len(calls)))
    for bundle in bundles:
        heads = BODY_HEAD_BYTES + names_bytes(bundle.groups)
        assert len(bundle.body) + 8 * bundle.privates <= max(limit, 2 * heads)
    assert pair.daemon.backlog_bytes == sum(bundle.size for bundle in bundles)
    flags = {bundle.message: bundle.flags for bundle in bundles}
    for number, call in sent:
        if number in flags:
            assert flags[number] == (SELF_DISCARD if call["self_discard"] else 0)
    for bundle in bundles:
        pair.daemon.push(pair.delivery(bundle))
    events = pair.events()
    assert told(events) == expected(pair, sent)
    positions = [event.position for event in events if isinstance(event, Message)]
    assert all(
        (position is None) == (call["level"] == ServiceLevel.UNRELIABLE)
        for position, (_, call) in zip(positions, sent, strict=True)
    )
    ordered = [position for position in positions if position is not None]
    assert ordered == sorted(set(ordered))


@given(calls=SENDS.filter(len), limit=LIMITS, size=st.integers(1, 5))
def test_both_directions_may_come_in_any_pieces(
    calls: list[dict[str, object]], limit: int, size: int
) -> None:
    pair = Pair(bundle_limit=limit)
    sent = [(pair.client.multicast(**call), call) for call in calls[:3]]  # type: ignore[arg-type]
    stream = pair.client.pop_output(PLENTY)
    for start in range(0, len(stream), size):
        for request in pair.daemon.receive(stream[start : start + size]):
            pair.daemon.push(pair.delivery(request.bundle))  # type: ignore[union-attr]
    stream = pair.output()
    events = [
        event
        for start in range(0, len(stream), size)
        for event in pair.client.receive(stream[start : start + size])
    ]
    assert told(events) == expected(pair, sent)


@given(
    sizes=st.lists(st.integers(0, 2500), min_size=1, max_size=6),
    level=st.sampled_from([ServiceLevel.RELIABLE, ServiceLevel.AGREED]),
    data=st.data(),
)
def test_reliable_messages_arrive_whole_in_any_order_of_bundles(
    sizes: list[int], level: ServiceLevel, data: st.DataObject
) -> None:
    pair = Pair(bundle_limit=400)
    sent = {}
    for size in sizes:
        text = bytes(range(256)) * 10
        number = pair.client.multicast("g", text[:size], level=level)
        sent[number] = text[:size]
    items = [pair.delivery(bundle) for bundle in pair.bundles()]
    if level == ServiceLevel.RELIABLE:
        items = data.draw(st.permutations(items))
    for item in items:
        pair.daemon.push(item)
    events = [event for event in pair.events() if isinstance(event, Message)]
    assert {event.number: event.data for event in events} == sent
    assert len(events) == len(sizes)


def test_the_position_of_a_message_is_that_of_its_last_fragment() -> None:
    pair = Pair(bundle_limit=400)
    pair.client.multicast("g", b"x" * 1000, level=ServiceLevel.RELIABLE)
    first, *_, last = [pair.delivery(bundle) for bundle in pair.bundles()]
    pair.daemon.push(last)
    pair.daemon.push(first)
    assert pair.events() == []
    pair = Pair(bundle_limit=400)
    pair.client.multicast("g", b"x" * 700, level=ServiceLevel.RELIABLE)
    items = [pair.delivery(bundle) for bundle in pair.bundles()]
    for item in reversed(items):
        pair.daemon.push(item)
    (message,) = pair.events()
    assert isinstance(message, Message)
    assert message.position == Position(VIEW, len(items), 2, 5, 0)
