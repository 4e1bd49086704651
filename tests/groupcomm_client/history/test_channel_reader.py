"""The subscriber's side of channels, in all loops: what is no channel does no harm."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from groupcomm.events import MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_client.aio import AsyncioLoop
from groupcomm_client.history import channel_reader as module
from groupcomm_client.history.channel import HELLO_BYTES, PieceSealer, is_proved
from groupcomm_client.history.channel_reader import ChannelReader
from groupcomm_client.history.frames import (
    Channel,
    Find,
    Offer,
    Read,
    Stop,
    decode_untrusted,
    encode,
)
from groupcomm_client.history.places import Line
from groupcomm_client.history.streams import CloseChannel, OpenChannel
from groupcomm_client.history.subscriber import Send, Subscriber
from groupcomm_client.loops import Loop
from groupcomm_client.thread_loop import ThreadLoop
from groupcomm_client.trio_loop import TrioLoop
from tests.groupcomm_client.history.pieces import piece_of
from tests.groupcomm_client.history.test_live import ME, daemons, joined, message, place
from tests.groupcomm_client.kinds import Kind

ONE = MemberId("#one#a", 11)
KEY = b"k" * 32
LOOPS: dict[str, Callable[[], Loop]] = {
    "trio": TrioLoop,
    "asyncio": AsyncioLoop,
    "blocking": ThreadLoop,
}
Serve = Callable[[socket.socket], None]


@contextmanager
def listening(serve: Serve) -> Iterator[str]:
    """Yield the address of a server that serves one connection, in a thread."""
    name = f"groupcomm-test-{threading.get_ident()}-{id(serve)}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen()
        server.settimeout(10)

        def run() -> None:
            with suppress(OSError):
                end, _ = server.accept()
                with end:
                    end.settimeout(10)
                    serve(end)

        thread = threading.Thread(target=run)
        thread.start()
        yield "@" + name
        thread.join()


class Reading:
    """A subscriber that reads from ONE by a channel."""

    def __init__(self, *addresses: str) -> None:
        self.subscriber = Subscriber(ME, ("g",), place(5, 10), now=0.0, has_channels=True)
        for event in (daemons(5), joined(place(5, 100))):
            self.subscriber.handle(event, 0.0)
        self.subscriber.wake(0.0)
        (find,) = self.sent()
        assert isinstance(find, Find)
        self.hear(Offer(find.number, True, ((place(4, 0), place(5, 200)),)))
        (read,) = self.sent()
        assert isinstance(read, Read)
        self.number = read.number
        self.hear(Channel(read.number, b"i" * 16, KEY, addresses))

    def hear(self, frame: Any) -> None:
        message = Message(ONE, 1, (ME.name,), ServiceLevel.FIFO, 0, encode(frame), None)
        self.subscriber.handle(message, 0.0)

    def sent(self) -> list[Any]:
        actions = self.subscriber.pop_actions()
        return [decode_untrusted(each.data) for each in actions if isinstance(each, Send)]

    async def run(self, loop: Loop) -> None:
        """Read by the channel until the machine wants something else."""
        over = loop.event()
        reader = ChannelReader(loop, loop.thread_lock(), self.subscriber, over.set)
        async with loop.tasks() as tasks:
            tasks.start(reader.run)
            (action,) = self.subscriber.pop_actions()
            assert isinstance(action, OpenChannel)
            reader.do(action)
            assert await loop.timeout(10.0, over.wait)


def data_of(reading: Reading, *times: int) -> bytes:
    events: list[Line] = [message(place(5, time)) for time in times]
    piece = piece_of(events, reading.number, 0, place(5, 10), place(5, times[-1]))
    return encode(piece)


def run(kind: Kind, reading: Reading) -> None:
    async def scenario(kind: Kind) -> None:
        await reading.run(LOOPS[kind.name]())

    kind.run(scenario)


def test_pieces_reach_the_machine(kind: Kind) -> None:
    def serve(end: socket.socket) -> None:
        heard.append(end.recv(HELLO_BYTES, socket.MSG_WAITALL))
        for part in PieceSealer(KEY).seal(data_of(reading, 20, 30)):
            end.sendall(part)
        heard.append(end.recv(1))  # it stays open until the subscription ends

    heard: list[bytes] = []
    with listening(serve) as address:
        reading = Reading("@nobody", "no address", "127.0.0.1:1", address)
        run(kind, reading)
    assert is_proved(heard[0], KEY)
    assert heard[1:] == [b""]
    assert reading.subscriber.position == place(5, 30)
    assert reading.sent() == []


def sealed(reading: Reading, data: bytes) -> bytes:
    return b"".join(PieceSealer(KEY).seal(data))


HOSTILE: dict[str, Callable[[Reading], bytes]] = {
    "the end": lambda _: b"",
    "junk": lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(5000),
    "a huge length": lambda _: b"\x7f\xff\xff\xff",
    "another key": lambda reading: b"".join(PieceSealer(b"o" * 32).seal(data_of(reading, 20))),
    "half a piece": lambda reading: sealed(reading, data_of(reading, 20))[:-1],
    "sealed junk": lambda reading: sealed(reading, b"junk"),
    "another frame": lambda reading: sealed(reading, encode(Find(1, ("g",)))),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_channel_is_left_for_the_daemons(kind: Kind, what: str) -> None:
    def serve(end: socket.socket) -> None:
        end.recv(HELLO_BYTES, socket.MSG_WAITALL)
        with suppress(OSError):
            end.sendall(HOSTILE[what](reading))

    with listening(serve) as address:
        reading = Reading(address)
        run(kind, reading)
    assert reading.subscriber.position == place(5, 10)
    stop, read = reading.sent()
    assert stop == Stop(reading.number)
    assert (read.by_channel, read.after) == (False, place(5, 10))


@pytest.mark.parametrize(
    "addresses", [(), ("@nobody",), ("10.0.0.1",), ("x" * 200, "@" + "x" * 200)]
)
def test_addresses_at_which_nobody_listens(kind: Kind, addresses: tuple[str, ...]) -> None:
    reading = Reading(*addresses)
    run(kind, reading)
    assert [type(each) for each in reading.sent()] == [Stop, Read]


def test_an_archive_that_does_not_accept(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECT_S", 0.05)

    async def never(family: int, target: object, loop: Loop) -> socket.socket:
        await loop.event().wait()
        raise AssertionError

    monkeypatch.setattr(module, "connect_to", never)
    reading = Reading("@here")
    run(kind, reading)
    assert [type(each) for each in reading.sent()] == [Stop, Read]


def test_a_channel_that_is_not_wanted_any_more_is_closed_in_silence(kind: Kind) -> None:
    def serve(end: socket.socket) -> None:
        end.recv(HELLO_BYTES, socket.MSG_WAITALL)
        has_connected.set()
        assert end.recv(1) == b""

    has_connected = threading.Event()
    with listening(serve) as address:
        reading = Reading(address)

        async def scenario(kind: Kind) -> None:
            loop = LOOPS[kind.name]()
            reader = ChannelReader(loop, loop.thread_lock(), reading.subscriber, lambda: None)
            async with loop.tasks() as tasks:
                tasks.start(reader.run)
                (action,) = reading.subscriber.pop_actions()
                assert isinstance(action, OpenChannel)
                reader.do(action)
                while not has_connected.is_set():
                    await loop.sleep(0.01)
                reader.do(CloseChannel())
                await loop.sleep(0.05)

        kind.run(scenario)
    assert reading.sent() == []
