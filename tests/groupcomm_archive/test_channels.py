"""The archive's side of channels: who knows the key gets the pieces, and nobody else anything."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import trio

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import ConfigError
from groupcomm.events import MemberId, Message
from groupcomm.host.addresses import Address
from groupcomm.level import ServiceLevel
from groupcomm_archive import channels as module
from groupcomm_archive.archive import Archive, Key, Listening, ReadStore
from groupcomm_archive.channels import ChannelServer
from groupcomm_archive.file_reader import SEND_S
from groupcomm_archive.reader_process import ReaderProcess
from groupcomm_client.history.channel import HELLO_BYTES, PieceOpener, hello
from groupcomm_client.history.frames import (
    LENGTH_BYTES,
    Channel,
    Piece,
    Read,
    decode_untrusted,
    encode,
    encode_piece,
)
from groupcomm_client.history.subscriber import Send

ME, ANN = MemberId("#me#a", 1), MemberId("#ann#b", 2)
FIRST, LAST = (Position(ViewId(5, "a", 7), time, 0, 0, 0) for time in (0, 9))


class Serving:
    """A server, and an archive whose store has one piece: a stream that ends at once."""

    def __init__(self, server: ChannelServer) -> None:
        listening = Listening(server.addresses, lambda count: bytes(range(count)))
        self.archive = Archive(ME, ("g",), [(FIRST, LAST), (LAST, LAST)], listening)
        self.server = server
        self.data = b""
        self.failures: list[str] = []
        server.begin(self.archive, self.act, self.failed)

    def act(self) -> None:
        while actions := self.archive.pop_actions():
            for action in actions:
                if isinstance(action, ReadStore):
                    end, data = not action.is_last, (self.data,)
                    piece = Piece(1, 0, action.after, action.upto, is_end=end, data=data)
                    self.archive.read(action.key, encode_piece(piece), 0.0)
                elif not isinstance(action, Send):
                    self.server.do(action)

    def failed(self, key: Key, error: str) -> None:
        self.failures.append(error)
        self.archive.failed(key)
        self.act()

    def channel(self) -> Channel:
        """Have ANN read by a channel, and return it."""
        data = encode(Read(1, ("g",), FIRST, None, 4, by_channel=True))
        request = Message(ANN, 1, (ME.name,), ServiceLevel.FIFO, 0, data, None)
        self.archive.handle(request, 0.0)
        (answer,) = self.archive.pop_actions()
        assert isinstance(answer, Send)
        found = decode_untrusted(answer.data)
        assert isinstance(found, Channel)
        return found


@asynccontextmanager
async def serving(address: Address | None = None) -> AsyncIterator[Serving]:
    server = ChannelServer(ReaderProcess())
    async with server.listen(address):
        yield Serving(server)


async def connected(address: str) -> trio.SocketStream:
    if not address.startswith("@"):
        host, _, port = address.rpartition(":")
        return await trio.open_tcp_stream(host, int(port))
    made = trio.socket.socket(socket.AF_UNIX)
    await made.connect("\0" + address[1:])
    return trio.SocketStream(made)


async def received(stream: trio.SocketStream) -> bytes:
    """Return everything up to the end of a connection."""
    data = b""
    with trio.fail_after(10):
        async for part in stream:
            data += part
    return data


def piece_of(channel: Channel, data: bytes) -> Piece:
    opener = PieceOpener(channel.key)
    size = opener.expect_untrusted(data[:LENGTH_BYTES])
    assert len(data) == LENGTH_BYTES + size
    piece = decode_untrusted(opener.open_untrusted(data[LENGTH_BYTES:]) or b"")
    assert isinstance(piece, Piece)
    return piece


@pytest.mark.parametrize("place", [0, 1])
async def test_who_knows_the_key_gets_the_pieces(place: int) -> None:
    async with serving(Address("127.0.0.1", 0)) as game:
        channel = game.channel()
        assert channel.addresses == game.server.addresses
        async with await connected(channel.addresses[place]) as stream:
            await stream.send_all(hello(channel.id, channel.key))
            piece = piece_of(channel, await received(stream))
        assert (piece.after, piece.upto) == (FIRST, LAST)
        async with await connected(channel.addresses[place]) as stream:
            await stream.send_all(hello(channel.id, channel.key))
            assert await received(stream) == b"", "a channel is used once"


async def test_nobody_else_gets_anything() -> None:
    async with serving() as game:
        channel = game.channel()
        (address,) = channel.addresses
        for junk in (
            b"",
            b"GET / HTTP/1.1\r\n\r\n" + bytes(30),
            bytes(100_000),
            b"\xff" * HELLO_BYTES,
            hello(channel.id, b"o" * 32),
            hello(b"o" * 16, channel.key),
            hello(channel.id, channel.key)[:-1],
        ):
            async with await connected(address) as stream:
                with suppress(trio.BrokenResourceError):  # it was closed already
                    await stream.send_all(junk)
                    await stream.send_eof()
                    assert await received(stream) == b""
        async with await connected(address) as stream:
            await stream.send_all(hello(channel.id, channel.key))
            assert piece_of(channel, await received(stream)).upto == LAST


async def test_a_silent_connection_ends(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as game, await connected(game.server.addresses[0]) as stream:
        await stream.send_all(b"\xff")
        began = trio.current_time()
        assert await received(stream) == b""
        assert trio.current_time() - began == module.HELLO_S


async def test_many_silent_connections_do_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_UNKNOWN", 3)
    async with serving() as game:
        (address,) = game.server.addresses
        silent = [await connected(address) for _ in range(3)]
        await trio.testing.wait_all_tasks_blocked()
        async with await connected(address) as stream:
            assert await received(stream) == b"", "no room"
        for each in silent:
            await each.aclose()
        await trio.testing.wait_all_tasks_blocked()
        channel = game.channel()
        async with await connected(address) as stream:
            await stream.send_all(hello(channel.id, channel.key))
            assert piece_of(channel, await received(stream)).upto == LAST


async def test_a_subscriber_that_takes_nothing_loses_its_stream(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with serving() as game:
        game.data = bytes(30_000_000)
        game.archive.intervals[:] = [(FIRST, LAST)]
        channel = game.channel()
        async with await connected(channel.addresses[0]) as stream:
            await stream.send_all(hello(channel.id, channel.key))
            await trio.sleep(SEND_S - 1)
            assert len(game.server._open) == 1
            await trio.sleep(2)
            assert not game.server._open


async def test_channels_end_with_the_session() -> None:
    async with serving() as game:
        game.archive.intervals[:] = [(FIRST, LAST)]
        game.act = lambda: None  # type: ignore[method-assign]  # its store is slow
        game.server.begin(game.archive, game.act, game.failed)
        channel = game.channel()
        async with await connected(channel.addresses[0]) as stream:
            await stream.send_all(hello(channel.id, channel.key))
            await trio.testing.wait_all_tasks_blocked()
            game.server.end()
            assert await received(stream) == b""


async def test_an_address_that_is_taken_is_named_in_the_error() -> None:
    async with serving(Address("127.0.0.1", 0)) as game:
        port = int(game.server.addresses[1].rpartition(":")[2])
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}: Address already in use"):
            async with ChannelServer(ReaderProcess()).listen(Address("127.0.0.1", port)):
                pass
