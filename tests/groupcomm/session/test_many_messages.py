"""Many messages in one call: the same bundles as one call for each, in parts that are not long."""

from collections.abc import Iterator
from itertools import chain

import pytest

from groupcomm.errors import LocalProtocolError
from groupcomm.events import Answer, Message
from groupcomm.level import ServiceLevel
from groupcomm.session.bundler import PART_BYTES, in_parts
from groupcomm.session.client_session import ClientSession
from groupcomm.session.daemon_frames import encode_answer
from groupcomm.session.inbox import SEALED
from groupcomm.session.requests import Query
from groupcomm.wire.bundle import BODY_HEAD_BYTES
from groupcomm.wire.messages import MESSAGE_HEAD_BYTES
from tests.groupcomm.session.pair import PLENTY, Pair

AGREED = ServiceLevel.AGREED
LIMIT = 500
ROOM = LIMIT - BODY_HEAD_BYTES - 2  # the head, with the group "g"

MANY = {
    "one": [7],
    "equal": [20] * 60,
    "equal, and they fill a bundle": [ROOM // 10 - MESSAGE_HEAD_BYTES] * 25,
    "equal, and one byte more": [ROOM // 10 - MESSAGE_HEAD_BYTES + 1] * 25,
    "empty": [0] * 100,
    "different": [n * 7 % 90 for n in range(100)],
    "the last fits": [100, 50, ROOM - 150 - 3 * MESSAGE_HEAD_BYTES, 1],
    "the last does not fit": [100, 50, ROOM - 150 - 3 * MESSAGE_HEAD_BYTES + 1, 1],
    "a large one among them": [10, 10, 3 * LIMIT, 10, 10, 10],
    "large ones": [2 * LIMIT] * 3,
}


@pytest.mark.parametrize("sizes", MANY.values(), ids=MANY.keys())
def test_many_messages_leave_in_the_same_bundles_as_one_call_for_each(sizes: list[int]) -> None:
    messages = [bytes([n % 256]) * size for n, size in enumerate(sizes)]
    one, other = Pair(bundle_limit=LIMIT), Pair(bundle_limit=LIMIT)
    for data in messages:
        one.client.multicast("g", data, level=AGREED, type=3, self_discard=True)
    other.client.multicast_many("g", messages, level=AGREED, type=3, self_discard=True)
    assert other.client.pending_bytes == one.client.pending_bytes
    assert other.client.multicast("h", b"next", level=AGREED) == len(messages) + 1
    one.client.multicast("h", b"next", level=AGREED)
    assert other.client.pop_output(PLENTY) == one.client.pop_output(PLENTY)
    assert other.client.pending_bytes == 0


@pytest.mark.parametrize("at", [0, 1, 2])
def test_messages_before_one_that_is_wrong_are_queued(at: int) -> None:
    pair = Pair()
    messages: list[object] = [b"0", b"1", b"2"]
    messages[at] = "text"
    with pytest.raises(TypeError):
        pair.client.multicast_many("g", messages, level=AGREED)  # type: ignore[arg-type]
    assert pair.client.multicast("g", b"next", level=AGREED) == at + 1
    assert [m.data for m in pair.echo() if isinstance(m, Message)] == [
        *(b"%d" % n for n in range(at)), b"next"
    ]  # fmt: skip


def test_a_message_may_be_a_bytearray_among_others() -> None:
    pair = Pair()
    messages = [b"0", b"1", bytearray(b"2"), b"3", bytearray(b"4")]
    pair.client.multicast_many("g", messages, level=AGREED)  # type: ignore[arg-type]
    found = [(m.number, bytes(m.data)) for m in pair.echo() if isinstance(m, Message)]
    assert found == [(n + 1, b"%d" % n) for n in range(5)]


# ---- parts ----


def lengths(parts: Iterator[object]) -> list[int]:
    return [len(part) for part in parts]  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1018, 100_000, PART_BYTES, 2 * PART_BYTES])
