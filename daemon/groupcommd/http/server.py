"""The server: accepts connections of HTTP within bounds, and answers their requests.

It runs in a process of its own, and asks its daemon for values. One task serves a connection. All
work is done within the time of HTTP, so neither many requests nor many connections take a processor
from others.
"""

import ipaddress
import json
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, parse_qs, urlsplit

import h11
import trio
from cattrs import structure

from groupcomm.host.tcp import end_if_unanswered, set_up_tcp
from groupcomm.host.tls import PeerCertificate, TlsSocket, Wants
from groupcommd.config.http_table import HttpTable, read_http
from groupcommd.host.bounded_log import BoundedLog
from groupcommd.host.process import connection_capacity, resident_bytes
from groupcommd.http.channel import Channel
from groupcommd.http.connection import REQUEST_S, Answer, HttpConnection
from groupcommd.http.events import STALLED_S, EventStreams, event
from groupcommd.http.exposition import kind_for, pieces
from groupcommd.http.gate import Gate, Refusal
from groupcommd.http.page import PAGE, PAGE_POLICY
from groupcommd.http.places import Places
from groupcommd.http.source import Source
from groupcommd.http.turns import network_of
from groupcommd.http.work_share import WorkShare
from groupcommd.programs.credentials import TlsCredentials, read_tls_credentials
from groupcommd.programs.local_users import Admits, admission, tcp_user, unix_principal, unix_user
from groupcommd.programs.token_file import TokenBook

MAX_CONNECTIONS: Final = 2048

ACCEPT_PAUSE_S: Final = 0.1

ACCEPT_BURST_S: Final = 0.3
"""The time on a processor that accepting may take without a rest: that of some 2,000 connections.

Accepting has a share of its own. Otherwise who comes would wait for all that came or asked before.
"""

ACCEPTED_AT_ONCE: Final = 8
"""The connections that are accepted in one piece of work."""

CHECK_S: Final = 1.0
"""The time between two looks at rights that may have ended."""

PATHS: Final = ("/", "/livez", "/readyz", "/metrics", "/status.json", "/events")
_HEALTH: Final = frozenset(("/livez", "/readyz"))
_METHODS: Final = (b"GET", b"HEAD")
_WORDS: Final = {"/metrics": "metrics", "/status.json": "status", "/events": "events"}
"""The question to the daemon, by path."""

_YES: Final = b"true"
_log = logging.getLogger("groupcommd")


def now() -> datetime:
    """Return the time of the wall clock."""
    return datetime.now(UTC)


