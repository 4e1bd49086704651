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
REFUSALS = 2  # the capability that brings "refused"
MOST_BYTES = 64 << 20  # of a frame, and of a message
FOREVER_S = 1e9

# A type is a layout of `struct`, a number (a u8 below it), or a case in `Fields.take`.
FRAMES = {
    16: "welcome version:B capabilities:I connection:Q limit:I name:name",
    17: "daemons counter:Q random_id:Q majority:5 names:names",
    18: "deliver placed:2 position:QHH sender:member kind:12 level:6 flags:B number:Q index:I"
    " count:I groups:groups payload:rest",
    19: "view position:QHHI cause:4 own:2 group:name members:list changed:list together:list",
    20: "ordered number:Q position:QHHI transitional:2",
    21: "undeliverable number:Q position:QHHI target:name",
    22: "abort connection:Q number:Q name:name",
    23: "closed code:i reason:text",
    24: "transition",
    25: "answer data:rest",
    27: "refused number:Q count:I verb:6 level:6 bound:5 group:name principal:name?",
}

Event = dict[str, Any]
Member = tuple[str, int]  # private name and connection number


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
            case "member":
                return (self.take("Q"), self.take("name"))[::-1]
            case "names":
                return [self.take("name") for _ in range(self.take("H"))]
            case "list":
                return [self.take("member") for _ in range(self.take("I"))]
            case "groups":  # names up to a number of bytes
                part = Fields(self.cut(self.take("H")))
                return [part.take("name") for _ in iter(lambda: bool(part.raw), False)]
            case _ if type_.isdigit():
                check((number := self.take("B")) < int(type_), f"{number} is not below {type_}")
                return number
            case _:
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
    types = dict(each.split(":") for each in layout)
    event = {"event": name} | {key: fields.take(type_) for key, type_ in types.items()}
    check(not fields.raw, "it is too long")
    check(event.get("names", 1) and event.get("count", 1), "it is about nothing")
    return event


def encode_name(text: str) -> bytes:
    """Return a name as bytes."""
    raw = text.encode()
    check(0 < len(raw) < 256, f"a name has 1 to 255 bytes, not {len(raw)}")
    return bytes([len(raw)]) + raw


