"""A crowd of cheap programs in one process: raw sockets, frames encoded by hand, nothing decoded.

It reads requests from its input, lines of JSON, and answers each with one line once it is done.
A program whose connection ends connects again at once, at the next of its addresses, and joins its
groups again. What a program gets is counted by the kinds of frames.

A request is {"do": NAME, ...} with the arguments of one of `Crowd`'s requests; each answer has the
seconds that it took, and all counts.
"""

import json
import os
import resource
import selectors
import socket
import struct
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import count
from typing import Any, Final, TypeAlias

from groupcomm.events import Cause
from groupcomm.level import ServiceLevel
from groupcomm.session import daemon_frames, differences
from groupcomm.session.frames import (
    DAEMON_FRAME_BYTES,
    Capability,
    FrameKind,
    FrameReader,
    encode_bundle_head,
    encode_hello,
)
from groupcomm.wire.bundle import BundleKind, encode_body
from groupcomm.wire.messages import message_parts
from tests.groupcommd import spread_client as spread

Waiting: TypeAlias = Generator[None, None, dict[str, float]]
"""A request: yields while it takes, and returns what it tells besides the counts."""

READ_BYTES: Final = 1 << 18
RETRY_S: Final = 0.005
"""The time after which a program tries again to connect, as the daemon's queue was full."""

ENTRY_BYTES: Final = 9 + len("#u00000#a")
"""The bytes of a member in a list."""

LISTS: Final = {
    int(FrameKind.VIEW): daemon_frames._VIEW.size + 3 * 4,
    int(FrameKind.DIFFERENCE): differences._HEAD.size + 4,
}
"""The bytes of frames about groups besides the name of the group and its members."""

CAUSE_AT, OWN_AT = 17, 18
JOINED: Final = bytes((Cause.JOIN.value, 1))
AGREED: Final = ServiceLevel.AGREED
SPREAD_HEAD: Final = struct.Struct("<I32siIi")
WIDE: Final = 32
METHODS: Final = b"\x05NULL "
"""The answer of Spread's daemon to a program that may choose a method."""

ADMITTED: Final = METHODS + b"\x01"
"""Its answers until a program is admitted; its version and a name follow."""

FLOOD: Final = 128
"""The messages of a flood that a program writes at once."""


