"""The daemon's side of a handshake, event by event."""

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import Code, SessionError
from groupcomm.session.spread.handshake import Handshake, State

HELLO = b"\x04\x04\x00\x01\x03ann"
NULL = b"NULL".ljust(90, b"\0")


@given(cuts=st.lists(st.integers(1, 98), max_size=5))
def test_bytes_may_come_in_any_pieces(cuts: list[int]) -> None:
    handshake = Handshake()
    whole, answers = HELLO + NULL, []
    bounds = [0, *sorted({*cuts, len(HELLO)} - {len(whole)}), len(whole)]
    for start, end in itertools.pairwise(bounds):
        answers.append(handshake.receive_untrusted(whole[start:end]))
    assert b"".join(answers) == b"\x05NULL "
    assert handshake.state is State.DONE
    assert (handshake.user, handshake.wants_views) == ("ann", True)
    assert handshake.accept(b"#ann#a") == b"\x01\x05\x00\x01\x06#ann#a"


@pytest.mark.parametrize(
    ("hello", "answer"),
    [(b"\x03\x0e\x00\x00", b"\x01\x05\x00\x03#r#"), (b"\x03\x0f\x00\x00\x00", None)],
)
def test_older_clients_choose_no_method(hello: bytes, answer: bytes | None) -> None:
    handshake = Handshake()
    assert handshake.receive_untrusted(hello) == b""
    assert handshake.state is State.DONE
    assert handshake.wants_views is False
    assert handshake.accept(b"#r#") == (answer or b"\x01\x05\x00\x01\x03#r#")


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"\x02\x00", Code.REJECT_VERSION),
        (b"\x03\x00\x09ann", Code.REJECT_VERSION),
        (b"\x04\x04\x00\x01\x0b", Code.REJECT_NAME),
        (b"\x04\x04\x00\x01\xff", Code.REJECT_NAME),
        (b"\x04\x04\x00\x01\x02a#", Code.REJECT_NAME),
        (HELLO + bytes(90), Code.REJECT_AUTH),
        (HELLO + b"IP".ljust(90, b"\0"), Code.REJECT_AUTH),
        (HELLO + b"NULL".ljust(30, b"\0") + b"JUNK".ljust(60, b"\0"), Code.REJECT_AUTH),
        (HELLO + NULL + b"!", Code.ILLEGAL_SESSION),
    ],
)
def test_who_is_refused_learns_spreads_code_if_there_is_one(said: bytes, code: Code) -> None:
    handshake = Handshake()
    with pytest.raises(SessionError) as refused:
        handshake.receive_untrusted(said)
    assert refused.value.code == code
    told = b"" if code == Code.ILLEGAL_SESSION else (code & 0xFF).to_bytes(1, "big")
    assert handshake.reject(code) == told


@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_handshake_or_refused(data: bytes) -> None:
    handshake = Handshake()
    with contextlib.suppress(SessionError):
        handshake.receive_untrusted(data)
        assert handshake.state in State
