"""The HTTP of a connection before it is a WebSocket's: one request, and the answer to it."""

from typing import Final, NoReturn

import h11
import trio

from groupcomm_tools.web.websocket import Left

HEAD_BYTES: Final = 8_192
"""The most bytes of the line and headers of a request."""


class Http:
    """The one request of a connection, and the answer to it.

    Attributes:
        stream: the bytes of the connection.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._asks_head = False

    @property
    def rest(self) -> bytes:
        """Return what came behind the request."""
        return bytes(self._http.trailing_data[0])

    async def read(self) -> h11.Request:
        """Return the request, which has no body.

        Raises:
            Left: there is none.
        """
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(bytes(await self.stream.receive_some(HEAD_BYTES)))
        except h11.RemoteProtocolError as error:
            await self.refuse(error.error_status_hint, "http", str(error))
        if not isinstance(event, h11.Request):
            raise Left("gone", "the browser has gone")
        self._asks_head = event.method == b"HEAD"
        if event.method not in (b"GET", b"HEAD"):
            await self.refuse(405, "http", "ask with GET")
        return event

    async def respond(self, status: int, body: bytes, kind: str) -> None:
        """Answer, and read no more."""
        headers = [
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Cache-Control", "no-cache"),
            ("X-Content-Type-Options", "nosniff"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        sent = self._http.send(h11.Response(status_code=status, headers=headers)) or b""
        await self.stream.send_all(sent if self._asks_head else sent + body)

    async def refuse(self, status: int, reason: str, text: str) -> NoReturn:
        """Answer that it is refused.

        Raises:
            Left: always.
        """
        await self.respond(status, f"groupcomm web: {text}\n".encode(), "text/plain")
        raise Left(reason, text)
