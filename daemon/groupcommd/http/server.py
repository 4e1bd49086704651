"""The server: accepts connections of HTTP within bounds, and answers their requests.

One task serves a connection. All work is done within the share of time that HTTP has, so neither
many requests nor many connections keep the daemon from its ring.
"""

import ipaddress
import json
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterable
from math import inf
from typing import Final
from urllib.parse import parse_qs, urlsplit

import h11
import trio

from groupcomm.engine import News, Status
from groupcomm.host.tls import TlsSocket, Wants
from groupcomm.membership.states import MembershipState
from groupcommd.credentials import TlsCredentials
from groupcommd.daemon_config import DaemonConfig
from groupcommd.http.connection import REQUEST_S, Answer, ConnectionState, HttpConnection
from groupcommd.http.events import EventStreams, event
from groupcommd.http.exposition import METRICS_KIND, exposition, pieces
from groupcommd.http.gate import Gate, Refusal
from groupcommd.http.history import History
from groupcommd.http.overview import Overview
from groupcommd.http.page import PAGE, PAGE_POLICY
from groupcommd.http.snapshot import HttpCounts, Snapshot, Snapshots
from groupcommd.http.watched_files import WatchedFiles
from groupcommd.http.work_share import WorkShare
from groupcommd.listeners import PeerRefused
from groupcommd.local_users import admission, tcp_user, unix_principal, unix_user
from groupcommd.sockets import HttpSocket
from groupcommd.status import DaemonParts, status

MAX_CONNECTIONS: Final = 2048

GRACE_S: Final = 0.5
"""A connection without a request has this time before it is closed to make room for another one."""

ACCEPT_PAUSE_S: Final = 0.1

PATHS: Final = ("/", "/livez", "/readyz", "/metrics", "/status.json", "/events")
_HEALTH: Final = frozenset(("/livez", "/readyz"))
_METHODS: Final = (b"GET", b"HEAD")
_log = logging.getLogger("groupcommd")


