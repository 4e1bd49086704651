"""Frames between subscribers and archives decode to what was encoded, and bytes to nothing."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_client.history.frames import (
    HEAD,
    Channel,
    Find,
    More,
    Offer,
    Part,
    Piece,
    Read,
    Run,
    Stop,
    decode_untrusted,
    encode,
    events_of_untrusted,
)
from groupcomm_client.history.places import Line
from tests.groupcomm_client.history.pieces import piece_of

VIEW = ViewId(5, "a", 2**64 - 1)
BOB = MemberId("#bob#b", 2)

places = st.builds(
    Position,
    st.just(VIEW),
    st.integers(0, 2**64 - 1),
    st.integers(0, 3),
    st.integers(0, 9),
    st.just(0),
)
messages = st.builds(
    Message,
    sender=st.sampled_from([BOB, MemberId("#ann#a", 1)]),
    number=st.integers(0, 2**63),
    groups=st.sampled_from([("g",), ("g", "h")]),
    level=st.sampled_from([ServiceLevel.AGREED, ServiceLevel.SAFE]),
    type=st.integers(0, 65535),
    data=st.binary(max_size=20),
    bundle=places,
    index=st.integers(0, 99),
)
views = st.builds(
    GroupView,
    group=st.just("g"),
    id=places,
    members=st.just((BOB,)),
    cause=st.sampled_from(Cause),
    changed=st.just((BOB,)),
    vs_set=st.just(()),
    own=st.just(False),
)
daemons = st.builds(
    DaemonView,
    id=st.just(VIEW),
    daemons=st.just(("a", "b")),
    majority=st.sampled_from([True, None]),
)


@given(st.lists(messages | views | daemons, max_size=8))
def test_a_piece_has_the_events_that_were_put_into_it(events: list[Line]) -> None:
    at = Position(VIEW, 1, 0, 0, -1)
    piece = decode_untrusted(encode(piece_of(events, 7, 3, at, at, is_end=True)))
    assert isinstance(piece, Piece)
    assert (piece.number, piece.index, piece.after, piece.upto, piece.is_end) == (
        7,
        3,
        at,
        at,
        True,
    )
    assert events_of_untrusted(piece) == events


@pytest.mark.parametrize(
    "frame",
    [
        Find(1, ("g",)),
        Part(7, 2, True, b"some bytes"),
        Offer(1, True, ((Position(VIEW, 1, 0, 0, -1), Position(VIEW, 2, 0, 0, 0)),)),
        Read(1, ("g",), None, 17, 4),
        Read(1, ("g",), Position(VIEW, 1, 0, 0, 0), None, 4),
        Read(1, ("g",), None, 17, 4, by_channel=True),
        Channel(1, b"i" * 16, b"k" * 32, ("@here", "10.0.0.1:4810")),
        More(1, 8),
        Stop(1),
    ],
)
def test_a_frame_survives_its_way(frame: Find | Offer | Read | More | Stop | Channel) -> None:
    assert decode_untrusted(encode(frame)) == frame


@given(st.binary())
def test_any_bytes_decode_to_a_frame_or_to_nothing(data: bytes) -> None:
    decode_untrusted(data)
    decode_untrusted(HEAD + data)


@given(st.integers(-2, 3), st.integers(-2, 3), st.integers(-1, 4), st.integers(-1, 9))
def test_a_piece_that_contradicts_itself_has_no_events(
    sender: int, groups: int, count: int, level: int
) -> None:
    at = Position(VIEW, 1, 0, 0, 0)
    piece = piece_of([Message(BOB, 1, ("g",), ServiceLevel.AGREED, 0, b"x", at)], 1, 0, at, at)
    wrong = msgspec.structs.replace(piece, items=(Run(at, 0, 1, sender, groups, level, count),))
    found = events_of_untrusted(wrong)
    assert found is None or count == 1


def test_another_version_is_not_read() -> None:
    data = encode(Stop(1))
    assert decode_untrusted(data[:3] + b"\x02" + data[4:]) is None
