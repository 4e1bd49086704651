"""A client of groupcomm in plain Python: the standard library only, written from docs/protocol.

It shows how little a client in any language needs. Events are dictionaries: "event" has the name
in `FRAMES`, or "message", and the other keys are those of the fields. There is one thread, which
reads while it writes, since the daemon may have to write before it can read.
"""

import select
import socket
import ssl
import struct
import time
from collections import deque
from typing import Any

UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE = range(6)
HELLO, BUNDLE, BYE, QUERY = 1, 2, 3, 4  # frames of a client
DELIVER, CAPABILITIES = 18, 2 | 16  # REFUSED and STOPPING frames
MESSAGES, FRAGMENT, JOIN, LEAVE = 0, 1, 3, 4  # kinds of bodies
MOST_BYTES = 64 * 1024 * 1024  # of a frame, and of a message
LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
BROKEN = (ValueError, IndexError, struct.error)

FRAMES = {
    16: "welcome version:B capabilities:I connection:Q limit:I name:name",
    17: "daemons counter:Q random_id:Q majority:B names:names",
    18: "deliver placed:B place:QHH connection:Q name:name kind:B level:B flags:B number:Q"
    " index:I count:I groups:section payload:rest",
    19: "view position:QHHI cause:B own:B group:name members:list changed:list together:list",
    20: "ordered number:Q position:QHHI transitional:B",
    21: "undeliverable number:Q position:QHHI target:name",
    22: "abort connection:Q number:Q name:name",
    23: "closed code:i reason:text",
    24: "transition",
    25: "answer data:rest",
    27: "refused number:Q count:I verb:B level:B quota:B group:name principal:name",
    30: "stopping milliseconds:I addresses:names",
}
"""The frames of a daemon, by kind: the name of the event, and its fields with their types."""

Event = dict[str, Any]
Member = tuple[str, int]  # private name and connection number


class SessionClosed(Exception):
    """The session is over; the code is 0 after an orderly end."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{reason} (code {code})")
        self.code = code


class Fields:
    """The fields of something, in turn; raises one of BROKEN if they are not there."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0

    def take(self, type_: str) -> Any:
        """Return the next field: a number, a tuple of numbers, or what another type stands for."""
        match type_:
            case "rest" | "text":
                rest = self.cut(len(self.raw) - self.at)
                return rest.decode() if type_ == "text" else rest
            case "name":
                return self.cut(self.take("B")).decode()
            case "names":
                return [self.take("name") for _ in range(self.take("H"))]
            case "section":
                names, found = Fields(self.cut(self.take("H"))), list[str]()
                while names.at < len(names.raw):
                    found.append(names.take("name"))
                return found
            case "list":
                numbers = (self.take("Q") for _ in range(self.take("I")))
                return [(self.take("name"), number) for number in numbers]
            case _:
                size = struct.calcsize("!" + type_)
                values = struct.unpack("!" + type_, self.cut(size))
                return values if len(values) > 1 else values[0]

    def cut(self, size: int) -> bytes:
        """Return the next bytes."""
        self.at += size
        if self.at > len(self.raw):
            raise ValueError("it is too short")
        return self.raw[self.at - size : self.at]

    def end(self) -> None:
        """Raise ValueError if anything is left."""
        if self.at != len(self.raw):
            raise ValueError("it is too long")


def encode_name(text: str) -> bytes:
    """Return a name as bytes."""
    return struct.pack("!B", len(text.encode())) + text.encode()


