"""A channel: nothing is lost and nothing comes twice, whatever the way there does."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm_lessons.algorithms.direct.channel import (
    MAX_PARTS,
    PART_BYTES,
    WINDOW,
    Channel,
    Piece,
)
from groupcomm_lessons.algorithms.direct.settings import Timing

TIMING = Timing()


def talk(seed: int, sizes: list[int], *, in_order: bool) -> tuple[Channel, list[bytes]]:
    """Send over paths that lose a third, double and reorder; return what was delivered."""
    rng = Random(seed)
    sender, receiver = Channel(TIMING), Channel(TIMING)
    for number, size in enumerate(sizes):
        sender.put(number.to_bytes(2, "big") + bytes(size), in_order=in_order)
    got: list[bytes] = []
    now = 0.0
    for _ in range(10_000):
        if sender.is_idle:
            return sender, got
        pieces = [each for each in sender.due(now) for _ in range(rng.choice((0, 1, 1, 2)))]
        rng.shuffle(pieces)
        for piece in pieces:
            got += receiver.receive(piece)
        if rng.random() < 0.7:
            sender.acknowledged(*receiver.ack())
        now += 0.05
    raise AssertionError(f"nothing comes of it: {len(got)} of {len(sizes)} have come")


@given(st.integers(0, 2**32), st.lists(st.integers(0, 3 * PART_BYTES), max_size=300))
def test_all_comes_once_and_in_order_where_it_is_to(seed: int, sizes: list[int]) -> None:
    _, got = talk(seed, sizes, in_order=True)
    assert got == [number.to_bytes(2, "big") + bytes(size) for number, size in enumerate(sizes)]


@given(st.integers(0, 2**32), st.lists(st.integers(0, 3 * PART_BYTES), max_size=300))
def test_all_comes_once_in_any_order_else(seed: int, sizes: list[int]) -> None:
    _, got = talk(seed, sizes, in_order=False)
    assert sorted(got) == [
        number.to_bytes(2, "big") + bytes(size) for number, size in enumerate(sizes)
    ]


def test_what_waits_for_nothing_overtakes_and_what_is_in_order_does_not() -> None:
    sender, receiver = Channel(TIMING), Channel(TIMING)
    for data, in_order in ((b"first", False), (b"free", False), (b"behind", True)):
        sender.put(data, in_order=in_order)
    first, free, behind = sender.due(0.0)
    assert receiver.receive(behind) == []
    assert receiver.receive(free) == [b"free"]
    assert receiver.receive(first) == [b"first", b"behind"]
    assert receiver.ack() == (3, ())


def test_the_wait_for_an_acknowledgement_doubles_up_to_a_limit() -> None:
    sender = Channel(TIMING)
    sender.put(b"", in_order=True)
    times = []
    for _ in range(6):
        now = sender.deadline or 0.0
        times.append(now)
        assert len(sender.due(now)) == 1
    assert times == pytest.approx([0.0, 0.1, 0.3, 0.7, 1.5, 2.5])
    assert sender.repeated == 5


def test_a_gap_keeps_no_more_than_a_window_under_way() -> None:
    sender = Channel(TIMING)
    for _ in range(WINDOW + 5):
        sender.put(b"", in_order=False)
    sent = sender.due(0.0)
    assert len(sent) == WINDOW
    sender.acknowledged(0, tuple(piece.number for piece in sent[1:]))
    assert sender.due(0.0) == []
    assert sender.waiting_parts == 5
    sender.acknowledged(WINDOW, ())
    assert len(sender.due(0.0)) == 5


@pytest.mark.parametrize(
    "piece",
    [
        Piece(0, 0, 1, 0, b""),
        Piece(WINDOW + 2, 0, 1, 0, b""),
        Piece(1, 1, 2, 0, b""),  # its message would have begun before the first number
        Piece(3, 2, 2, 0, b""),
        Piece(2, 0, MAX_PARTS + 1, 0, b""),
        Piece(2, 1, 3, 0, b""),  # its message has two parts, as another part said
        Piece(2, 1, 2, 1, b""),
    ],
)
def test_a_part_that_cannot_be_changes_nothing(piece: Piece) -> None:
    receiver = Channel(TIMING)
    receiver.receive(Piece(1, 0, 2, 0, b"one "))
    assert receiver.receive(piece) == []
    assert receiver.receive(Piece(2, 1, 2, 0, b"whole")) == [b"one whole"]


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="is too large for a channel"):
        Channel(TIMING).put(bytes(MAX_PARTS * PART_BYTES + 1), in_order=True)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"repeat_s": 0.0}, "repeat_s is 0.0; it must be above 0"),
        ({"repeat_s": 2.0}, "above repeat_most_s = 1.0"),
        ({"silence_s": 3.0}, "it must be four times"),
    ],
)
def test_timeouts_that_contradict_each_other_are_refused(
    wrong: dict[str, float], match: str
) -> None:
    with pytest.raises(ConfigError, match=match):
        Timing(**wrong)
