"""Targets that are the two ports of a daemon as a whole: datagrams, and frames of programs.

An input is cut into pieces by its first bytes. One daemon processes many inputs, as a real one
does: after each of them no state of it may remain.
"""

import json
from collections.abc import Coroutine, Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, cast

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import Incarnation, Start
from groupcomm.engine import ClientBytes, ClientGone, ClientOpened, DaemonCore
from groupcomm.errors import BadDatagram
from groupcomm.host.tls import TlsSocket
from groupcomm.security.keys import KeyRing
from groupcomm.session.frames import HELLO_FRAME_BYTES
from groupcommd.http.gate import MAX_TOKEN_BYTES, read_authorization_untrusted
from groupcommd.operators.cluster import _decode_untrusted
from groupcommd.programs.connection import AuthenticatedPeer
from groupcommd.programs.credentials import TlsCredentials
from groupcommd.programs.listeners import (
    TlsListener,
    _read_frame,
)
from groupcommd.programs.peer_names import PeerRefused
from tests.groupcomm.engine.clients import PLENTY, Clients
from tests.verification.campaigns.fuzz.checks import Target

TOKEN: Final = "sensor:right"
INPUTS_EACH: Final = 10_000
"""The inputs of one daemon."""

_CONFIG: Final = CoreConfig(sites=(("a", "b", "c"),))


def pieces(raw: bytes) -> Iterator[bytes]:
    """Yield pieces: the first byte gives their number, 8 at most; as many further bytes give the
    length of each."""
    count = raw[0] % 8 if raw else 0
    at = 1 + count
    for size in raw[1:at]:
        yield raw[at : at + size]
        at += size
    yield raw[at:]


# ---- datagrams ----


def sealed_core(name: str, secret: bytes = bytes(32)) -> DaemonCore:
    """Return a daemon of three, with keys; its first join is out."""
    start = Start(name=name, incarnation=Incarnation(1, ord(name)))
    return DaemonCore(_CONFIG, start, keys=KeyRing({1: secret}, 1), now=0.0, wall=0.0)


class _Alone:
    """A daemon that nobody has answered yet."""

    def __init__(self) -> None:
        self.core = sealed_core("b")
        self.core.step(0.0, [], [])
        self.inputs = 0

    def send_all(self, datagrams: list[bytes]) -> None:
        """Check that unsealed or old datagrams change nothing; at most the daemon sends a
        challenge."""
        core = self.core
        dropped = core.counters.rejected.total()
        out = core.step(0.0, datagrams, []).datagrams
        core.deliver()
        assert core.counters.rejected.total() == dropped + len(datagrams)
        assert core.counters.foreign == core.counters.stale == core.counters.violations.total() == 0
        assert sum(len(said) for _, said in out) <= sum(map(len, datagrams))
        assert all(peer.heard_at < 0 for peer in core.membership.peers.values())
        assert core.view is None


_alone = lru_cache(maxsize=1)(_Alone)


def _udp(raw: bytes) -> None:
    alone = _alone()
    alone.inputs += 1
    if alone.inputs >= INPUTS_EACH:
        _alone.cache_clear()
    alone.send_all(list(pieces(raw)))


# ---- programs ----


class _Pieces:
    """Replaces a TLS socket after its handshake: the input, as it was cut."""

    peer_certificate = None

    def __init__(self, raw: bytes) -> None:
        self._left = [piece for piece in pieces(raw) if piece]

    def recv(self, size: int) -> bytes:
        if not self._left:
            return b""
        piece = self._left.pop(0)
        if len(piece) > size:
            self._left.insert(0, piece[size:])
        return piece[:size]


class _Tokens:
    """Replaces a file of tokens."""

    def name_of(self, token: str, now: datetime) -> str | None:
        return "sensor" if token == TOKEN else None


_NOTHING: Final = cast("Any", None)  # no socket to listen on, and no TLS below
_listener: Final = TlsListener(_NOTHING, TlsCredentials(_NOTHING, cast("Any", _Tokens())))


def _at_once(coroutine: Coroutine[Any, Any, tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    """Return the result of a coroutine that never has to wait."""
    try:
        coroutine.send(None)
    except StopIteration as stopped:
        return cast("tuple[bytes, bytes]", stopped.value)
    raise AssertionError("it waits although all is there")


def _admit(raw: bytes) -> tuple[AuthenticatedPeer, _Pieces]:
    """Run the TLS listener's part between handshake and session."""
    socket = _Pieces(raw)
    tls = cast("TlsSocket", socket)
    frame, first = _at_once(_read_frame(tls))
    peer = AuthenticatedPeer(tls, _listener._principal(tls, frame), first)
    assert TOKEN.encode() in frame
    return peer, socket


class _Host:
    """A daemon that is alone in its view, and the number of its sessions."""

    def __init__(self) -> None:
        self.clients = Clients()
        self.inputs = 0


_host = lru_cache(maxsize=1)(_Host)


def _session(first: bytes, rest: _Pieces, principal: str) -> None:
    """Run one session from its first byte to its end, after which no state of it remains."""
    host = _host()
    host.inputs += 1
    if host.inputs >= INPUTS_EACH:
        _host.cache_clear()
    clients = host.clients
    desk = clients.core.sessions
    number = clients.core.next_connection()
    clients.step(ClientOpened(number, principal), ClientBytes(number, first))
    while data := rest.recv(PLENTY):
        clients.step(ClientBytes(number, data))
    clients.step(ClientGone(number))
    clients.ended.clear()
    clients.questions.clear()
    assert not desk.by_connection


def _tls(raw: bytes) -> None:
    """Run the TLS listener: a program without a token does not get to a session."""
    try:
        peer, rest = _admit(raw)
    except (PeerRefused, ConnectionResetError):
        return
    assert peer.principal == "token:sensor"
    assert len(peer.received) <= 2 * HELLO_FRAME_BYTES
    _session(peer.received, rest, peer.principal)


def _local(raw: bytes) -> None:
    """By the unix socket or loopback: the first byte that is read is the session's."""
    _session(b"", _Pieces(raw), "unix:x")


def _cluster(raw: bytes) -> None:
    """Receive a report of another daemon: the kept values are plain, and can be shown as JSON."""
    found = _decode_untrusted(raw)
    if found is None:
        raise BadDatagram("report")
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def _authorization(raw: bytes) -> None:
    """The header of a request by HTTP: a token is a text, and no longer than a token may be."""
    token = read_authorization_untrusted(raw)
    if token is None:
        raise BadDatagram("authorization")
    assert len(token) <= 2 * MAX_TOKEN_BYTES


PORT_TARGETS: Final[dict[str, Target]] = {
    "daemon.operators.cluster": _cluster,
    "daemon.http.gate.read_authorization": _authorization,
    "daemon.udp": _udp,
    "daemon.listeners.tls": _tls,
    "daemon.listeners.local": _local,
}
