"""The archive's side of channels: it listens, and sends the pieces of streams to who may have them.

Whatever bytes come in, a connection costs little memory and ends soon unless it proves that it
knows the key of a stream that waits for it. See `groupcomm_client.history.channel`.
"""

import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from math import inf
from typing import Final, TypeAlias

import attrs
import trio

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address
from groupcomm_archive.archive import Archive, EndChannel, Key, SendPiece
from groupcomm_archive.file_reader import SEND_S, FileRead
from groupcomm_archive.reader_process import ReaderProcess
from groupcomm_client.history.channel import (
    HELLO_BYTES,
    BadChannel,
    PieceSealer,
    channel_of_untrusted,
    is_proved,
)
from groupcomm_client.history.channel_reader import LOCAL

HELLO_S: Final = 5.0
"""The time in which a connection must say which channel it is."""

MOST_UNKNOWN: Final = 100
"""The connections that may be open without having said it."""

_BACKLOG: Final = 128
_BUFFER_BYTES: Final = 1024 * 1024

Failed: TypeAlias = Callable[[Key, str], None]
"""A function that is told that the store cannot be read for a stream, and why."""


@attrs.define
class _Open:
    """An open channel: what it is to send, and its socket while another process sends by it."""

    outgoing: trio.MemorySendChannel[bytes | FileRead]
    passed_on: trio.socket.SocketType | None = None

    def close(self) -> None:
        self.outgoing.close()
        if self.passed_on is not None:
            with suppress(OSError):  # the subscriber has closed it
                self.passed_on.shutdown(socket.SHUT_RDWR)


class ChannelServer:
    """Sends pieces by channels, of one session of an archive after the other.

    Attributes:
        addresses: where it listens, as subscribers are told.
        archive: the machine of the present session; None between sessions.
    """

    def __init__(self, process: ReaderProcess) -> None:
        """Begin without a session.

        Args:
            process: sends what is in files.
        """
        self._process = process
        self.addresses: tuple[str, ...] = ()
        self.archive: Archive | None = None
        self._act: Callable[[], None] = lambda: None
        self._failed: Failed = lambda key, error: None
        self._unknown = 0
        self._open: dict[Key, _Open] = {}

    @asynccontextmanager
    async def listen(self, address: Address | None) -> AsyncIterator[None]:
        """Listen for the length of a block.

        Args:
            address: for subscribers on other hosts; those on this host have a socket in any case.

        Raises:
            ConfigError: nobody can listen there.
        """
        with ExitStack() as stack:
            listeners = self._listeners(stack, address)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.serve_listeners, self._serve, listeners)
                yield
                nursery.cancel_scope.cancel()

    def _listeners(self, stack: ExitStack, address: Address | None) -> list[trio.SocketListener]:
        name = f"groupcomm-history-{secrets.token_hex(16)}"
        sockets = [stack.enter_context(_listening(socket.AF_UNIX, "\0" + name, LOCAL + name))]
        addresses = [LOCAL + name]
        if address is not None:
            family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
            made = _listening(family, (address.host, address.port), str(address))
            sockets.append(stack.enter_context(made))
            addresses.append(str(Address(*sockets[-1].getsockname()[:2])))
        self.addresses = tuple(addresses)
        return [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in sockets]

    def begin(self, archive: Archive, act: Callable[[], None], failed: Failed) -> None:
        """Begin a session of the archive.

        Args:
            archive: its machine.
            act: carries out what the machine wants.
            failed: see `Failed`.
        """
        self.archive, self._act, self._failed = archive, act, failed

    def end(self) -> None:
        """End the session: close all channels."""
        self.archive = None
        for each in self._open.values():
            each.close()
        self._open = {}

    def do(self, action: SendPiece | EndChannel) -> None:
        """Send a piece, or close a channel once everything is sent."""
        if isinstance(action, SendPiece):
            if action.key in self._open:
                self._open[action.key].outgoing.send_nowait(action.data)
        elif (ended := self._open.pop(action.key, None)) is not None:
            ended.close()

    def send_from_files(self, wanted: FileRead) -> bool:
        """Have the process send pieces; return False if it, or the channel, is not there."""
        channel = self._open.get(wanted.action.key)
        if channel is None or not self._process.want():
            return False
        channel.outgoing.send_nowait(wanted)
        return True

    async def _serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection."""
        with suppress(trio.BrokenResourceError, BadChannel):
            async with stream:
                hello = await self._hello(stream)
                archive = self.archive
                channel = channel_of_untrusted(hello)
                secret = None if archive is None else archive.secret_of(channel)
                if archive is None or secret is None or not is_proved(hello, secret):
                    return
                outgoing, pieces = trio.open_memory_channel[bytes | FileRead](inf)
                key = archive.connected(channel, trio.current_time())
                opened = self._open[key] = _Open(outgoing)
                self._act()
                try:
                    await self._send(stream, pieces, PieceSealer(secret), archive, key)
                finally:
                    if self._open.get(key) is opened:
                        del self._open[key]
                    archive.disconnected(key)

    async def _hello(self, stream: trio.SocketStream) -> bytes:
        """Return the first bytes of a connection; fewer if they do not come in time."""
        data = b""
        if self._unknown >= MOST_UNKNOWN:
            return data
        self._unknown += 1
        try:
            with trio.move_on_after(HELLO_S):
                while len(data) < HELLO_BYTES:
                    more = await stream.receive_some(HELLO_BYTES - len(data))
                    if not more:
                        break
                    data += more
        finally:
            self._unknown -= 1
        return data

    async def _send(
        self,
        stream: trio.SocketStream,
        pieces: trio.MemoryReceiveChannel[bytes | FileRead],
        sealer: PieceSealer,
        archive: Archive,
        key: Key,
    ) -> None:
        """Send pieces until the machine ends the channel, or the subscriber does not take them."""
        async for piece in pieces:
            if isinstance(piece, FileRead):
                if not await self._pass_on(stream, piece, sealer, archive, key):
                    return
                continue
            with trio.move_on_after(SEND_S) as patience:
                for part in sealer.seal(piece):
                    await stream.send_all(part)
            if patience.cancelled_caught:
                return
            archive.piece_sent(key, trio.current_time())
            self._act()

    async def _pass_on(
        self,
        stream: trio.SocketStream,
        wanted: FileRead,
        sealer: PieceSealer,
        archive: Archive,
        key: Key,
    ) -> bool:
        """Have the process send; return whether the channel may be used any more."""
        opened = self._open.get(key)
        if opened is None:
            return False  # the machine has ended it
        opened.passed_on = stream.socket
        try:
            answer = await self._process.send(wanted, stream.socket, sealer)
        except OSError:
            return False
        finally:
            opened.passed_on = None
        if answer.error is not None:
            self._failed(key, answer.error)
        elif not answer.is_broken:
            archive.streamed(key, answer.pieces, answer.after, trio.current_time())
            self._act()
            return True
        return False


def _listening(family: int, address: object, text: str) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family != socket.AF_UNIX:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        made.bind(address)  # type: ignore[arg-type]  # as the family wants it
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise ConfigError(
            f"an archive cannot listen at {text}: {error.strerror}; name an address of this host"
            " that is free, or none"
        ) from None
    return made
