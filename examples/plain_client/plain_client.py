"""A client of groupcomm in plain Python: the standard library only, written from docs/protocol.

Events are dictionaries: "event" is a name in `FRAMES`, or "message", and the other keys are those
of the fields. There is one thread, which reads while it writes, as a client must: what it reads
waits in memory until the program calls `receive`.
"""

import select
import socket
import ssl
import struct
import time
from collections import deque
from contextlib import suppress
from typing import Any

UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE = range(6)
HELLO, BUNDLE, BYE, QUERY = 1, 2, 3, 4  # frames of a client
MESSAGES, FRAGMENT, JOIN, LEAVE = 0, 1, 3, 4  # kinds of bodies
CAPABILITIES = 2 | 16  # REFUSED and STOPPING frames
MOST_BYTES = 64 << 20  # of a frame, and of a message
MOST_UNSENT, MOST_UNFINISHED = 1 << 20, 128 << 20  # bytes; above them this client waits, or ends
LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

FRAMES = {
    16: "welcome version:B capabilities:I connection:Q limit:I name:name",
    17: "daemons counter:Q random_id:Q majority:3 names:names",
    18: "deliver placed:2 position:QHH sender:member kind:12 level:6 flags:B number:Q index:I"
    " count:I groups:groups payload:rest",
    19: "view position:QHHI cause:4 own:2 group:name members:list changed:list together:list",
    20: "ordered number:Q position:QHHI transitional:2",
    21: "undeliverable number:Q position:QHHI target:name",
    22: "abort connection:Q number:Q name:name",
    23: "closed code:i reason:text",
    24: "transition",
    25: "answer data:rest",
    27: "refused number:Q count:I verb:6 level:6 quota:2 group:name principal:name?",
    30: "stopping milliseconds:I addresses:names",
}
# Types are layouts of `struct`, a number (a u8 below it), or a case in `Fields.take`.

Event = dict[str, Any]
Member = tuple[str, int]  # private name and connection number
Slot = tuple[Member, int, int]  # of an unfinished message


class SessionClosed(Exception):
    """The session is over; the code is 0 after an orderly end."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{reason} (code {code})")
        self.code = code


def check(holds: object, text: str) -> None:
    """Raise ValueError unless a condition holds."""
    if not holds:
        raise ValueError(text)


class Fields:
    """The fields of something, in turn; raises ValueError if they are not there."""

    def __init__(self, raw: bytes) -> None:
        self.raw = memoryview(raw)

    def take(self, type_: str) -> Any:
        """Return the next field: a number, a tuple of numbers, or what another type stands for."""
        match type_:
            case "rest" | "text":
                rest = self.cut(len(self.raw))
                return rest.decode() if type_ == "text" else rest
            case "name" | "name?":
                name = self.cut(self.take("B")).decode()
                check(name or type_ == "name?", "a name is empty")
                return name
            case "names":
                return [self.take("name") for _ in range(self.take("H"))]
            case "groups":
                names, found = Fields(self.cut(self.take("H"))), list[str]()
                while names.raw:
                    found.append(names.take("name"))
                return found
            case "member":
                connection = self.take("Q")
                return self.take("name"), connection
            case "list":
                return [self.take("member") for _ in range(self.take("I"))]
            case _ if type_.isdigit():
                number = self.take("B")
                check(number < int(type_), f"{number} is not below {type_}")
                return number
        values = struct.unpack(f"!{type_}", self.cut(struct.calcsize(f"!{type_}")))
        return values if len(values) > 1 else values[0]

    def cut(self, size: int) -> bytes:
        """Return the next bytes."""
        check(size <= len(self.raw), "it is too short")
        taken, self.raw = self.raw[:size], self.raw[size:]
        return bytes(taken)


def decode(frame: bytes) -> Event:
    """Return a frame of a daemon, from its kind on, as an event; raise ValueError if it is none."""
    check(frame[0] in FRAMES, f"its kind is {frame[0]}")
    (name, *layout), fields = FRAMES[frame[0]].split(), Fields(frame[1:])
    event: Event = {"event": name}
    for key, _, type_ in (each.partition(":") for each in layout):
        event[key] = fields.take(type_)
    check(not fields.raw, "it is too long")
    check(event.get("names", 1) and event.get("count", 1), "it is about nothing")
    return event


def encode_name(text: str) -> bytes:
    """Return a name as bytes."""
    raw = text.encode()
    check(0 < len(raw) < 256, f"a name has 1 to 255 bytes, not {len(raw)}")
    return bytes([len(raw)]) + raw


def open_stream(address: str, ca: str | None) -> socket.socket:
    """Connect to a path, HOST:PORT or tls://HOST:PORT; `ca` is a file of authorities in PEM."""
    host, _, port = address.removeprefix("tls://").rpartition(":")
    if "/" in host or not host:
        local = socket.socket(socket.AF_UNIX)
        local.connect(address)
        return local
    stream = socket.create_connection((host, int(port)))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not address.startswith("tls://"):
        return stream
    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context.wrap_socket(stream, server_hostname=host)


