"""A client of WebSockets for tests of the server: another program than a browser, and ruder."""

import json
from typing import Any

import trio
import wsproto
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Request, TextMessage

from groupcomm.errors import GroupCommError

PATIENCE_S = 20.0


class WebClient:
    """One connection.

    Attributes:
        stream: carries its bytes.
        pongs: whether it answers pings.
        status: the HTTP status of a refused handshake; 101 of an accepted one.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.pongs = True
        self.status = 101
        self._web = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        self._received: list[Event] = []
        self._number = 0
        self._aside: list[dict[str, Any]] = []

    async def shake_hands(self, **headers: str) -> None:
        """Ask for a WebSocket; `headers` are of the request, as `origin`."""
        extra = [(name.encode(), value.encode()) for name, value in headers.items()]
        request = Request(host="127.0.0.1", target="/", extra_headers=extra)
        await self.stream.send_all(self._web.send(request))
        self.status = getattr(await self.event(), "status_code", 101)

    async def event(self) -> Event:
        """Return the next event of the protocol; a pong goes back to a ping."""
        while not self._received:
            with trio.fail_after(PATIENCE_S):
                data = await self.stream.receive_some(65_536)
            self._web.receive_data(bytes(data) or None)
            self._received += self._web.events()
        event = self._received.pop(0)
        if isinstance(event, Ping) and self.pongs:
            await self.stream.send_all(self._web.send(event.response()))
        return event

    async def receive(self) -> dict[str, Any]:
        """Return the next frame, with its `data` if it is binary; of a close its code."""
        parts: list[Any] = []
        while True:
            event = await self.event()
            if isinstance(event, CloseConnection):
                await self.stream.aclose()
                return {"closed": event.code, "why": event.reason}
            if isinstance(event, TextMessage | BytesMessage):
                parts.append(event.data)
                if event.message_finished:
                    break
        whole = parts[0][:0].join(parts)
        if isinstance(whole, str):
            told: dict[str, Any] = json.loads(whole)
            return told
        end = 2 + int.from_bytes(whole[:2])
        return {**json.loads(whole[2:end]), "data": bytes(whole[end:])}

    async def send(self, told: dict[str, Any], data: bytes | None = None) -> None:
        """Send a frame."""
        text = json.dumps(told)
        event: Event = TextMessage(text)
        if data is not None:
            event = BytesMessage(len(text).to_bytes(2) + text.encode() + data)
        await self.stream.send_all(self._web.send(event))

    async def close(self) -> None:
        """Say that this is the end."""
        await self.stream.send_all(self._web.send(CloseConnection(code=1000)))
        while "closed" not in await self.receive():
            pass

    async def ask(self, do: str, data: bytes | None = None, **more: Any) -> dict[str, Any]:
        """Send a request; return its answer. Events before it wait for `next`."""
        self._number += 1
        await self.send({"id": self._number, "do": do, **more}, data)
        while "re" not in (told := await self.receive()) and "closed" not in told:
            self._aside.append(told)
        if "re" not in told or "error" in told:
            raise GroupCommError(told.get("error", f"{told}"))
        return told

    async def next(self, event: str) -> dict[str, Any]:
        """Return the next event of a kind."""
        while True:
            told = self._aside.pop(0) if self._aside else await self.receive()
            if told.get("event") == event or "closed" in told:
                return told
