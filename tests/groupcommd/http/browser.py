"""A program that asks a daemon by HTTP, and its answers."""

import json
import socket
from typing import Any, Final

import attrs
import trio


@attrs.frozen
class Told:
    """One answer: names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def connect(at: str) -> trio.SocketStream:
    """Connect to HOST:PORT or unix:PATH."""
    if at.startswith("unix:"):
        made = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        await made.connect(at.removeprefix("unix:"))
    else:
        host, _, port = at.rpartition(":")
        made = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        await made.connect((host, int(port)))
    return trio.SocketStream(made)


async def read_answer(stream: trio.abc.ReceiveStream, *, head_only: bool = False) -> Told:
    """Read one answer, and nothing behind it."""
    data, body = b"", b""
    while not data.endswith(b"\r\n\r\n"):
        more = await stream.receive_some(1)
        assert more, f"it has closed after {data!r}"
        data += more
    first, *lines = data.decode().strip().split("\r\n")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    size = 0 if head_only else int(headers.get("content-length", 0))
    while len(body) < size:
        body += await stream.receive_some(size - len(body))
    return Told(int(first.split()[1]), headers, body)


OPEN: Final = "application/openmetrics-text"


def request(path: str, method: str = "GET", **headers: str) -> bytes:
    """Return the bytes of a request; underscores in the names of headers are dashes."""
    told = {"Host": "127.0.0.1", **{name.replace("_", "-"): v for name, v in headers.items()}}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items())]
    return "\r\n".join([*lines, "", ""]).encode()


async def ask(at: str, path: str, method: str = "GET", **headers: str) -> Told:
    """Ask once."""
    async with await connect(at) as stream:
        await stream.send_all(request(path, method, **headers))
        return await read_answer(stream, head_only=method == "HEAD")
