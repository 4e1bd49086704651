"""Reassembly: the message or nothing, in bounded memory, for every order and sender."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import BadDatagram
from groupcomm.events import MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm.session import reassembly as module
from groupcomm.session.reassembly import PART_BYTES, UNFINISHED_BYTES, Reassembly
from groupcomm.wire.bundle import (
    Bundle,
    BundleKind,
    body_payload,
    decode_body_untrusted,
    encode_body,
)
from groupcomm.wire.messages import MAX_MESSAGE_BYTES, encode_fragment

ANN = MemberId("#ann#d1", 1)
BOB = MemberId("#bob#d2", 1)
RELIABLE = ServiceLevel.RELIABLE
UNRELIABLE = ServiceLevel.UNRELIABLE
FIFO = ServiceLevel.FIFO
VIEW = ViewId(1, "d1", 2)


def fragment(
    part: bytes,
    index: int,
    count: int,
    *,
    message: int = 1,
    level: int = RELIABLE,
    total: int = 0,
    type_: int = 3,
    groups: tuple[str, ...] = ("g",),
    flags: int = 0,
) -> Bundle:
    payload = encode_fragment(type_, total or count * len(part), part)
    body = encode_body(BundleKind.FRAGMENT, level, flags, message, groups, payload, index, count)
    return decode_body_untrusted(body)


def add(held: Reassembly, bundle: Bundle, sender: MemberId = ANN) -> Message | None:
    position = Position(VIEW, 10 + bundle.index, 0, 0, 0)
    return held.add(sender, bundle, body_payload(bundle.body), position)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_fragments_come_in_any_order(order: tuple[int, ...]) -> None:
    held = Reassembly(10_000)
    parts = [b"ab", b"cd", b"ef", b"gh"]
    got = [add(held, fragment(parts[index], index, 4)) for index in order]
    assert got[:3] == [None] * 3
    assert got[3] == Message(
        sender=ANN,
        number=1,
        groups=("g",),
        level=RELIABLE,
        type=3,
        data=b"abcdefgh",
        bundle=Position(VIEW, 13, 0, 0, 0),
    )
    assert held.held_bytes == 0


@given(data=st.data())
def test_interleaved_messages_of_several_senders_do_not_mix(data: st.DataObject) -> None:
    senders = [ANN, BOB, MemberId("#ann#d1", 2)]
    pieces = [
        (sender, number, index) for sender in senders for number in (1, 2**63) for index in range(3)
    ]
    held = Reassembly(100_000)
    messages: dict[tuple[MemberId, int], bytes] = {}
    for sender, number, index in data.draw(st.permutations(pieces)):
        part = f"{senders.index(sender)}/{number:020}/{index} ".encode()
        message = add(held, fragment(part, index, 3, message=number), sender)
        if message is not None:
            messages[message.sender, message.number] = message.data
    assert messages == {
        (sender, number): b"".join(
            f"{senders.index(sender)}/{number:020}/{index} ".encode() for index in range(3)
        )
        for sender in senders
        for number in (1, 2**63)
    }
    assert held.held_bytes == 0


def test_a_repeated_fragment_changes_nothing() -> None:
    held = Reassembly(10_000)
    assert add(held, fragment(b"ab", 0, 2)) is None
    assert add(held, fragment(b"XX", 0, 2)) is None
    message = add(held, fragment(b"cd", 1, 2))
    assert message is not None
    assert message.data == b"abcd"


@pytest.mark.parametrize(
    "other",
    [
        fragment(b"cd", 1, 3, total=4),
        fragment(b"cd", 1, 2, level=ServiceLevel.SAFE),
        fragment(b"cd", 1, 2, total=5),
        fragment(b"cd", 1, 2, type_=4),
        fragment(b"cd", 1, 2, groups=("h",)),
        fragment(b"cd", 1, 2, flags=1),
        fragment(b"cde", 1, 2, total=4),  # more bytes than the message has
    ],
)
def test_a_fragment_of_another_message_is_never_taken(other: Bundle) -> None:
    held = Reassembly(10_000)
    add(held, fragment(b"ab", 0, 2))
    with pytest.raises(BadDatagram):
        add(held, other)
    message = add(held, fragment(b"cd", 1, 2))
    assert message is not None
    assert message.data == b"abcd"


@pytest.mark.parametrize(
    "wrong",
    [
        fragment(b"ab", 0, 1, total=3),  # all parts, but not all bytes
        fragment(b"", 0, 1),
        fragment(b"ab", 0, 2, total=MAX_MESSAGE_BYTES + 1),
    ],
)
def test_a_fragment_that_cannot_be_is_refused_and_nothing_is_kept(wrong: Bundle) -> None:
    held = Reassembly(10_000)
    with pytest.raises(BadDatagram):
        add(held, wrong)
    assert held.held_bytes == 0


def test_an_abort_drops_one_message_or_all_of_a_sender() -> None:
    held = Reassembly(100_000)
    for sender in (ANN, BOB):
        for number in (1, 2, 3):
            add(held, fragment(b"ab", 0, 2, message=number), sender)
    one = held.held_bytes // 6
    held.drop(ANN, 2)
    held.drop(ANN, 9)
    assert held.held_bytes == 5 * one
    assert add(held, fragment(b"cd", 1, 2, message=2)) is None  # the message begins anew
    held.drop(ANN, 0)
    assert held.held_bytes == 3 * one
    held.drop(MemberId("#nobody#d", 4), 0)
    assert add(held, fragment(b"cd", 1, 2, message=2), BOB) is not None


def test_a_new_message_at_fifo_or_above_ends_the_one_before() -> None:
    held = Reassembly(100_000)
    add(held, fragment(b"ab", 0, 2, message=1, level=RELIABLE))
    add(held, fragment(b"ab", 0, 2, message=2, level=UNRELIABLE))
    add(held, fragment(b"ab", 0, 2, message=3, level=FIFO))
    add(held, fragment(b"ab", 0, 2, message=4, level=ServiceLevel.SAFE))
    assert add(held, fragment(b"cd", 1, 2, message=3, level=FIFO)) is None
    for number, level in ((1, RELIABLE), (2, UNRELIABLE), (4, ServiceLevel.SAFE)):
        assert add(held, fragment(b"cd", 1, 2, message=number, level=level)) is not None
    assert held.held_bytes == 0


def test_of_unreliable_messages_the_newest_is_kept() -> None:
    held = Reassembly(100_000)
    for number in range(1, 50):
        assert add(held, fragment(b"ab", 0, 2, message=number, level=UNRELIABLE)) is None
    assert held.held_bytes == UNFINISHED_BYTES + PART_BYTES + 2
    assert add(held, fragment(b"cd", 1, 2, message=48, level=UNRELIABLE)) is None
    assert add(held, fragment(b"cd", 1, 2, message=49, level=UNRELIABLE)) is not None


def test_a_sender_cannot_fill_more_than_its_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SENDER_CAP_BYTES", 10_000)
    held = Reassembly(1_000_000)
    for number in range(1, 100):
        add(held, fragment(b"x" * 500, 0, 2, message=number))
        assert held.held_bytes <= 10_000
    assert add(held, fragment(b"y" * 500, 1, 2, message=1)) is None  # the oldest is dropped
    assert add(held, fragment(b"y" * 500, 1, 2, message=99)) is not None
    big = [fragment(b"z" * 900, index, 100, message=200) for index in range(99)]
    for bundle in big:
        add(held, bundle, BOB)
        assert held.held_bytes <= 20_000


def test_above_the_cap_unreliable_messages_go_first() -> None:
    held = Reassembly(20_000)
    for connection in range(10):
        sender = MemberId("#u#d", connection)
        add(held, fragment(b"x" * 500, 0, 2, level=UNRELIABLE), sender)
    assert held.held_bytes > 10_000
    for number in range(1, 7):
        add(held, fragment(b"x" * 500, 0, 2, message=number))
    before = held.held_bytes
    for number in range(7, 12):
        add(held, fragment(b"x" * 500, 0, 2, message=number))
    assert before < 20_000
    assert held.held_bytes == 11 * (500 + PART_BYTES + UNFINISHED_BYTES)
    late = fragment(b"x" * 15_000, 0, 2, level=UNRELIABLE)
    add(held, late, BOB)
    assert held.held_bytes <= 20_000
    while held.held_bytes <= 20_000:  # this message may not be lost: the client must give up
        number += 1
        add(held, fragment(b"x" * 500, 0, 2, message=number))