def test_a_sequence_is_cut_into_parts_of_about_one_write(size: int) -> None:
    messages = [bytes(size)] * 600
    each = max(1, PART_BYTES // (MESSAGE_HEAD_BYTES + size))
    parts = list(in_parts(messages))
    assert list(chain.from_iterable(parts)) == messages
    assert set(lengths(iter(parts[:-1]))) == {each}
    assert list(in_parts(tuple(messages[:1]))) == [(messages[0],)]
    assert list(in_parts([])) == []


def test_an_iterable_is_read_a_part_at_a_time() -> None:
    read = 0

    def messages() -> Iterator[bytes]:
        nonlocal read
        for _ in range(600):
            read += 1
            yield bytes(1024 - MESSAGE_HEAD_BYTES)

    parts = in_parts(messages())
    each = PART_BYTES // 1024
    assert (len(next(parts)), read) == (each, each)
    rest = 600 - each
    assert lengths(parts) == [each] * (rest // each) + [rest % each]


def test_what_an_iterable_gave_before_it_failed_is_a_part_and_the_error_follows() -> None:
    def messages() -> Iterator[bytes]:
        yield b"1"
        yield b"2"
        raise RuntimeError("no more")

    parts = in_parts(messages())
    assert next(parts) == [b"1", b"2"]
    with pytest.raises(RuntimeError, match="no more"):
        next(parts)


# ---- the rest of a session that programs use one at a time ----


@pytest.mark.parametrize(
    ("size", "options", "text"),
    [
        (2**26 + 1, {}, "67108865 bytes"),
        (1, {"type": -1}, "type is -1"),
        (1, {"type": 65536}, "type is 65536"),
        (1, {"level": 6}, "must be a ServiceLevel"),
        (1, {"level": -1}, "must be a ServiceLevel"),
        (1, {"level": ServiceLevel.CAUSAL, "ordered": True}, "ordered=True at CAUSAL"),
        (1, {"groups": ()}, "one group at least"),
    ],
)
def test_what_multicast_would_refuse_is_refused_before_it_is_made(
    size: int, options: dict[str, object], text: str
) -> None:
    client = Pair().client
    arguments = {"groups": ("g",), "level": AGREED, "type": 0, "ordered": False} | options
    with pytest.raises(LocalProtocolError, match=text):
        client.check(arguments.pop("groups"), size, **arguments)  # type: ignore[arg-type]
    client.check(("g",), 2**26, level=AGREED, type=65535, ordered=True)
    client.check(("g",), 0, level=ServiceLevel.UNRELIABLE, type=0, ordered=False)
    assert client.pending_bytes == 0


def test_a_session_that_is_not_open_checks_and_asks_nothing() -> None:
    client = ClientSession("ann")
    with pytest.raises(LocalProtocolError, match="wait for Connected"):
        client.check(("g",), 1, level=AGREED, type=0, ordered=False)
    with pytest.raises(LocalProtocolError, match="wait for Connected"):
        client.ask("status")


def test_a_question_goes_to_the_daemon_and_its_answer_is_an_event() -> None:
    pair = Pair()
    pair.client.multicast("g", b"before", level=AGREED)
    pair.client.ask("status")
    _, query = pair.daemon.receive(pair.client.pop_output(PLENTY))
    assert isinstance(query, Query)
    assert query.text == "status"
    assert pair.client.receive(encode_answer(b"{}")) == [Answer(data=b"{}")]
    assert not pair.client.only_messages


@pytest.mark.parametrize("size", [10, 3000], ids=["whole", "in fragments"])
def test_a_sealed_message_is_seen_by_the_one_that_opens_it(size: int) -> None:
    pair = Pair(bundle_limit=LIMIT)
    pair.client.multicast("g", bytes(size), level=AGREED)
    assert len(pair.echo()) == 1
    assert pair.client.only_messages
    for sealed in (True, False):
        pair.client.multicast("g", (SEALED if sealed else b"") + bytes(size), level=AGREED)
        assert len(pair.echo()) == 1
        assert pair.client.only_messages is not sealed
