"""The server: accepts connections of browsers within bounds, and answers their requests by HTTP.

A request that is no WebSocket's gets the page, the JavaScript module, or the metrics.
"""

import ipaddress
import os
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from http.cookies import CookieError, SimpleCookie
from math import inf
from pathlib import Path
from typing import Final, cast

import attrs
import h11
import trio
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection
from wsproto.utilities import ProtocolError

from groupcomm.errors import RemoteProtocolError
from groupcomm.host.tcp import set_up_tcp
from groupcomm_tools.metrics_text import counter, gauge, metrics_text
from groupcomm_tools.web.http import Http
from groupcomm_tools.web.session import Daemon, open_session, serve_session
from groupcomm_tools.web.websocket import PING_S, Left, WebSocket
from groupcommd.http.turns import network_of
from groupcommd.programs.local_users import tcp_user

BEGIN_S: Final = 10.0
"""The time from the connection to the open session, with TLS, HTTP and the daemon's admission."""

SHARE: Final = 4
"""One of this many places is the most for the connections of one network."""

COOKIE: Final = "groupcomm_token"

HELP: Final = {
    "accepted": "Connections of browsers that were accepted.",
    "requests": "Requests of browsers to their sessions.",
    "events": "Events that were sent to browsers.",
    "ended": "Connections of browsers that were refused or ended.",
}
"""What the counts are, by their names."""

MODULE: Final = Path(__file__).with_name("groupcomm.js")


@attrs.frozen(kw_only=True)
class WebOptions:
    """The options of a server.

    Attributes:
        daemon: where its sessions are.
        origins: the origins of the pages that may connect, such as ``https://shop.example``.
        page: a file to show; None for none.
        tls: speaks TLS at the begin; None for none.
        connections: the most of them.
        message_bytes: the most bytes of a message, either way.
    """

    daemon: Daemon
    origins: frozenset[str]
    page: Path | None = None
    tls: ssl.SSLContext | None = None
    connections: int = 1000
    message_bytes: int = 1_048_576