class HttpServer:
    """The HTTP server of one start of a daemon.

    Args:
        at: the listening address, and the files that authenticate requests.
        config: the configuration.
        parts: returns the parts of the daemon.
        most: the number of connections that may be open at one time.

    Attributes:
        snapshots: the snapshots from which answers are made.
        history: the latest views.
        files: the files whose age is reported.
        streams: the streams of events.
    """

    def __init__(
        self, at: HttpSocket, config: DaemonConfig, parts: Callable[[], DaemonParts], most: int
    ) -> None:
        self._at = at
        self._admits = admission(config.unix_for, config.unix)
        self._gate = Gate(at.tokens, lambda: parts().config.access)
        self._share = WorkShare()
        self._most = max(1, min(MAX_CONNECTIONS, most))
        self._open: dict[int, HttpConnection] = {}  # by number, the oldest first
        self._number = 0
        self._answered: Counter[int] = Counter()
        self._refused: Counter[str] = Counter()
        self._closed = trio.lowlevel.ParkingLot()
        self._preparing = trio.Lock()
        self._latest_metrics = b""
        self.history = History()
        self.files = WatchedFiles(config)
        self.snapshots = Snapshots(parts, self._counts, self.history, self.files)
        self._overview = Overview()
        self.streams = EventStreams(self._share, self._overview_now)
        self._makers: dict[str, tuple[bytes, Callable[[Snapshot], bytes]]] = {
            "/metrics": (METRICS_KIND, self._metrics),
            "/status.json": (b"application/json", _status_json),
            "/events": (b"text/event-stream", self._overview.make),
        }

    def _counts(self) -> HttpCounts:
        return HttpCounts(
            answered=dict(self._answered),
            refused=dict(self._refused),
            connections=len(self._open),
            streams=len(self.streams),
            work_s=self._share.used_s,
        )

    def note(self, news: Iterable[News]) -> None:
        """Note new views."""
        self.history.note(news)
        self.snapshots.forget()
        self.streams.tell()

    def _overview_now(self) -> bytes:
        return self._make("/events", self.snapshots.get())

    # ---- connections ----

    async def run(self) -> None:
        """Accept connections for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.files.watch)
            nursery.start_soon(self.streams.run)
            while True:
                await trio.lowlevel.wait_readable(self._at.socket)
                await self._wait_for_room()
                async with self._share:
                    try:
                        accepted, _ = self._at.socket.accept()
                    except BlockingIOError:
                        continue
                    except OSError as error:
                        self._refused["no room"] += 1
                        _log.debug("HTTP: a connection was not accepted: %s", error)
                        accepted = None
                if accepted is None:
                    await trio.sleep(ACCEPT_PAUSE_S)
                    continue
                accepted.setblocking(False)
                self._number += 1
                connection = self._open[self._number] = HttpConnection(accepted, self._share)
                nursery.start_soon(self._serve, accepted, connection, self._number)

    async def _wait_for_room(self) -> None:
        """Wait until there is room for one more connection; close some idle ones if necessary."""
        while len(self._open) >= self._most:
            waiting = [c for c in self._open.values() if c.state is ConnectionState.WAITING]
            at = min((c.since for c in waiting), default=inf) + GRACE_S
            if trio.current_time() >= at:
                min(waiting, key=lambda c: c.since).scope.cancel()
                self._refused["full"] += 1
                at = inf
            with trio.move_on_at(at):
                await self._closed.park()

    async def _serve(
        self, accepted: socket.socket, connection: HttpConnection, number: int
    ) -> None:
        """Serve one connection from its begin to its end; never raise."""
        try:
            with connection.scope:
                if self._at.tls is not None:
                    with trio.fail_after(REQUEST_S):
                        await self._authenticate_tls(connection, accepted, self._at.tls)
                else:
                    async with self._share:
                        connection.principal = self._principal(accepted)
                await connection.serve(self)
        except PeerRefused as refused:
            self._refused[refused.reason] += 1
        except (OSError, ssl.SSLError, trio.TooSlowError):
            self._refused["gone"] += 1  # while it was served, or before its handshake was complete
        except Exception:
            _log.exception("HTTP: a connection ends: an error of this daemon")
        finally:
            del self._open[number]
            trio.lowlevel.notify_closing(accepted)
            accepted.close()
            self._closed.unpark_all()

    def _principal(self, accepted: socket.socket) -> str | None:
        """Return the principal that the system tells; None if it tells none that may ask."""
        if accepted.family == socket.AF_UNIX:
            uid = unix_user(accepted)
            return None if uid is None else unix_principal(uid)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host = accepted.getpeername()[0]
        if not ipaddress.ip_address(host).is_loopback:
            return None
        uid = tcp_user(accepted)
        return unix_principal(uid) if uid is not None and self._admits(uid) else None

    async def _authenticate_tls(
        self, connection: HttpConnection, accepted: socket.socket, credentials: TlsCredentials
    ) -> None:
        """Complete the handshake, and note the owner of the shown certificate.

        Raises:
            PeerRefused: the certificate was revoked.
            ssl.SSLError, OSError: it has failed.
        """
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = TlsSocket(accepted, credentials.context)
        wants = Wants.READABLE
        while wants is not Wants.NOTHING:
            if wants is Wants.READABLE:
                await trio.lowlevel.wait_readable(accepted)
            else:
                await trio.lowlevel.wait_writable(accepted)
            async with self._share:
                wants = tls.handshake()
        connection.socket = tls
        shown = tls.peer_certificate
        if shown is not None:
            if credentials.revoked.has(shown):
                raise PeerRefused("certificate", f"certificate {shown.serial:x} was revoked")
            connection.principal = shown.principal

    def _metrics(self, snapshot: Snapshot) -> bytes:
        """Return the metrics that were prepared last: the snapshot has become too old since."""
        return self._latest_metrics or exposition(snapshot)

    # ---- answers ----

    def needs(self, request: h11.Request, principal: str | None) -> bool:
        """See Responder: metrics that are not fresh take some milliseconds."""
        if request.target.partition(b"?")[0] != b"/metrics" or request.method not in _METHODS:
            return False
        try:
            self._gate.check(dict(request.headers), principal)
        except Refusal:
            return False  # nobody without the right to an answer makes the daemon work
        return "/metrics" not in self.snapshots.get().answers

    async def prepare(self) -> None:
        """See Responder: make the metrics, piece by piece; of many at once, one does."""
        async with self._preparing:
            snapshot = self.snapshots.get()
            if "/metrics" in snapshot.answers:
                return
            made: list[bytes] = []
            for piece in pieces(snapshot):
                async with self._share:
                    made.append(piece())
            snapshot.answers["/metrics"] = b"".join(made)
            self._latest_metrics = snapshot.answers["/metrics"]

    def respond(self, request: h11.Request, principal: str | None) -> Answer:
        """See Responder."""
        if request.method not in _METHODS:
            raise Refusal(405, "method", "only GET and HEAD are answered: nothing changes by HTTP")
        where = urlsplit(request.target.decode("ascii", "replace"))
        path = where.path
        if path in _HEALTH:
            return self._note(self._health(path, where.query))
        if path not in PATHS:
            raise Refusal(404, "path", f"no such path; there are: {', '.join(PATHS)}")
        self._gate.check(dict(request.headers), principal)
        if path == "/":
            return self._note(Answer(PAGE, b"text/html; charset=utf-8", policy=PAGE_POLICY))
        body = self._make(path, self.snapshots.get())
        if path == "/events":
            if request.http_version < b"1.1":
                raise Refusal(505, "version", "events need HTTP/1.1")
            if self.streams.is_full:
                raise Refusal(503, "streams", f"{len(self.streams)} streams are open: the most")
            body = event(body)
        kind, _ = self._makers[path]
        return self._note(Answer(body, kind, is_stream=path == "/events"))

    def _make(self, path: str, snapshot: Snapshot) -> bytes:
        """Return an answer, made once for a snapshot."""
        if path not in snapshot.answers:
            snapshot.answers[path] = self._makers[path][1](snapshot)
        return snapshot.answers[path]

    def _health(self, path: str, query: str) -> Answer:
        if path == "/livez":
            return Answer(b"alive\n")
        return ready(
            self.snapshots.get().status, wants_majority="majority" in parse_qs(query, True)
        )

    def refuse(self, refusal: Refusal) -> Answer:
        """See Responder."""
        self._refused[refusal.reason] += 1
        more: list[tuple[bytes, bytes]] = []
        if refusal.status == 401 and self._at.tokens is not None:
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

    async def stream(self, connection: HttpConnection) -> None:
        """See Responder."""
        await self.streams.serve(connection)


def ready(found: Status, *, wants_majority: bool) -> Answer:
    """Return whether a daemon is in a view, and in one with a majority if that is asked for."""
    view = found.view
    if found.state is not MembershipState.OPERATIONAL or view is None:
        return Answer(b"not ready: it looks for a view\n", status=503)
    count = len(view.daemons)
    text = f"view {view.id} of {count} daemons, with{'' if found.majority else 'out'} a majority\n"
    if wants_majority and not found.majority:
        return Answer(f"not ready: {text}".encode(), status=503)
    return Answer(f"ready: {text}".encode())


def _status_json(snapshot: Snapshot) -> bytes:
    return json.dumps(status(snapshot.parts, snapshot.status), ensure_ascii=False).encode()
