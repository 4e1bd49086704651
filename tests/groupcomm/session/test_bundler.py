"""Bundling and cutting, seen through the daemon that decodes what leaves."""

import pytest

from groupcomm.errors import LocalProtocolError
from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm.session.client_session import OUTPUT_CAP_BYTES
from groupcomm.session.daemon_session import SessionLimits
from groupcomm.wire.bundle import BODY_HEAD_BYTES, SELF_DISCARD, Bundle, BundleKind
from groupcomm.wire.messages import FRAGMENT_HEAD_BYTES, MAX_MESSAGE_BYTES, MESSAGE_HEAD_BYTES
from tests.groupcomm.session.pair import PLENTY, Pair

AGREED = ServiceLevel.AGREED
FIFO = ServiceLevel.FIFO
HEADS = BODY_HEAD_BYTES + 2  # the head, with the group "g"


def shapes(bundles: list[Bundle]) -> list[tuple[int, int]]:
    """First message and number of messages of each."""
    return [(bundle.message, bundle.count) for bundle in bundles]


def test_small_messages_that_wait_together_share_a_bundle() -> None:
    pair = Pair()
    numbers = [pair.client.multicast("g", b"hello", level=AGREED) for _ in range(10)]
    assert numbers == list(range(1, 11))
    assert shapes(pair.bundles()) == [(1, 10)]
    assert pair.client.pending_bytes == 0


def test_a_message_alone_leaves_at_once() -> None:
    pair = Pair()
    for number in (1, 2, 3):
        pair.client.multicast("g", b"hello", level=AGREED)
        assert shapes(pair.bundles()) == [(number, 1)]


def test_only_equal_neighbours_share_a_bundle_and_the_order_stays() -> None:
    pair = Pair()
    send = pair.client.multicast
    send("g", b"1", level=AGREED)
    send(["g"], b"2", level=AGREED, type=9)
    send("h", b"3", level=AGREED)
    send("g", b"4", level=AGREED)
    send("g", b"5", level=FIFO)
    send("g", b"6", level=FIFO, self_discard=True)
    send("g", b"7", level=FIFO, self_discard=True)
    pair.client.join("g")
    send("g", b"9", level=FIFO, self_discard=True)
    send(("g", "#ann#d1"), b"10", level=FIFO)
    send(("#ann#d1", "g"), b"11", level=FIFO)
    bundles = pair.bundles()
    assert shapes(bundles) == [
        (1, 2), (3, 1), (4, 1), (5, 1), (6, 2), (8, 1), (9, 1), (10, 1), (11, 1)
    ]  # fmt: skip
    assert [bundle.flags for bundle in bundles] == [0, 0, 0, 0, SELF_DISCARD, 0, SELF_DISCARD, 0, 0]
    assert bundles[5].kind == BundleKind.JOIN
    assert bundles[-1].groups == ("#ann#d1", "g")


def test_an_ordered_message_has_a_bundle_of_its_own() -> None:
    pair = Pair()
    for ordered in (False, True, True, False, False):
        pair.client.multicast("g", b"x", level=AGREED, ordered=ordered)
    submits = pair.submits()
    assert shapes([submit.bundle for submit in submits]) == [(1, 1), (2, 1), (3, 1), (4, 2)]
    assert [submit.ordered for submit in submits] == [False, True, True, False]


@pytest.mark.parametrize("limit", [1000, 8191, 60_000])
def test_a_shared_bundle_ends_at_the_limit(limit: int) -> None:
    pair = Pair(bundle_limit=limit)
    first = limit - HEADS - 2 * MESSAGE_HEAD_BYTES - 5
    for size in (first, 5, 0, first, 6):
        pair.client.multicast("g", b"x" * size, level=AGREED)
    bundles = pair.bundles()
    assert shapes(bundles) == [(1, 2), (3, 2), (5, 1)]
    assert len(bundles[0].body) == limit


@pytest.mark.parametrize("limit", [300, 1200, 20_000, 60_000])
@pytest.mark.parametrize("over", range(-3, 4))
def test_a_message_around_the_limit_fits_or_is_cut(limit: int, over: int) -> None:
    pair = Pair(bundle_limit=limit)
    whole = limit - HEADS - MESSAGE_HEAD_BYTES
    data = bytes(range(256)) * 300
    data = data[: whole + over]
    pair.client.multicast("g", data, level=AGREED, type=7)
    bundles = pair.bundles()
    assert all(len(bundle.body) <= limit for bundle in bundles)
    if over <= 0:
        assert shapes(bundles) == [(1, 1)]
        assert bundles[0].kind == BundleKind.MESSAGES
    else:
        assert [(bundle.index, bundle.count) for bundle in bundles] == [(0, 2), (1, 2)]
        assert len(bundles[0].body) == limit
    assert only_data(pair, bundles) == (7, data)