class WebServer:
    """A web server.

    Args:
        options: its options.
        say: is told of what was refused or ended.

    Attributes:
        tls: what speaks TLS with connections from now on; None for none.
        counts: of accepted connections, requests and events.
        ended: of connections that were refused or ended, by reason.
    """

    def __init__(self, options: WebOptions, say: Callable[[str, str], None]) -> None:
        self._options = options
        self._say = say
        self.tls = options.tls
        self._open: Counter[str] = Counter()  # by network
        self.counts: Counter[str] = Counter(accepted=0, requests=0, events=0)
        self.ended: Counter[str] = Counter()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection from its begin to its end; never raise."""
        self.counts["accepted"] += 1
        try:
            network = self._enter(stream)
            self._open[network] += 1
            try:
                await self._serve(stream)
            finally:
                self._open[network] -= 1
                if not self._open[network]:
                    del self._open[network]
        except* Left as lefts:
            self._note(lefts)
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            self.ended["gone"] += 1
        except* Exception as errors:  # a fault of ours ends no other connection
            self.ended["fault"] += 1
            self._say("fault", f"internal error: {_single(errors)!r}")
        finally:
            await trio.aclose_forcefully(stream)

    def _note(self, lefts: BaseExceptionGroup[Left]) -> None:
        left = _first(lefts)
        self.ended[left.reason] += 1
        self._say(left.reason, str(left))

    def _enter(self, stream: trio.SocketStream) -> str:
        """Return the network of a peer that may come in.

        Raises:
            Left: it may not.
            OSError: it has gone.
        """
        made = cast(socket.socket, stream.socket)  # it has what the calls use
        set_up_tcp(made, 2 * PING_S)
        host = stream.socket.getpeername()[0]
        is_known = self._options.daemon.wants_token or tcp_user(made) == os.geteuid()
        if not is_known:
            raise Left("user", "without tokens only the server's own user may come in")
        if self._open.total() >= self._options.connections:
            raise Left("full", f"{self._options.connections} connections are open: the most")
        network = network_of(host)
        is_near = ipaddress.ip_address(host).is_loopback
        if not is_near and self._open[network] >= max(1, self._options.connections // SHARE):
            raise Left("network", f"network {network} has a quarter of all places")
        return network

    async def _serve(self, plain: trio.SocketStream) -> None:
        options, websocket = self._options, None
        try:
            with trio.move_on_after(BEGIN_S) as patience:
                async with AsyncExitStack() as stack:
                    stream: trio.abc.Stream = plain
                    if self.tls is not None:
                        stream = trio.SSLStream(plain, self.tls, server_side=True)
                    http = Http(stream)
                    request = await http.read()
                    if not _wants_websocket(request):
                        await self._answer(http, request, plain.socket.getpeername()[0])
                        return
                    connection, token = await self._shake_hands(http, request)
                    websocket = WebSocket(stream, connection, options.message_bytes)
                    if http.rest:
                        connection.receive_data(http.rest)
                    opened = await open_session(websocket, options.daemon, token, stack)
                    patience.deadline = inf
                    await serve_session(websocket, *opened, self.counts, options.message_bytes)
            if patience.cancelled_caught:
                raise Left("late", f"no session was open after {BEGIN_S:g} s")
            self.ended["closed"] += 1
        except* (Left, RemoteProtocolError) as errors:
            left = _first(errors)
            if websocket is not None:
                await websocket.close(left.code, str(left))
            raise left from None

    async def _shake_hands(self, http: Http, request: h11.Request) -> tuple[WSConnection, str]:
        """Accept a WebSocket; return it, and the token of its cookie, "" if there is none.

        A browser tells the origin of its page, which can be no other; the cookies of a program
        that tells none do not count.
        """
        headers = dict(request.headers)
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and origin not in self._options.origins:
            await http.refuse(403, "origin", f"pages of {origin} may not connect: --origin")
        handshake = WSConnection(ConnectionType.SERVER)
        try:
            handshake.initiate_upgrade_connection(list(request.headers), request.target)
            accepted = handshake.send(AcceptConnection())
        except (ProtocolError, h11.ProtocolError, ValueError) as error:
            await http.refuse(400, "http", str(error))
        await http.stream.send_all(accepted)
        cookies: SimpleCookie = SimpleCookie()
        with suppress(CookieError):
            cookies.load(headers.get(b"cookie", b"").decode("latin-1") if origin else "")
        return handshake, cookies[COOKIE].value if COOKIE in cookies else ""

    async def _answer(self, http: Http, request: h11.Request, host: str) -> None:
        path = request.target.partition(b"?")[0]
        if path == b"/groupcomm.js":
            await http.respond(200, MODULE.read_bytes(), "text/javascript")
        elif path == b"/" and self._options.page is not None:
            await http.respond(200, self._options.page.read_bytes(), "text/html")
        elif path == b"/metrics" and ipaddress.ip_address(host).is_loopback:
            await http.respond(200, self.metrics(), "text/plain")
        else:
            await http.refuse(404, "path", "there are /groupcomm.js, and WebSockets")
        self.ended["answered"] += 1

    def metrics(self) -> bytes:
        """Return the counts, as Prometheus reads them."""
        open_now: dict[tuple[str, ...], float] = {(): self._open.total()}
        rows = [gauge("groupcomm_web_connections", "Open connections.", (), open_now)]
        for name, count in self.counts.items():
            counted: dict[tuple[str, ...], float] = {(): count}
            rows.append(counter(f"groupcomm_web_{name}", HELP[name], (), counted))
        ended = {(reason,): float(count) for reason, count in self.ended.items()}
        rows.append(counter("groupcomm_web_ended", HELP["ended"], ("reason",), ended))
        return metrics_text(rows)


def _single(error: BaseException) -> BaseException:
    """Return the first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _first(group: BaseExceptionGroup[Left | RemoteProtocolError]) -> Left:
    """Return the first reason of those for which tasks have ended a connection."""
    error = _single(group)
    return error if isinstance(error, Left) else Left("protocol", str(error), 1002)


def _wants_websocket(request: h11.Request) -> bool:
    return dict(request.headers).get(b"upgrade", b"").lower() == b"websocket"