class Client:
    """One session; `me` is its private name and connection number.

    Any call may raise SessionClosed; what was delivered before can still be received.
    """

    def __init__(self, address: str, user: str, *, token: str = "", ca: str | None = None) -> None:
        """Connect to a path, HOST:PORT or tls://HOST:PORT; return once the daemon admits it."""
        self.me: Member = ("", 0)
        self.limit = self._number = self._held = 0
        self._in, self._out, self._events = bytearray(), bytearray(), deque[Event]()
        self._unfinished: dict[tuple[Member, int], tuple[Any, dict[int, bytes]]] = {}
        self._ended: SessionClosed | None = None
        self._socket = self._connect(address, ca)
        self._socket.setblocking(False)
        hello = struct.pack("!BI", 1, CAPABILITIES) + encode_name(user)
        self._send(HELLO, hello + (encode_name(token) if token else b""))
        while not self.limit:
            self._check()
            self._move(None)

    def _connect(self, address: str, ca: str | None) -> socket.socket:
        host, _, port = address.removeprefix("tls://").rpartition(":")
        if "/" in address.removeprefix("tls://"):
            local = socket.socket(socket.AF_UNIX)
            local.connect(address)
            return local
        made = socket.create_connection((host, int(port)))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not address.startswith("tls://"):
            return made
        context = ssl.create_default_context(cafile=ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context.wrap_socket(made, server_hostname=host)

    # ---- requests ----

    def join(self, group: str) -> int:
        """Ask to be a member; a view follows."""
        return self._request(JOIN, AGREED, [group])

    def leave(self, group: str) -> int:
        """Ask to be no member any more; a view follows."""
        return self._request(LEAVE, AGREED, [group])

    def multicast(self, to: list[str], data: bytes, level: int = AGREED, **options: int) -> int:
        """Send to groups and private names; return the message's number.

        Options: type (0 to 65,535), flags (1: not to this session), ordered (1: an event follows
        when the place of the message in the order is certain; AGREED and SAFE only).
        """
        type_, room = options.pop("type", 0), self.limit - 21
        room -= sum(len(encode_name(each)) + 8 * each.startswith("#") for each in to)
        if 6 + len(data) <= room:
            head = struct.pack("!HI", type_, len(data))
            return self._request(MESSAGES, level, to, head + data, **options)
        starts, ordered = range(0, len(data), room - 10), options.pop("ordered", 0)
        for index, start in enumerate(starts):
            payload = struct.pack("!HQ", type_, len(data)) + data[start : start + room - 10]
            place = {"index": index, "count": len(starts)}
            place["ordered"] = ordered if start == starts[-1] else 0
            self._request(FRAGMENT, level, to, payload, **place, **options)
        return self._number

    def query(self, question: str) -> None:
        """Ask the daemon about itself; an answer follows."""
        self._send(QUERY, question.encode())

    def close(self) -> None:
        """Leave in order; return once nothing that was sent is in doubt."""
        self._send(BYE)
        while not self._ended:
            self._move(None)
        if self._ended.code:
            raise self._ended

    def _request(
        self, kind: int, level: int, groups: list[str], payload: bytes = b"", **more: int
    ) -> int:
        index, count = more.get("index", 0), more.get("count", 1)
        self._number += index == 0  # all fragments of a message have one number
        names = b"".join(map(encode_name, groups))
        head = (kind, level, more.get("flags", 0), self._number, index, count, len(names))
        body = struct.pack("!BBBQIIH", *head) + names + payload
        self._send(BUNDLE, struct.pack("!B", more.get("ordered", 0)) + body)
        return self._number

    # ---- bytes ----

    def receive(self, timeout_s: float | None = None) -> Event | None:
        """Return the next event, or None if none comes in this time."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._events:
            self._check()
            left = None if until is None else max(0.0, until - time.monotonic())
            self._move(left)
            if left == 0.0:
                break
        return self._events.popleft() if self._events else None

    def send_raw(self, raw: bytes) -> None:
        """Send bytes as they are; what comes meanwhile is kept."""
        self._out += raw
        while self._out and not self._ended:
            self._move(None)

    def _send(self, kind: int, body: bytes = b"") -> None:
        self._check()
        self.send_raw(struct.pack("!IB", len(body) + 1, kind) + body)

    def _check(self) -> None:
        if self._ended:
            raise self._ended

    def _end(self, code: int, reason: str) -> None:
        self._ended = self._ended or SessionClosed(code, reason)
        self._socket.close()

    def _move(self, timeout_s: float | None) -> None:
        """Write what the stream accepts and read what it has; wait for one of them up to a time."""
        select.select([self._socket], [self._socket] if self._out else [], [], timeout_s)
        try:
            if self._out:
                del self._out[: self._socket.send(self._out[:65536])]
        except LATER:
            pass
        except OSError:
            self._out.clear()  # the daemon is gone: what it has said before is still read
        try:
            while not self._ended:
                data = self._socket.recv(65536)
                if not data:
                    return self._end(-8, "the connection to the daemon was lost")
                self._in += data
                self._split()
        except LATER:
            pass
        except OSError as error:
            self._end(-8, f"the connection to the daemon was lost: {error}")
        except BROKEN as error:
            self._end(-18, f"a frame of the daemon does not decode: {error}")

    def _split(self) -> None:
        while len(self._in) >= 4 and not self._ended:
            (length,) = struct.unpack_from("!I", self._in)
            if not 1 <= length <= MOST_BYTES:
                raise ValueError(f"it has {length} bytes")
            if len(self._in) < 4 + length:
                return
            kind, fields = self._in[4], Fields(bytes(self._in[5 : 4 + length]))
            del self._in[: 4 + length]
            if kind not in FRAMES:
                raise ValueError(f"its kind is {kind}")
            name, *layout = FRAMES[kind].split()
            event: Event = {"event": name}
            for key, _, type_ in (field.partition(":") for field in layout):
                event[key] = fields.take(type_)
            fields.end()
            self._on_event(event)

    # ---- events ----

    def _on_event(self, event: Event) -> None:
        match event["event"]:
            case "deliver":
                self._deliver(event, (event.pop("name"), event.pop("connection")))
            case "abort":
                self._drop((event["name"], event["connection"]), event["number"])
            case "closed":
                self._end(event["code"], event["reason"])
            case "welcome":
                if event["version"] != 1 or event["limit"] < 300 or self.limit:
                    raise ValueError("it is no welcome")
                self.me, self.limit = (event["name"], event["connection"]), event["limit"]
            case "view" if event["cause"] == 2:  # the session of a member has ended
                self._drop(event["changed"][0], 0)
                self._events.append(event)
            case _:
                self._events.append(event)

    def _deliver(self, event: Event, sender: Member) -> None:
        kind, placed, place = event.pop("kind"), event.pop("placed"), event.pop("place")
        count, number, found = event.pop("count"), event["number"], list[tuple[int, bytes]]()
        index, payload = event.pop("index"), Fields(event.pop("payload"))
        if index >= count:
            raise ValueError("its body is broken")
        try:
            if kind == MESSAGES:
                heads = [payload.take("HI") for _ in range(count)]
                found = [(type_, payload.cut(length)) for type_, length in heads]
                payload.end()
            elif kind == FRAGMENT:
                about = (count, event["level"], event["groups"], *payload.take("HQ"))
                found = self._add_part((sender, number), about, index, payload.take("rest"))
        except BROKEN:
            return  # another client is to blame, and its bundle is dropped
        for n, (type_, data) in enumerate(found):
            message = {"event": "message", "sender": sender, "number": number + n}
            message["position"] = (*place, n) if placed else None
            self._events.append(event | message | {"type": type_, "data": data})

    # ---- messages in fragments ----

    def _add_part(
        self, key: tuple[Member, int], about: Any, index: int, part: bytes
    ) -> list[tuple[int, bytes]]:
        """Add a fragment; return the type and the data of the message if it is whole."""
        (sender, number), (count, level, _, type_, length) = key, about
        if key not in self._unfinished and level != RELIABLE:
            for other, (its, _) in list(self._unfinished.items()):
                if other[0] == sender and its[1] != RELIABLE and (its[1] > 0) == (level > 0):
                    if other[1] > number:
                        return []  # a newer message of the sender has replaced this one
                    self._drop(*other)
        its, parts = self._unfinished.setdefault(key, (about, {}))
        if its != about or not part or length > MOST_BYTES or index in parts:
            return []
        parts[index] = part
        self._held += len(part)
        if self._held > 4 * MOST_BYTES:
            self._end(-17, "unfinished messages fill the memory")
        if len(parts) < count:
            return []
        self._drop(sender, number)
        data = b"".join(parts[at] for at in range(count))
        return [(type_, data)] if len(data) == length else []

    def _drop(self, sender: Member, number: int) -> None:
        for key in [k for k in self._unfinished if k[0] == sender and number in (0, k[1])]:
            self._held -= sum(map(len, self._unfinished.pop(key)[1].values()))
