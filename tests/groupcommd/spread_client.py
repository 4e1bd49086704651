"""A client of Spread, written from the description of its protocol alone.

It shares no code with the daemon's side: what both misread they would misread in two ways. It has
either byte order, checks every field that comes, and can be as rude as a test wants (`raw`).
"""

import math
import struct
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

import attrs
import trio

UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE = (1 << bit for bit in range(6))
SELF_DISCARD = 0x40
BY_JOIN, BY_LEAVE, BY_DISCONNECT, BY_NETWORK = 0x100, 0x200, 0x400, 0x800
REGULAR_VIEW, TRANSITION = 0x1000, 0x2000
JOIN, LEAVE, KILL, REJECT = 0x10000, 0x20000, 0x40000, 0x400000
MARKS = 0x80000080

WAIT_S = 10.0


class Rejected(Exception):
    """The daemon does not admit the client; `code` is Spread's number."""

    def __init__(self, code: int) -> None:
        super().__init__(f"rejected with {code}")
        self.code = code


class Ended(Exception):
    """The daemon has closed the connection."""


@attrs.frozen(kw_only=True)
class Received:
    """One message as it came.

    Attributes:
        type: all its bits but those of the byte order.
        sender: a private name; of a membership message the group.
        groups: destinations, or members.
        tag: the 16 bits of its sender.
        mismatch: its sender writes in the other byte order than this client.
        data: the rest.
        rejected: the type of what was rejected; 0 of other messages.
    """

    type: int
    sender: str
    groups: tuple[str, ...]
    tag: int
    mismatch: bool
    data: bytes
    rejected: int = 0

    @property
    def is_view(self) -> bool:
        """Return whether it is a regular membership message."""
        return bool(self.type & REGULAR_VIEW)

    @property
    def group_id(self) -> bytes:
        """Return the id of a regular or transitional membership message: equal at all its
        members."""
        return self.data[:12]

    @property
    def sets(self) -> list[tuple[str, ...]]:
        """Return the sets of a regular membership message: members that came together."""
        return [names for _, names in self._sets()]

    @property
    def own_set(self) -> tuple[str, ...]:
        """Return the receiver's own set."""
        (offset,) = struct.unpack_from("<I", self.data, 16)
        return dict(self._sets())[offset]

    def _sets(self) -> list[tuple[int, tuple[str, ...]]]:
        (count,) = struct.unpack_from("<I", self.data, 12)
        found, at = [], 20
        for _ in range(count):
            (size,) = struct.unpack_from("<I", self.data, at)
            fields = [self.data[at + 4 + 32 * i : at + 36 + 32 * i] for i in range(size)]
            found.append((at - 20, tuple(map(name_in, fields))))
            at += 4 + 32 * size
        assert at == len(self.data), "bytes behind the last set"
        return found


class Wire:
    """Messages of one session as bytes, in both directions.

    Attributes:
        name: its private group name.
    """

    def __init__(self, *, big_endian: bool) -> None:
        self._order = ">" if big_endian else "<"
        self._marks = 0 if big_endian else MARKS
        self._buffer = b""
        self.name = ""

    def message(
        self,
        type_: int,
        groups: list[str],
        data: bytes = b"",
        tag: int = 0,
        *,
        sender: str | None = None,
        sizes: tuple[int, int] | None = None,
    ) -> bytes:
        """Return a message's bytes; `sizes` claims other counts of groups and data."""
        count, size = sizes or (len(groups), len(data))
        hint = (tag & 0xFFFF) << 8 | self._marks
        name = (self.name if sender is None else sender).encode()
        head = struct.pack(f"{self._order}I32siIi", type_ | self._marks, name, count, hint, size)
        return head + b"".join(group.encode().ljust(32, b"\0") for group in groups) + data

    def feed(self, data: bytes | bytearray) -> None:
        """Accept bytes of the daemon."""
        self._buffer += data

    def pop(self) -> Received | None:
        """Return the next message; None if it has not come whole."""
        head = self._buffer[:48]
        if len(head) < 48:
            return None
        marks = int.from_bytes(head[:4], "little") & MARKS
        assert marks in (0, MARKS), head[:4]
        order = "<" if marks else ">"
        type_, sender, count, _, size = struct.unpack(f"{order}I32siIi", head)
        assert 0 <= count <= 10_000
        assert size >= 0
        marks = int.from_bytes(head[40:44], "little") & MARKS
        assert marks in (0, MARKS), head[40:44]
        hint = int.from_bytes(head[40:44], "little" if marks else "big") & ~MARKS
        assert not hint & ~0xFFFF00, hint
        names_at = 52 if type_ & REJECT else 48
        data_at = names_at + 32 * count
        if len(self._buffer) < data_at + size:
            return None
        raw, self._buffer = self._buffer[: data_at + size], self._buffer[data_at + size :]
        rejected = struct.unpack_from(f"{order}I", raw, 48)[0] if names_at > 48 else 0
        return Received(
            type=type_ & ~MARKS,
            sender=name_in(sender),
            groups=tuple(name_in(raw[at : at + 32]) for at in range(names_at, data_at, 32)),
            tag=hint >> 8,
            mismatch=marks != self._marks,
            data=raw[data_at:],
            rejected=rejected & ~MARKS,
        )


