"""The watch of one side of a session over the other."""

from math import inf

from groupcomm.errors import Code
from groupcomm.events import Closed, MemberId
from groupcomm.session.client_session import ClientSession, ClientSessionState
from groupcomm.session.daemon_frames import encode_accepted, encode_welcome
from groupcomm.session.frames import FrameKind, encode_alive, encode_hello
from groupcomm.session.liveness import LATE_PART, PARTS, PeerWatch

PLENTY = 1 << 20
ANN = MemberId("#ann#a", 1)


def watch(timeout_s: float = 8.0, wait_s: float = 3.0) -> PeerWatch:
    made = PeerWatch(timeout_s, 0.0)
    made.note_wait(wait_s)
    return made


def test_silence_is_noticed_when_the_patience_is_over() -> None:
    one = watch(wait_s=0.0)
    assert not one.is_silent(0.0, reads=True)
    assert one.due == 8.0
    assert not one.is_silent(7.9, reads=True)
    assert one.is_silent(8.0, reads=True)


def test_bytes_begin_the_silence_anew() -> None:
    one = watch(wait_s=0.0)
    assert not one.is_silent(0.0, reads=True)
    one.heard_at = 5.0
    assert not one.is_silent(8.0, reads=True)
    assert one.due == 13.0
    assert one.is_silent(13.0, reads=True)


def test_a_side_that_stood_still_does_not_judge() -> None:
    one = watch(wait_s=0.0)
    assert not one.is_silent(0.0, reads=True)
    late = one.due + 8.0 / LATE_PART + 0.1
    assert not one.is_silent(late, reads=True), "it has not read yet what came meanwhile"
    assert one.due == late + 8.0
    assert one.is_silent(late + 8.0, reads=True)


def test_a_side_that_does_not_read_does_not_judge() -> None:
    one = watch(wait_s=0.0)
    assert not one.is_silent(8.0, reads=False)
    assert one.is_silent(16.0, reads=True)


def test_without_patience_nothing_is_silent() -> None:
    one = watch(0.0, wait_s=0.0)
    assert not one.is_silent(1e9, reads=True)
    assert one.due == inf


def test_a_heartbeat_is_due_only_if_nothing_else_has_left() -> None:
    one = watch(wait_s=3.0)
    assert not one.owes(0.9)
    assert one.owes(3.0 / PARTS)
    one.sent_at = 0.9  # a message
    assert not one.owes(1.0)
    one.note_sent(1.0)
    assert one.due == 1.0 + 3.0 / PARTS


# ---- a client ----


def admitted(*frames: bytes, daemon_timeout_s: float | None = 3.0) -> ClientSession:
    session = ClientSession("ann", daemon_timeout_s=daemon_timeout_s)
    session.pop_output(PLENTY)
    session.receive(encode_welcome(ANN, 1000) + b"".join(frames))
    return session


def alive(wait_s: float) -> bytes:
    return encode_alive(FrameKind.DAEMON_ALIVE, wait_s)


def test_a_client_sends_its_first_heartbeat_at_once_and_others_in_time() -> None:
    session = admitted(alive(9.0))
    own = encode_alive(FrameKind.CLIENT_ALIVE, 3.0)
    assert session.look_at == -inf
    assert session.look(100.0, reads=True) == []
    assert session.pop_output(PLENTY) == own
    session.note_heard(102.9)
    assert session.look_at == 103.0
    assert session.look(103.0, reads=True) == []
    assert session.pop_output(PLENTY) == own


def test_a_client_ends_a_session_whose_daemon_is_silent() -> None:
    session = admitted(alive(0.0))
    session.look(0.0, reads=True)
    (end,) = session.look(3.0, reads=True)
    assert isinstance(end, Closed)
    assert end.code == Code.CONNECTION_CLOSED
    assert "3 s" in end.reason
    assert (session.was_silent, session.state) == (True, ClientSessionState.CLOSED)
    assert session.look_at == inf


def test_a_daemon_that_is_too_old_is_not_watched() -> None:
    session = admitted()
    assert session.look_at == inf
    assert session.look(1e9, reads=True) == []
    assert session.pop_output(PLENTY) == b""


def test_no_heartbeat_is_queued_behind_output_that_waits() -> None:
    session = admitted(alive(3.0))
    session.join("g")
    waits = session.pending_bytes
    session.look(0.0, reads=True)
    assert session.pending_bytes == waits


def test_a_client_that_has_said_goodbye_does_not_judge() -> None:
    session = admitted(alive(3.0))
    session.look(0.0, reads=True)
    session.close()
    assert session.look_at == inf
    assert session.look(100.0, reads=True) == []


def test_accepted_numbers_rise() -> None:
    session = admitted()
    assert session.accepted is None
    session.receive(encode_accepted(0))
    assert session.accepted == 0
    session.receive(encode_accepted(7) + encode_accepted(5))
    assert session.accepted == 7


def test_who_wants_no_heartbeats_does_not_ask_for_them() -> None:
    session = ClientSession("ann", daemon_timeout_s=None, accepted=False, differences=False)
    assert session.pop_output(PLENTY) == encode_hello("ann", 2 | 16 | 1024 | 4096 | 8192)