class HttpServer:
    """The HTTP server of one start of a daemon.

    Args:
        listening: the socket that accepts connections.
        table: names the files that authenticate requests.
        admits: returns whether a user of this host may ask.
        channel: the channel to the daemon.

    Attributes:
        source: the latest answers of the daemon.
        streams: the streams of events.
    """

    def __init__(
        self, listening: socket.socket, table: HttpTable, admits: Admits, channel: Channel
    ) -> None:
        self._socket = listening
        self._tls, self._gate = _read_files(table)
        self._admits = admits
        self._share = WorkShare()
        self._log = BoundedLog()
        most = max(1, min(MAX_CONNECTIONS, connection_capacity()))
        self._accepting = WorkShare(burst_s=ACCEPT_BURST_S)
        self._open = Places(most, self._share, self._accepting)
        self._answered: Counter[int] = Counter()
        self._refused: Counter[str] = Counter()
        self._preparing = trio.Lock()
        self._renewed = trio.Event()
        self._metrics: dict[bytes, tuple[bytes, bytes]] = {}  # by kind: the frame, and its text
        self.source = Source(channel, self.counts)
        self.streams = EventStreams(self._share, partial(self.source.get, "events"))

    def counts(self) -> dict[str, Any]:
        """Return the counts of this process, as `HttpCounts` names them."""
        return {
            "answered": {str(status): n for status, n in self._answered.items()},
            "refused": {**self._refused, "full": self._open.refused},
            "connections": len(self._open),
            "streams": len(self.streams),
            "cpu_s": time.process_time(),
            "resident_bytes": resident_bytes(),
        }

    # ---- rights that end ----

    def renew(self, table: HttpTable) -> None:
        """Read the files again, and end connections whose certificate they do not allow.

        Raises:
            ConfigError: a file is wrong, though the daemon has just read it.
        """
        old = self._tls
        self._tls, self._gate = _read_files(table)
        for each in self._open:
            if each.shown is not None and not self._still_trusts(each.shown, old):
                each.scope.cancel()
        self._renewed.set()

    def _still_trusts(self, shown: PeerCertificate, earlier: TlsCredentials | None) -> bool:
        tls = self._tls
        return tls is not None and earlier is not None and tls.still_trusts(shown, earlier)

    async def _end_invalid(self) -> None:
        """End what may not go on, for ever: each second, and whenever files were read again."""
        while True:
            with trio.move_on_after(CHECK_S):
                await self._renewed.wait()
            self._renewed = trio.Event()
            time = now()
            async with self._share:
                for each in self._open:
                    if each.shown is not None and each.shown.ends <= time:
                        each.scope.cancel()
            with suppress(Refusal):  # the daemon's loop does not run, so there are no events
                for principal in self.streams.principals:
                    if not await self._may_watch(principal):
                        self.streams.end(principal)

    async def _may_watch(self, principal: str) -> bool:
        if not self._gate.still_admits(principal):
            return False
        return await self.source.get("may", principal) == _YES

    # ---- connections ----

    async def run(self) -> None:
        """Accept connections for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.streams.run)
            nursery.start_soon(self._end_invalid)
            while True:
                await trio.lowlevel.wait_readable(self._socket)
                await self._open.wait_for_room()
                await self._accept(nursery)

    async def _accept(self, nursery: trio.Nursery) -> None:
        """Accept some of the connections that have come, and serve them."""
        async with self._accepting:
            try:
                for _ in range(ACCEPTED_AT_ONCE):
                    accepted, _ = self._socket.accept()
                    accepted.setblocking(False)
                    self._enter(accepted, nursery)
                    if self._open.is_full:
                        return
                return
            except BlockingIOError:
                return
            except OSError as error:
                self._refused["no room"] += 1
                _log.debug("HTTP: a connection was not accepted: %s", error)
        await trio.sleep(ACCEPT_PAUSE_S)

    def _enter(self, accepted: socket.socket, nursery: trio.Nursery) -> None:
        try:
            if accepted.family != socket.AF_UNIX:
                set_up_tcp(accepted, STALLED_S)
                end_if_unanswered(accepted, STALLED_S)  # a slow reader has no longer, either
            who, principal = self._identify(accepted)
        except OSError:
            self._refused["gone"] += 1
            accepted.close()
            return
        connection = self._open.open(who, accepted)
        connection.principal = principal if self._tls is None else None
        nursery.start_soon(self._serve, accepted, connection, who)

    async def _serve(
        self, accepted: socket.socket, connection: HttpConnection, who: Hashable
    ) -> None:
        """Serve one connection of a peer from its begin to its end; never raise."""
        try:
            with connection.scope:
                if self._tls is not None:
                    with trio.fail_after(REQUEST_S):
                        await self._authenticate_tls(connection, accepted, self._tls)
                await connection.serve(self)
        except Refusal as refused:
            self._refused[refused.reason] += 1
        except (OSError, ssl.SSLError, trio.TooSlowError):
            self._refused["gone"] += 1  # during its answer, or before its handshake was complete
        except Exception:
            self.note_error()
        finally:
            self._open.leave(who, connection)
            trio.lowlevel.notify_closing(accepted)
            accepted.close()

    def _identify(self, accepted: socket.socket) -> tuple[Hashable, str | None]:
        """Return the peer, and the principal that the system tells; None if none that may ask.

        Raises:
            OSError: the connection is broken.
        """
        if accepted.family == socket.AF_UNIX:
            uid = unix_user(accepted)
            return uid, None if uid is None else unix_principal(uid)
        host = accepted.getpeername()[0]
        uid = tcp_user(accepted) if ipaddress.ip_address(host).is_loopback else None
        if uid is None:
            return network_of(host), None
        return uid, unix_principal(uid) if self._admits(uid) else None

    async def _authenticate_tls(
        self, connection: HttpConnection, accepted: socket.socket, credentials: TlsCredentials
    ) -> None:
        """Complete the handshake, and note the owner of the shown certificate.

        Raises:
            Refusal: the certificate was revoked, or its authority removed, also meanwhile.
            ssl.SSLError, OSError: it has failed.
        """
        tls = TlsSocket(accepted, credentials.context)
        wants = Wants.READABLE
        while wants is not Wants.NOTHING:
            if wants is Wants.READABLE:
                await trio.lowlevel.wait_readable(accepted)
            else:
                await trio.lowlevel.wait_writable(accepted)
            async with connection.share:
                wants = tls.handshake()
        connection.socket = tls
        shown = tls.peer_certificate
        if shown is not None:
            if not self._still_trusts(shown, credentials):
                raise Refusal(401, "certificate", f"certificate {shown.serial:x} was revoked")
            connection.principal, connection.shown = shown.principal, shown

    # ---- answers ----

    def _wanted(self, request: h11.Request, principal: str | None) -> list[tuple[str, str]]:
        """Return the questions that the daemon must have answered; none for most refusals.

        Raises:
            Refusal: the request is not authentic, and must cost the daemon nothing.
        """
        path = _path(request)
        if request.method not in _METHODS or path not in PATHS:
            return []
        if path in _HEALTH:
            return [("ready", "")]
        may = "may", self._gate.identify(dict(request.headers), principal)
        return [may, (_WORDS[path], "")] if path in _WORDS else [may]

    def needs(self, request: h11.Request, principal: str | None) -> bool:
        """See Responder."""
        try:
            wanted = self._wanted(request, principal)
        except Refusal:
            return False
        if ("metrics", "") in wanted and not self._is_written(_kind(request)):
            return True  # the frames have come, and are not written yet
        return not all(self.source.is_fresh(*each) for each in wanted)

    async def prepare(self, request: h11.Request, principal: str | None) -> None:
        """See Responder."""
        for word, argument in self._wanted(request, principal):
            told = await self.source.get(word, argument)
            if word == "may" and told != _YES:
                return  # `respond` refuses it
            if word == "metrics":
                await self._write_metrics(_kind(request))

    def _is_written(self, kind: bytes) -> bool:
        frame, _ = self._metrics.get(kind, (None, b""))
        return frame is self.source.latest("metrics")

    async def _write_metrics(self, kind: bytes) -> None:
        """Write the latest metrics, piece by piece; one request does so for all that wait."""
        async with self._preparing:
            told = self.source.latest("metrics")
            if self._is_written(kind):
                return
            async with self._share:
                rows = json.loads(told)
            made: list[bytes] = []
            for piece in pieces(rows, kind):
                async with self._share:
                    made.append(piece())
            self._metrics[kind] = told, b"".join(made)

    def respond(self, request: h11.Request, principal: str | None) -> Answer:
        """See Responder."""
        if request.method not in _METHODS:
            raise Refusal(405, "method", "only GET and HEAD are answered: nothing changes by HTTP")
        path = _path(request)
        if path not in PATHS:
            raise Refusal(404, "path", f"no such path; there are: {', '.join(PATHS)}")
        if path in _HEALTH:
            return self._note(self._health(request))
        principal = self._gate.identify(dict(request.headers), principal)
        if self.source.latest("may", principal) != _YES:
            raise Refusal(
                403, "rule", f"{principal} may not see this: no rule of [[access]] allows it admin"
            )
        if path == "/":
            return self._note(Answer(PAGE, b"text/html; charset=utf-8", policy=PAGE_POLICY))
        if path == "/metrics":
            kind = _kind(request)
            return self._note(Answer(self._metrics[kind][1], kind))
        body = self.source.latest(_WORDS[path])
        if path == "/status.json":
            return self._note(Answer(body, b"application/json"))
        if request.http_version < b"1.1":
            raise Refusal(505, "version", "events need HTTP/1.1")
        if self.streams.is_full:
            raise Refusal(503, "streams", f"{len(self.streams)} streams are open: the most")
        return self._note(_events(body, principal))

    def _health(self, request: h11.Request) -> Answer:
        where = _target(request)
        if where.path == "/livez":
            return Answer(b"alive\n")
        return ready(
            json.loads(self.source.latest("ready")),
            wants_majority="majority" in parse_qs(where.query, True),
        )

    def refuse(self, refusal: Refusal) -> Answer:
        """See Responder."""
        self._refused[refusal.reason] += 1
        more: list[tuple[bytes, bytes]] = []
        if refusal.status == 401 and self._gate.tokens is not None:
            more.append((b"WWW-Authenticate", b'Basic realm="groupcomm", charset="UTF-8"'))
        if refusal.status == 405:
            more.append((b"Allow", b"GET, HEAD"))
        text = f"{refusal}\n".encode()
        return self._note(Answer(text, status=refusal.status, headers=tuple(more)))

    def _note(self, answer: Answer) -> Answer:
        self._answered[answer.status] += 1
        return answer

    def note_slow(self) -> None:
        """See Responder."""
        self._refused["slow"] += 1

    def note_error(self) -> None:
        """See Responder."""
        self._log.line("error", logging.ERROR, "HTTP: an error of this daemon", exc_info=True)

    async def stream(self, connection: HttpConnection, principal: str) -> None:
        """See Responder."""
        await self.streams.serve(connection, principal)


def _read_files(table: HttpTable) -> tuple[TlsCredentials | None, Gate]:
    """Read the files that authenticate requests.

    Raises:
        ConfigError: one is wrong.
    """
    config = read_http(table, Path())
    assert config is not None, "a daemon that does not answer HTTP has no process for it"
    tls = read_tls_credentials(config.tls) if config.tls is not None else None
    return tls, Gate(TokenBook(config.tokens) if config.tokens is not None else None)


def _events(body: bytes, principal: str) -> Answer:
    return Answer(event(body), b"text/event-stream", is_stream=True, principal=principal)


def _kind(request: h11.Request) -> bytes:
    """Return the type of the text of metrics that a request accepts."""
    return kind_for(b",".join(value for name, value in request.headers if name == b"accept"))


def _path(request: h11.Request) -> str:
    return _target(request).path


def _target(request: h11.Request) -> SplitResult:
    """Return the parts of what a request asks for.

    Raises:
        Refusal: it has none.
    """
    try:
        return urlsplit(request.target.decode("ascii", "replace"))
    except ValueError as error:  # such as //[
        raise Refusal(400, "request", f"no HTTP request: its target: {error}") from None


def ready(told: Mapping[str, Any], *, wants_majority: bool) -> Answer:
    """Return whether a daemon is in a view, and in one with a majority if that is asked for.

    A daemon that is about to stop is not ready, as it admits no new session.
    """
    if told["drains"]:
        return Answer(b"not ready: it is about to stop\n", status=503)
    if told["view"] is None:
        return Answer(b"not ready: it looks for a view\n", status=503)
    has = "with" if told["majority"] else "without"
    text = f"a view of {told['daemons']} daemons, {has} a majority\n"  # without names: all may ask
    if wants_majority and not told["majority"]:
        return Answer(f"not ready: {text}".encode(), status=503)
    return Answer(f"ready: {text}".encode())


async def serve(
    listening: socket.socket,
    channel: Channel,
    started: Callable[[HttpServer], None] = lambda _: None,
) -> None:
    """Answer HTTP for a daemon until it has ended.

    Args:
        listening: the socket that accepts connections.
        channel: the channel to the daemon, which first sends the settings.
        started: gets the server before it accepts connections.
    """
    settings = await channel.receive()
    if settings is None:
        return
    told = json.loads(settings.body)
    server = HttpServer(
        listening,
        structure(told["http"], HttpTable),
        admission(told["unix_for"], Path(told["unix"])),
        channel,
    )
    started(server)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        await server.source.run(
            server.streams.tell,
            lambda settings: server.renew(structure(json.loads(settings)["http"], HttpTable)),
        )
        nursery.cancel_scope.cancel()