class Client:
    """One session; `me` is its private name and connection number, `limit` its bundle limit.

    Any call may raise SessionClosed; what was delivered before can still be received.
    """

    def __init__(self, address: str, user: str, *, token: str = "", ca: str | None = None) -> None:
        """Connect to a path, HOST:PORT or tls://HOST:PORT; return once the daemon admits it."""
        check(not token or address.startswith("tls://"), "a token is only sent over TLS")
        self.me: Member = ("", 0)
        self.limit = self._number = self._held = 0
        self._view: tuple[int, str, int] | None = None  # counter, first daemon, random id
        self._in, self._out, self._events = bytearray(), bytearray(), deque[Event]()
        self._unfinished: dict[Slot, tuple[Any, dict[int, Any]]] = {}  # and fragments by index
        self._ended: SessionClosed | None = None
        self._socket = open_stream(address, ca)
        self._socket.setblocking(False)
        hello = struct.pack("!BI", 1, CAPABILITIES) + encode_name(user)
        self._send(HELLO, hello + (encode_name(token) if token else b""))
        while not self.limit:
            self._move(None)

    def join(self, group: str) -> int:
        """Ask to be a member; a view follows."""
        return self._request(JOIN, group)

    def leave(self, group: str) -> int:
        """Ask to be no member any more; a view follows."""
        return self._request(LEAVE, group)

    def multicast(self, to: list[str], data: bytes, level: int = AGREED, **options: int) -> int:
        """Send to groups and private names; return the message's number.

        Options: type (0 to 65,535), flags (1: not to this session), ordered (1: an event follows
        when the place of the message in the order is certain; AGREED and SAFE only).
        """
        names, type_ = b"".join(map(encode_name, to)), options.pop("type", 0)
        room = self.limit - 21 - len(names) - 8 * sum(each[0] == "#" for each in to)
        check(0 < len(to) < 256 and room > 10, f"{len(to)} destinations do not fit a bundle")
        check(len(data) <= MOST_BYTES, f"a message has at most {MOST_BYTES} bytes")
        self._number += 1
        if 6 + len(data) <= room:
            payload = struct.pack("!HI", type_, len(data)) + data
            self._bundle(MESSAGES, level, names, payload, **options)
            return self._number
        starts, ordered = range(0, len(data), room - 10), options.pop("ordered", 0)
        for index, start in enumerate(starts):
            payload = struct.pack("!HQ", type_, len(data)) + data[start : start + room - 10]
            asks = ordered if start == starts[-1] else 0
            place = {"index": index, "count": len(starts), "ordered": asks}
            self._bundle(FRAGMENT, level, names, payload, **place, **options)
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

    def receive(self, timeout_s: float | None = None) -> Event | None:
        """Return the next event, or None if none comes in this time."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._events:
            left = None if until is None else max(0.0, until - time.monotonic())
            self._move(left)
            if left == 0.0:
                break
        return self._events.popleft() if self._events else None

    def _request(self, kind: int, group: str) -> int:
        self._number += 1
        self._bundle(kind, AGREED, encode_name(group), b"")
        return self._number

    def _bundle(self, kind: int, level: int, names: bytes, payload: bytes, **more: int) -> None:
        flags, index, count = more.get("flags", 0), more.get("index", 0), more.get("count", 1)
        head = (more.get("ordered", 0), kind, level, flags, self._number, index, count, len(names))
        self._send(BUNDLE, struct.pack("!BBBBQIIH", *head) + names + payload)

    def _send(self, kind: int, body: bytes = b"") -> None:
        self.send_raw(struct.pack("!IB", len(body) + 1, kind) + body)

    def send_raw(self, raw: bytes) -> None:
        """Send bytes as they are; what comes meanwhile is kept."""
        self._out += raw
        self._move(0.0)
        while len(self._out) > MOST_UNSENT:
            self._move(None)

    def _end(self, code: int, reason: str) -> None:
        self._ended = self._ended or SessionClosed(code, reason)
        self._socket.close()

    def _move(self, timeout_s: float | None) -> None:
        """Write what the stream accepts, read what it has; wait for one of them up to a time."""
        if self._ended:
            raise self._ended
        select.select([self._socket], [self._socket] if self._out else [], [], timeout_s)
        try:
            if self._out:
                del self._out[: self._socket.send(self._out[:65536])]
        except LATER:
            pass
        except OSError:
            self._out.clear()  # the daemon is gone: what it has said before is still read
        try:
            data = self._socket.recv(262144)
            self._in += data
            self._split()
            if not data:
                self._end(-8, "the connection to the daemon was lost")
        except LATER:
            pass
        except OSError as error:
            self._end(-8, f"the connection to the daemon was lost: {error}")
        except (ValueError, struct.error) as error:
            self._end(-18, f"a frame of the daemon does not decode: {error}")

    def _split(self) -> None:
        while len(self._in) >= 4 and not self._ended:
            length = int.from_bytes(self._in[:4], "big")
            check(1 <= length <= MOST_BYTES, f"it has {length} bytes")
            if len(self._in) < 4 + length:
                return
            event = decode(bytes(self._in[4 : 4 + length]))
            del self._in[: 4 + length]
            self._on_event(event)

    def _on_event(self, event: Event) -> None:
        if "position" in event:
            check(self._view, "a position comes before the first view of the daemons")
            event["position"] = (self._view, *event["position"])  # sorts among all others
        match event["event"]:
            case "deliver":
                self._deliver(event)
            case "abort":
                self._drop((event["name"], event["connection"]), event["number"])
            case "closed":
                self._end(event["code"], event["reason"])
            case "welcome":
                valid = event["version"] == 1 and event["limit"] >= 300 and not self.limit
                check(valid, "it is no welcome")
                self.me, self.limit = (event["name"], event["connection"]), event["limit"]
            case kind:
                if kind == "daemons":
                    self._view = event["counter"], event["names"][0], event["random_id"]
                elif kind == "view" and event["cause"] == 2:  # the session of a member has ended
                    for member in event["changed"]:
                        self._drop(member, 0)
                self._events.append(event)

    def _deliver(self, event: Event) -> None:
        kind, index, count = event.pop("kind"), event.pop("index"), event.pop("count")
        payload, placed = Fields(event.pop("payload")), event.pop("placed")
        check(placed or not any(event["position"][1:]), "a position in a frame without one")
        event |= {"event": "message", "position": (*event["position"], 0) if placed else None}
        if kind > FRAGMENT:
            return
        limit, least = (count, 10) if kind == FRAGMENT else (1, 6 * count)
        valid = index < limit and 0 < len(event["groups"]) < 256 and least <= len(payload.raw)
        check(valid, "its body is broken")  # the daemon has checked that much
        add = self._add_fragment if kind == FRAGMENT else self._add_messages
        with suppress(ValueError):  # another client is to blame, and its bundle is dropped
            self._events += add(event, index, count, payload)

    def _add_messages(self, event: Event, _: int, count: int, payload: Fields) -> list[Event]:
        place, found = event["position"], list[Event]()
        for n, (type_, length) in enumerate([payload.take("HI") for _ in range(count)]):
            about = {"number": event["number"] + n, "position": place and (*place[:-1], n)}
            found.append(event | about | {"type": type_, "data": payload.cut(length)})
        check(not payload.raw, "it is too long")
        return found

    def _add_fragment(self, event: Event, index: int, count: int, payload: Fields) -> list[Event]:
        """Keep a fragment; return its message if that is whole."""
        (type_, length), part = payload.take("HQ"), payload.take("rest")
        check(part and count <= length <= MOST_BYTES, "a fragment does not add up")
        level, number, place = event["level"], event["number"], event.pop("position")
        about = (number, count, type_, length, event)
        # A sender has one unfinished message at FIFO or above, one UNRELIABLE, many RELIABLE ones.
        slot = event["sender"], min(level, FIFO), number if level == RELIABLE else 0
        if slot in self._unfinished and self._unfinished[slot][0][0] < number:
            self._forget(slot)
        its, parts = self._unfinished.setdefault(slot, (about, {}))
        check(its == about and index not in parts, "a fragment does not fit the others")
        parts[index] = part, place
        self._held += len(part) + 128
        if len(parts) == count:
            self._forget(slot)
            data = b"".join(parts[n][0] for n in range(count))
            check(len(data) == length, "a message does not add up")
            return [event | {"position": parts[count - 1][1], "type": type_, "data": data}]
        if self._held > MOST_UNFINISHED:
            self._forget(slot)
            if level > UNRELIABLE:  # it may not be lost
                self._end(-17, "unfinished messages fill the memory")
        return []

    def _drop(self, sender: Member, number: int) -> None:
        """Drop an unfinished message of a sender, or all with number 0."""
        for slot, (about, _) in list(self._unfinished.items()):
            if slot[0] == sender and number in (0, about[0]):
                self._forget(slot)

    def _forget(self, slot: Slot) -> None:
        self._held -= sum(len(part) + 128 for part, _ in self._unfinished.pop(slot)[1].values())