class Client:
    """A session on a stream; `me` is its private name and connection number.

    Any call may raise SessionClosed; what was delivered before can still be received.
    """

    def __init__(self, stream: socket.socket, user: str, token: str = "") -> None:
        """Greet the daemon at the other end, if need be by a token; return once it admits us."""
        stream.setblocking(False)
        self._stream, self._in, self._events = stream, bytearray(), deque[Event]()
        self.me, self._limit, self._number = ("", 0), 0, 0
        self._view: tuple[int, str, int] | None = None  # counter, first daemon, random id
        self._unfinished: dict[Any, tuple[Any, dict[int, Any]]] = {}  # messages, fragments by index
        self._ended: SessionClosed | None = None
        hello = struct.pack("!BI", 1, REFUSALS) + encode_name(user)
        self._send(HELLO, hello + (encode_name(token) if token else b""))
        while not self._limit:
            self._move()

    def join(self, group: str) -> int:
        """Ask to be a member; a view follows."""
        return self._bundle(JOIN, AGREED, encode_name(group), b"")

    def leave(self, group: str) -> int:
        """Ask to be no member any more; a view follows."""
        return self._bundle(LEAVE, AGREED, encode_name(group), b"")

    def multicast(self, to: list[str], data: bytes, level: int = AGREED, **options: int) -> int:
        """Send to groups and private names; return the message's number.

        Options: type (0 to 65,535), flags (1: not to this session), ordered (1: an event follows
        when the place of the message in the order is certain; AGREED and SAFE only).
        """
        names, type_ = b"".join(map(encode_name, to)), options.pop("type", 0)
        room = self._limit - 21 - len(names) - 8 * sum(each[0] == "#" for each in to)
        check(0 < len(to) < 256 and room > 10, f"{len(to)} destinations do not fit a bundle")
        check(len(data) <= MOST_BYTES, f"a message has at most {MOST_BYTES} bytes")
        if 6 + len(data) <= room:
            payload = struct.pack("!HI", type_, len(data)) + data
            return self._bundle(MESSAGES, level, names, payload, **options)
        ordered, starts = options.pop("ordered", 0), range(0, len(data), room - 10)
        for index, start in enumerate(starts):
            payload = struct.pack("!HQ", type_, len(data)) + data[start : start + room - 10]
            place = {
                "index": index,
                "count": len(starts),
                "ordered": ordered * (start == starts[-1]),
            }
            self._bundle(FRAGMENT, level, names, payload, **place, **options)
        return self._number

    def query(self, question: str) -> None:
        """Ask the daemon about itself; an answer follows."""
        self._send(QUERY, question.encode())

    def close(self) -> None:
        """Leave in order; return once nothing that was sent is in doubt."""
        self._send(BYE)
        while not self._ended:
            self._move()
        if self._ended.code:
            raise self._ended

    def receive(self, timeout_s: float = FOREVER_S) -> Event | None:
        """Return the next event, or None if none comes in this time."""
        until, left = time.monotonic() + timeout_s, timeout_s
        while not self._events:
            self._move(left)
            if not left:
                return None
            left = max(0.0, until - time.monotonic())
        return self._events.popleft()

    def send_raw(self, raw: bytes) -> None:
        """Send bytes as they are; what comes meanwhile is kept."""
        while raw:
            raw = raw[self._move(FOREVER_S, raw) :]

    def _send(self, kind: int, body: bytes = b"") -> None:
        self.send_raw(struct.pack("!IB", len(body) + 1, kind) + body)

    def _bundle(self, kind: int, level: int, names: bytes, payload: bytes, **more: int) -> int:
        ordered, flags = more.get("ordered", 0), more.get("flags", 0)
        index, count = more.get("index", 0), more.get("count", 1)
        self._number += index == 0  # all fragments of a message have one number
        head = ordered, kind, level, flags, self._number, index, count, len(names)
        self._send(BUNDLE, struct.pack("!BBBBQIIH", *head) + names + payload)
        return self._number

    def _move(self, timeout_s: float = FOREVER_S, raw: bytes = b"") -> int:
        """Wait until the stream can be read, or takes some of these bytes; return how many."""
        if self._ended:
            raise self._ended
        select.select([self._stream], [self._stream] if raw else [], [], timeout_s)
        sent = 0
        with suppress(OSError):  # a stream that takes nothing any more may have something to read
            sent = self._stream.send(raw) if raw else 0
        try:
            with suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                data = self._stream.recv(262144)
                self._read_frames(data)
                if not data:
                    self._end(-8, "the connection to the daemon was lost")
        except OSError as error:
            self._end(-8, f"the connection to the daemon was lost: {error}")
        except (ValueError, struct.error) as error:
            self._end(-18, f"a frame of the daemon does not decode: {error}")
        return sent

    def _end(self, code: int, reason: str) -> None:
        self._ended = self._ended or SessionClosed(code, reason)
        self._stream.close()

    def _read_frames(self, data: bytes) -> None:
        self._in += data
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
                self._on_deliver(event)
            case "abort":
                self._drop((event["name"], event["connection"]), event["number"])
            case "closed":
                self._end(event["code"], event["reason"])
            case "welcome":
                usable = event["version"] == 1 and event["limit"] >= 300
                check(usable and not self._limit, "it is no welcome")
                self.me, self._limit = (event["name"], event["connection"]), event["limit"]
            case kind:
                if kind == "daemons":
                    self._view = event["counter"], event["names"][0], event["random_id"]
                elif kind == "view" and event["cause"] == 2:  # the session of a member has ended
                    self._drop(event["changed"][0], 0)
                self._events.append(event)

    def _on_deliver(self, event: Event) -> None:
        kind, index, count = event.pop("kind"), event.pop("index"), event.pop("count")
        payload, placed = Fields(event.pop("payload")), event.pop("placed")
        check(placed or not any(event["position"][1:]), "a position in a frame without one")
        if kind > FRAGMENT:
            return
        limit, least = (count, 10) if kind == FRAGMENT else (1, 6 * count)
        valid = index < limit and 0 < len(event["groups"]) < 256 and least <= len(payload.raw)
        check(valid, "its body is broken")  # the daemon has checked that much
        event |= {"event": "message", "position": (*event["position"], 0) if placed else None}
        with suppress(ValueError):  # another client is to blame, and its bundle is dropped
            add = self._add_fragment if kind == FRAGMENT else self._add_messages
            add(event, index, count, payload)

    def _add_messages(self, event: Event, _: int, count: int, payload: Fields) -> None:
        heads, place, found = [payload.take("HI") for _ in range(count)], event["position"], []
        for n, (type_, length) in enumerate(heads):
            about = {"number": event["number"] + n, "position": place and (*place[:-1], n)}
            found.append(event | about | {"type": type_, "data": payload.cut(length)})
        check(not payload.raw, "it is too long")
        self._events += found

    def _add_fragment(self, event: Event, index: int, count: int, payload: Fields) -> None:
        """Keep a fragment; if its message is whole, that is the next event."""
        (type_, length), part = payload.take("HQ"), payload.take("rest")
        level, number, place = event["level"], event["number"], event.pop("position")
        about = number, count, type_, length, event
        # A sender has one unfinished message at FIFO or above, one UNRELIABLE, many RELIABLE ones.
        slot = event["sender"], min(level, FIFO), number if level == RELIABLE else 0
        known, parts = self._unfinished.get(slot, (about, {}))
        if known[0] < number:
            known, parts = about, {}
        check(known == about and index not in parts, "a fragment does not fit the others")
        check(part and count <= length <= MOST_BYTES, "a fragment does not add up")
        parts[index] = part, place
        self._unfinished[slot] = known, parts
        if len(parts) == count:
            del self._unfinished[slot]
            data = b"".join(parts[n][0] for n in range(count))
            check(len(data) == length, "a message does not add up")
            event |= {"position": parts[count - 1][1], "type": type_, "data": data}
            self._events.append(event)

    def _drop(self, sender: Member, number: int) -> None:
        """Drop an unfinished message of a sender, or all with number 0."""
        for slot, (about, _) in list(self._unfinished.items()):
            if slot[0] == sender and number in (0, about[0]):
                del self._unfinished[slot]