@pytest.mark.parametrize("parts", [2, 3, 5])
@pytest.mark.parametrize("over", [-2, -1, 0, 1, 2])
def test_fragments_fill_their_bundles(parts: int, over: int) -> None:
    pair = Pair(bundle_limit=500)
    part = 500 - HEADS - FRAGMENT_HEAD_BYTES
    data = bytes(range(256)) * 10
    data = data[: parts * part + over]
    pair.client.multicast("g", data, level=AGREED)
    bundles = pair.bundles()
    assert len(bundles) == parts + (over > 0)
    assert {len(bundle.body) for bundle in bundles[:-1]} == {500}
    assert only_data(pair, bundles) == (0, data)


def only_data(pair: Pair, bundles: list[Bundle]) -> tuple[int, bytes]:
    """Type and data of the one message that the client is delivered by these bundles."""
    for bundle in bundles:
        pair.daemon.push(pair.delivery(bundle))
    (message,) = pair.events()
    assert isinstance(message, Message)
    return message.type, message.data


def test_private_names_count_for_the_limit_what_the_daemon_adds() -> None:
    pair = Pair(bundle_limit=600)
    groups = ["#a#d", "g", "#b#d"]
    names = len("#a#d" + "g" + "#b#d") + 3
    fits = 600 - BODY_HEAD_BYTES - names - 16 - MESSAGE_HEAD_BYTES
    pair.client.multicast(groups, b"x" * fits, level=AGREED)
    pair.client.multicast(groups, b"x" * (fits + 1), level=AGREED)
    bundles = pair.bundles()
    assert [bundle.kind for bundle in bundles] == [0, 1, 1]
    assert [len(bundle.body) for bundle in bundles[:2]] == [584, 584]


def test_only_the_last_fragment_asks_for_its_position() -> None:
    pair = Pair(bundle_limit=300)
    pair.client.multicast("g", b"x" * 700, level=AGREED, ordered=True)
    assert [submit.ordered for submit in pair.submits()] == [False, False, True]


def test_names_that_leave_no_room_are_refused_and_take_no_number() -> None:
    pair = Pair(bundle_limit=300)
    with pytest.raises(LocalProtocolError, match="name fewer groups at once"):
        pair.client.multicast([f"{n:0255}" for n in range(128)], b"data", level=AGREED)
    assert pair.client.pending_bytes == 0
    assert pair.client.multicast([f"{n:0255}" for n in range(127)], b"data", level=AGREED) == 1
    assert [bundle.kind for bundle in pair.bundles()] == [0]


@pytest.mark.parametrize("groups", [["x" * 255], ["#a#" + "x" * 252] * 2, ["y" * 31] * 43])
def test_a_message_to_many_names_is_in_bundles_of_which_half_is_data(groups: list[str]) -> None:
    names = sum(1 + len(name) + 8 * name.startswith("#") for name in groups)
    pair = Pair(bundle_limit=300)
    pair.client.multicast(groups, bytes(names + 21 - 6), level=AGREED)
    pair.client.multicast(groups, bytes(names + 21 - 6 + 1), level=AGREED)
    assert [(bundle.kind, bundle.message) for bundle in pair.bundles()] == [(0, 1), (1, 2), (1, 2)]


def test_pop_stops_at_its_limit_and_goes_on_in_order() -> None:
    pair = Pair(bundle_limit=1000)
    pair.client.multicast("g", b"x" * 5000, level=AGREED)
    pair.client.join("g")
    taken = [pair.client.pop_output(1)]
    assert len(taken[0]) == 1000 + 6
    while pair.client.pending_bytes:
        taken.append(pair.client.pop_output(1500))
        assert len(taken[-1]) <= 1500 + 1000 + 6
    requests = [request for data in taken for request in pair.daemon.receive(data)]
    assert len(requests) == 7
    assert pair.client.pop_output(1500) == b""


def test_a_message_of_the_greatest_size_goes_through_and_one_byte_more_does_not() -> None:
    pair = Pair(bundle_limit=60_000, limits=SessionLimits(backlog_cap_bytes=1 << 30))
    data = bytes(MAX_MESSAGE_BYTES)
    with pytest.raises(LocalProtocolError, match="67108865 bytes; at most 67108864"):
        pair.client.multicast("g", data + b"x", level=AGREED)
    pair.client.multicast("g", data, level=AGREED)
    assert pair.client.pending_bytes == MAX_MESSAGE_BYTES
    (message,) = pair.echo()
    assert isinstance(message, Message)
    assert message.data == data
    assert pair.client.pending_bytes == 0


def test_a_full_output_makes_the_sender_wait() -> None:
    pair = Pair(bundle_limit=60_000)
    data = b"x" * 1018
    while pair.client.writable:
        pair.client.multicast("g", data, level=AGREED)
    assert pair.client.pending_bytes == OUTPUT_CAP_BYTES
    pair.client.pop_output(1)
    assert pair.client.writable
    pair.client.pop_output(PLENTY)
    assert pair.client.pending_bytes == 0
