"""The subscriber's side of channels on sockets: one is open at a time, in any event loop.

The machine says which one (`OpenChannel`) and gets the pieces, or is told that the channel cannot
be opened, or has broken. While it wants none (`PauseChannel`), nothing is read: the archive waits.
"""

import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from groupcomm.errors import ConfigError, RemoteProtocolError
from groupcomm.host.addresses import parse_address
from groupcomm.host.forks import keep_own
from groupcomm_client.history.frames import (
    CHANNEL_ID_BYTES,
    CHANNEL_KEY_BYTES,
    LENGTH_BYTES,
    Channel,
    Piece,
    decode_untrusted,
    events_of_untrusted,
)
from groupcomm_client.history.streams import (
    ChannelAction,
    OpenChannel,
    PauseChannel,
    ResumeChannel,
)
from groupcomm_client.history.subscriber import Subscriber
from groupcomm_client.loops import Loop, Target
from groupcomm_client.targets import connect_to

if TYPE_CHECKING:
    from groupcomm_client.history.channel import PieceOpener

CONNECT_S: Final = 1.0
"""The time in which an archive must accept the connection, and take the first bytes."""

LOCAL: Final = "@"
"""The start of the address of a socket of this host: its abstract name follows."""

MOST_ADDRESSES: Final = 4


class ChannelReader:
    """The channels of one subscription; `run` is a task of it."""

    def __init__(
        self,
        loop: Loop,
        lock: AbstractContextManager[object],
        subscriber: Subscriber,
        act: Callable[[], None],
    ) -> None:
        """Begin without a channel.

        Args:
            loop: the event loop of the program.
            lock: the lock of the machine.
            subscriber: the machine.
            act: carries out what the machine wants; called with the lock.
        """
        self._loop = loop
        self._lock = lock
        self._subscriber = subscriber
        self._act = act
        self._wanted: Channel | None = None
        self._is_paused = False
        self._changed = loop.event()
        self._socket: socket.socket | None = None
        keep_own(self)

    def forsake(self) -> None:
        """See `groupcomm.host.forks`."""
        self._wanted = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def do(self, action: ChannelAction) -> None:
        """Do what the machine wants; the caller holds the lock."""
        self._is_paused = isinstance(action, PauseChannel)
        if not isinstance(action, PauseChannel | ResumeChannel):
            self._wanted = action.channel if isinstance(action, OpenChannel) else None
            if self._socket is not None:
                with suppress(OSError):  # it was closed, or is not connected yet
                    self._socket.shutdown(socket.SHUT_RDWR)  # wakes the task that reads
        changed, self._changed = self._changed, self._loop.event()
        changed.set()

    async def run(self) -> None:
        """Read by the channels that the machine wants, one after the other."""
        done: Channel | None = None
        while True:
            changed, channel = self._changed, self._wanted
            if channel is None or channel is done:
                await changed.wait()
                continue
            done = channel
            try:
                await self._read(channel)
            except (OSError, RemoteProtocolError):
                with self._lock:
                    self._subscriber.handle_failure(channel.number, time.monotonic())
                    self._act()

    async def _read(self, channel: Channel) -> None:
        """Read pieces while the channel is wanted.

        Raises:
            OSError: it cannot be opened, or has ended.
            RemoteProtocolError: what comes is not what the archive has sent.
        """
        from groupcomm_client.history import channel as sealing  # noqa: PLC0415 - cryptography

        if len(channel.id) != CHANNEL_ID_BYTES or len(channel.key) != CHANNEL_KEY_BYTES:
            raise sealing.BadChannel("an id or a key of another length")
        hello = sealing.hello(channel.id, channel.key)
        if not await self._loop.timeout(CONNECT_S, partial(self._open, channel, hello)):
            raise TimeoutError("the archive does not accept the connection")
        try:
            opener = sealing.PieceOpener(channel.key)
            while channel is self._wanted:
                changed = self._changed
                if self._is_paused:
                    await changed.wait()
                    continue
                data = await self._next(opener)
                piece = decode_untrusted(data)
                if not isinstance(piece, Piece):
                    raise sealing.BadChannel("something else than a piece")
                events = events_of_untrusted(piece)
                with self._lock:
                    if channel is self._wanted:
                        self._subscriber.handle_piece(piece, events, time.monotonic())
                        self._act()
                await self._loop.checkpoint()  # bytes may always be there already
        except (OSError, RemoteProtocolError):
            if channel is self._wanted:
                raise
        finally:
            self._close()

    async def _open(self, channel: Channel, hello: bytes) -> None:
        """Connect to the first address that accepts, and send the hello."""
        failure: OSError | None = None
        for address in channel.addresses[:MOST_ADDRESSES]:
            try:
                self._socket = await connect_to(*_target_of(address), self._loop)
                self._socket.send(hello)  # an empty buffer has room for it
                return
            except OSError as error:
                self._close()
                failure = error
        raise failure or OSError("the archive names no address")

    def _close(self) -> None:
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    async def _next(self, opener: "PieceOpener") -> bytes:
        while True:
            size = opener.expect_untrusted(await self._exactly(LENGTH_BYTES))
            data = opener.open_untrusted(await self._exactly(size))
            if data is not None:
                return data

    async def _exactly(self, size: int) -> bytearray:
        end = self._socket
        if end is None:
            raise ConnectionError("the channel was closed")
        data = bytearray(size)
        left = memoryview(data)
        while left:
            try:
                count = end.recv_into(left)
            except BlockingIOError:
                await self._loop.readable(end)
                continue
            if not count:
                raise ConnectionError("the archive has closed the channel")
            left = left[count:]
        return data


def _target_of(address: str) -> Target:
    """Return where to connect; raise OSError if the text is no address."""
    if address.startswith(LOCAL):
        return socket.AF_UNIX, "\0" + address.removeprefix(LOCAL)
    try:
        where = parse_address(address, "the address of a channel")
    except ConfigError as error:
        raise OSError(str(error)) from None
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    return family, (where.host, where.port)