class SpreadClient(Wire):
    """One connection.

    Attributes:
        version: the version of the daemon, as it says.
    """

    def __init__(self, stream: trio.abc.Stream, *, big_endian: bool) -> None:
        super().__init__(big_endian=big_endian)
        self._stream = stream
        self.version: tuple[int, ...] = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection without a word."""
        await self._stream.aclose()

    # ---- the handshake ----

    async def hello(
        self, user: str, version: tuple[int, ...], flags: int, methods: tuple[bytes, ...]
    ) -> None:
        """Go through the handshake; Rejected if the daemon does not admit the client."""
        said = version[: 3 if version > (3, 14) else 2]
        await self.raw(bytes((*said, flags, len(user))) + user.encode())
        if version >= (3, 16):
            size = await self._code()
            if await self._read(size) != b"NULL ":
                raise AssertionError("the methods are others than NULL")
            await self.raw(b"".join(method.ljust(30, b"\0") for method in methods).ljust(90, b"\0"))
        accepted = await self._code()
        assert accepted == 1, accepted
        self.version = tuple(await self._read(3 if version >= (3, 15) else 2))
        (size,) = await self._read(1)
        self.name = (await self._read(size)).decode()
        assert len(self.name) <= 31
        assert self.name.startswith(f"#{user}#" if user else "#r"), self.name

    async def _code(self) -> int:
        (code,) = struct.unpack("b", await self._read(1))
        if code < 0:
            raise Rejected(code)
        return int(code)

    # ---- requests ----

    async def join(self, group: str) -> None:
        """Ask to become a member."""
        await self.raw(self.message(JOIN, [group]))

    async def leave(self, group: str) -> None:
        """Ask to be a member no longer."""
        await self.raw(self.message(LEAVE, [group]))

    async def disconnect(self) -> None:
        """Say goodbye, and close."""
        await self.raw(self.message(KILL, [self.name]))
        await self.close()

    async def multicast(
        self, groups: str | list[str], data: bytes, service: int = AGREED, tag: int = 0
    ) -> None:
        """Send a message."""
        names = [groups] if isinstance(groups, str) else groups
        await self.raw(self.message(service, names, data, tag))

    async def raw(self, data: bytes) -> None:
        """Send any bytes."""
        await self._stream.send_all(data)

    # ---- what comes ----

    async def receive(self, *, patient: bool = False) -> Received:
        """Return the next message, waiting for ever if patient; Ended if none comes any more."""
        with trio.fail_after(math.inf if patient else WAIT_S):
            while (found := self.pop()) is None:
                await self._hear()
        return found

    async def view(self, group: str | None = None) -> Received:
        """Return the next regular membership message, of a group if one is named; skip others."""
        while True:
            found = await self.receive()
            if found.is_view and group in (None, found.sender):
                return found

    async def text(self) -> Received:
        """Return the next message that is no membership message; skip others."""
        while True:
            found = await self.receive()
            if found.type & 0x3F:
                return found

    async def ended(self) -> None:
        """Wait until the daemon has closed the connection; skip what comes before."""
        try:
            while True:
                await self.receive()
        except Ended:
            return

    async def _read(self, size: int) -> bytes:
        with trio.fail_after(WAIT_S):
            while len(self._buffer) < size:
                await self._hear()
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    async def _hear(self) -> None:
        try:
            data = await self._stream.receive_some(65536)
        except trio.BrokenResourceError:
            data = b""
        if not data:
            raise Ended
        self.feed(data)


def name_in(field: bytes) -> str:
    """Return the name in a field of 32 bytes, which must be padded with NULs."""
    name, _, rest = field.partition(b"\0")
    assert len(field) == 32
    assert not rest.strip(b"\0"), field
    return name.decode()


async def open_stream(where: Path | str) -> trio.abc.Stream:
    """Connect to the path of a unix socket, or ``host:port``."""
    if isinstance(where, Path):
        return await trio.open_unix_socket(str(where))
    host, _, port = where.rpartition(":")
    return await trio.open_tcp_stream(host, int(port))


async def connect(
    where: Path | str,
    user: str = "",
    *,
    views: bool = True,
    big_endian: bool = False,
    version: tuple[int, ...] = (4, 4, 0),
    flags: int = 0,
    methods: tuple[bytes, ...] = (b"NULL",),
) -> SpreadClient:
    """Return a client that is admitted.

    Args:
        where: see `open_stream`.
        user: 0 to 10 characters.
        views: whether it asks for views.
        big_endian: the byte order in which it writes.
        version: the version of its library.
        flags: more bits of its connect flags.
        methods: the methods of authentication that it chooses.

    Raises:
        Rejected: it is not admitted.
        Ended: the connection was closed before that.
    """
    async with AsyncExitStack() as stack:
        stream = await stack.enter_async_context(await open_stream(where))
        client = SpreadClient(stream, big_endian=big_endian)
        with trio.fail_after(WAIT_S):
            await client.hello(user, version, flags | views, methods)
        stack.pop_all()
    return client