class Program:
    """One program, as often as it has to connect.

    Attributes:
        address: the daemon to which it is connected, or connects.
        groups: the groups that it is in, or wants to join.
        waits: the joins that are not confirmed yet; -1 before it is admitted.
    """

    def __init__(self, crowd: "Crowd", number: int, addresses: Sequence[str]) -> None:
        self.crowd = crowd
        self.user = f"u{number:05}"
        self._addresses = deque(addresses)
        self._addresses.rotate(-number)
        self.groups: list[str] = []
        self._socket: socket.socket | None = None
        self._unsent = bytearray()
        self.waits = -1
        self.begin()

    @property
    def address(self) -> str:
        """Return the daemon."""
        return self._addresses[0]

    def begin(self) -> None:
        """Begin a session: say hello as soon as there is a connection."""
        raise NotImplementedError

    def join(self, groups: Sequence[str]) -> None:
        """Ask to become a member."""
        self.waits += len(groups)
        self.write(b"".join(map(self.joining, groups)))

    def joining(self, group: str) -> bytes:
        """Return the request to join a group."""
        raise NotImplementedError

    def receive(self, data: bytes) -> None:
        """Count what has come."""
        raise NotImplementedError

    # ---- the connection ----

    def connect(self) -> bool:
        """Connect; return False if that has to be tried again."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.setblocking(False)
        try:
            made.connect(self.address)
        except OSError as error:
            made.close()
            if not isinstance(error, BlockingIOError):
                self._addresses.rotate(-1)
            return False
        self._socket = made
        self.crowd.selector.register(made, selectors.EVENT_READ, self)
        self.write(b"")
        return True

    def write(self, data: bytes) -> None:
        """Send bytes, now or once there is room."""
        self._unsent += data
        if self._socket is None or not self._unsent:
            return
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # the end is read soon
        del self._unsent[:sent]
        self.crowd.counts["sent"] += sent
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        self.crowd.selector.modify(self._socket, events, self)

    def act(self, events: int) -> None:
        """Read and write as much as goes."""
        if events & selectors.EVENT_WRITE:
            self.write(b"")
        if events & selectors.EVENT_READ and self._socket is not None:
            try:
                data = self._socket.recv(READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.end()
            elif not self.crowd.rests or self is self.crowd.programs[0]:
                self.receive(data)

    def end(self) -> None:
        """Forget a connection that has ended, and connect anew, to the next daemon."""
        assert self._socket is not None
        self.crowd.selector.unregister(self._socket)
        self._socket.close()
        self._socket = None
        self._unsent.clear()
        self.crowd.ended(self)
        self._addresses.rotate(-1)
        self.begin()

    def admitted(self) -> None:
        """Join the groups, as there is a session."""
        self.waits = 0
        self.crowd.counts["admitted"] += 1
        self.join(self.groups)

    def confirmed(self) -> None:
        """Note that a join is done."""
        self.waits -= 1
        self.crowd.counts["joined"] += 1


class OwnProgram(Program):
    """A program that speaks our protocol."""

    def begin(self) -> None:
        """See Program."""
        self._reader = FrameReader(DAEMON_FRAME_BYTES)
        self.numbers = count(1)
        wishes = Capability.REFUSALS | Capability.BOUNDS
        wishes |= Capability.DIFFERENCES | Capability.CONTINUED
        self.waits = -1
        self.write(encode_hello(self.user, wishes))

    def _request(self, kind: BundleKind, group: str, flags: int = 0, payload: bytes = b"") -> bytes:
        body = encode_body(kind, AGREED, flags, next(self.numbers), (group,), payload)
        return encode_bundle_head(len(body), False) + body

    def joining(self, group: str) -> bytes:
        """See Program."""
        return self._request(BundleKind.JOIN, group, int(not self.crowd.views))

    def send(self, group: str) -> None:
        """Send a message of 100 bytes."""
        payload = b"".join(message_parts([(0, [bytes(100)])]))
        self.write(self._request(BundleKind.MESSAGES, group, 0, payload))

    def churn(self) -> None:
        """Leave the first group, and join it again."""
        (group, *_) = self.groups
        self.waits += 1
        self.write(self._request(BundleKind.LEAVE, group) + self.joining(group))

    def receive(self, data: bytes) -> None:
        """See Program."""
        counts = self.crowd.counts
        for frame in self._reader.feed(data):
            kind = frame[0]
            if (head := LISTS.get(kind)) is not None:
                counts["names"] += (len(frame) - head) // ENTRY_BYTES
                if kind == FrameKind.VIEW and frame[CAUSE_AT : OWN_AT + 1] == JOINED:
                    self.confirmed()
            elif kind == FrameKind.DELIVER:
                self.crowd.received()
            elif kind == FrameKind.WELCOME:
                self.admitted()
            elif kind in (FrameKind.REFUSED, FrameKind.CLOSED):
                counts[FrameKind(kind).name.lower()] += 1
                if self.waits < 0:
                    raise ConnectionRefusedError(f"{self.user} is not admitted: {frame!r}")
        if self.crowd.churns and not self.waits and self is self.crowd.programs[0]:
            counts["churned"] += 1
            self.churn()


class SpreadProgram(Program):
    """A program of Spread."""

    name = b""

    def begin(self) -> None:
        """See Program."""
        self._buffer = bytearray()
        self._greeted = False
        self.waits = -1
        self._chose = False
        self.write(bytes((4, 4, 0, 1, len(self.user))) + self.user.encode())

    def _message(self, kind: int, groups: Sequence[bytes], data: bytes = b"") -> bytes:
        head = SPREAD_HEAD.pack(
            kind | spread.MARKS, self.name, len(groups), spread.MARKS, len(data)
        )
        return head + b"".join(group.ljust(WIDE, b"\0") for group in groups) + data

    def joining(self, group: str) -> bytes:
        """See Program."""
        return self._message(spread.JOIN, [group.encode()])

    def send(self, group: str) -> None:
        """Send a message of 100 bytes."""
        self.write(self._message(spread.AGREED, [group.encode()], bytes(100)))

    def flood(self) -> None:
        """Write messages that translate to nothing, unless some wait to be written."""
        void = self._message(spread.AGREED, []) + self._message(spread.AGREED, [b"\xff"])
        while self._socket is not None and not self._unsent and not self.waits:
            self.write(void * (FLOOD // 2))

    def act(self, events: int) -> None:
        """See Program."""
        super().act(events)
        if self.crowd.floods:
            self.flood()

    def receive(self, data: bytes) -> None:
        """See Program."""
        self._buffer += data
        for kind, names in self._messages():
            if kind & spread.REGULAR_VIEW:
                self.crowd.counts["names"] += names
                if self.waits > 0:  # before it nothing comes of the group
                    self.confirmed()
            elif kind & 0x3F:
                self.crowd.received()

    def _messages(self) -> Iterator[tuple[int, int]]:
        """Yield the types of the messages that are there, and the numbers of their groups."""
        buffer, at = self._buffer, 0
        if not self._greeted:
            size = len(ADMITTED) + 4
            if not ADMITTED.startswith(buffer[: len(ADMITTED)]):
                raise ConnectionRefusedError(f"{self.user} is not admitted: {buffer!r}")
            if not self._chose and len(buffer) >= len(METHODS):
                self._chose = True
                self.write(b"NULL".ljust(90, b"\0"))
            if len(buffer) < size or len(buffer) < size + buffer[size - 1]:
                return
            at = size + buffer[size - 1]
            self.name = bytes(buffer[size:at])
            self._greeted = True
            self.admitted()
        while len(buffer) - at >= SPREAD_HEAD.size:
            kind, _, groups, _, size = SPREAD_HEAD.unpack_from(buffer, at)
            end = at + SPREAD_HEAD.size + WIDE * groups + size + 4 * bool(kind & spread.REJECT)
            if len(buffer) < end:
                break
            yield kind & ~spread.MARKS, groups
            at = end
        del buffer[:at]


class Crowd:
    """All programs, and the requests to them.

    Attributes:
        counts: what has happened, by its name.
        views: whether joins ask for views.
        rests: whether what comes is only read.
        churns, floods: whether the first program comes and goes; whether all write what they can.
    """

    def __init__(self, kind: type[OwnProgram] | type[SpreadProgram]) -> None:
        self._kind = kind
        self._requests: dict[str, Callable[..., Waiting]] = {
            "connect": self._connect,
            "join": self._join,
            "left": self._left,
            "send": self._send,
            "churn": self._churn,
            "flood": self._flood,
            "totals": self._totals,
        }
        self.selector = selectors.DefaultSelector()
        self.programs: list[OwnProgram | SpreadProgram] = []
        self.counts: Counter[str] = Counter()
        self.views = True
        self.rests = self.churns = self.floods = False
        self._to_connect: deque[Program] = deque()
        self._ended: dict[str, float] = {}  # the first end of a connection, by address
        self._first_at = 0.0  # of the messages since the last was sent
        self._joins: deque[tuple[float, Program, list[str]]] = deque()

    def ended(self, program: Program) -> None:
        """Note the end of a connection."""
        self.counts["ended"] += 1
        self._ended.setdefault(program.address, time.monotonic())
        self._to_connect.append(program)

    def received(self) -> None:
        """Note a message."""
        self.counts["received"] += 1
        self._first_at = self._first_at or time.monotonic()

    # ---- requests ----

    def do(self, request: dict[str, Any]) -> Iterator[dict[str, Any] | None]:
        """Do what is requested; yield None while that takes, then the answer."""
        began = time.monotonic()
        found = yield from self._requests[request.pop("do")](**request)
        yield {"seconds": time.monotonic() - began, **found, "counts": self.counts}

    def _connect(self, count: int, addresses: Sequence[str]) -> Waiting:
        self.programs = [self._kind(self, number, addresses) for number in range(count)]
        self._to_connect.extend(self.programs)
        yield from self._until("admitted", count)
        return {}

    def _join(self, groups: int, each: int = 1, over_s: float = 0.0, views: bool = True) -> Waiting:
        """Have each program join some of the groups, in the order of their numbers."""
        now, programs, self.views = time.monotonic(), self.programs, views
        for at, program in enumerate(programs):
            program.groups = [f"g{(at * each + more) % groups:06}" for more in range(each)]
            self._joins.append((now + at * over_s / len(programs), program, program.groups))
        yield from self._until("joined", self.counts["joined"] + each * len(programs))
        return {}

    def _left(self, address: str) -> Waiting:
        """Wait until all programs of a daemon are served by others; tell for how long they were
        not.
        """
        while any(each.address == address or each.waits for each in self.programs):
            yield None
        return {"seconds": time.monotonic() - self._ended.pop(address)}

    def _send(self, group: str) -> Waiting:
        """Have the first program send a message to all; tell when the first of them got it."""
        began, self._first_at = time.monotonic(), 0.0
        self.programs[0].send(group)
        yield from self._until("received", self.counts["received"] + len(self.programs))
        return {"first_s": self._first_at - began}

    def _churn(self) -> Waiting:
        """Have the first program leave and join for ever; of others nothing is counted any more."""
        self.rests = self.churns = True
        first = self.programs[0]
        assert isinstance(first, OwnProgram)
        first.churn()
        yield None
        return {}

    def _flood(self) -> Waiting:
        """Have all programs write what asks for nothing, as fast as it is read."""
        self.floods = True
        for program in self.programs:
            program.act(0)
        yield None
        return {}

    def _totals(self) -> Waiting:
        yield None
        return {}

    def _until(self, name: str, count: int) -> Iterator[None]:
        while self.counts[name] < count:
            yield None

    # ---- the loop ----

    def run(self) -> None:
        """Serve requests until the input ends."""
        os.set_blocking(0, False)
        self.selector.register(0, selectors.EVENT_READ, None)
        heard = b""
        doing: Iterator[dict[str, Any] | None] = iter(())
        requests: deque[dict[str, Any]] = deque()
        answer: object = False
        while True:
            for key, events in self.selector.select(None if answer is False else RETRY_S):
                if key.data is not None:
                    key.data.act(events)
                    continue
                if not (more := os.read(0, READ_BYTES)):
                    return
                *lines, heard = (heard + more).split(b"\n")
                requests.extend(map(json.loads, lines))
            self._go_on()
            answer = next(doing, False)
            if answer is False and requests:
                doing, answer = self.do(requests.popleft()), None
            elif answer:
                print(json.dumps(answer), flush=True)

    def _go_on(self) -> None:
        while self._to_connect and self._to_connect[0].connect():
            self._to_connect.popleft()  # otherwise a queue is full, and so they may all be
        while self._joins and self._joins[0][0] <= time.monotonic():
            _, program, groups = self._joins.popleft()
            program.join(groups)


def main() -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    Crowd(SpreadProgram if sys.argv[1] == "spread" else OwnProgram).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
