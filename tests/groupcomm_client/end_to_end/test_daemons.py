"""Groups with secrets over real daemons, for all kinds of programs."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack, suppress
from random import Random
from typing import Any

import pytest
import trio

from groupcomm.errors import LocalProtocolError, SessionEnded
from groupcomm.events import Cause, GroupView, MemberId, Message
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm_client import connect, filters
from groupcomm_client.end_to_end import KeyChanged, SharedSecret, Unreadable
from groupcomm_client.events import Reconnected
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.kinds import Kind, played

PATIENCE_S = 30.0
MOMENT_S = 0.02
MARKER = b"in the clear"
SECRET = SharedSecret(b"s" * 32)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("ab") as running:
        yield running


class Listener:
    """A connection, and its received events."""

    def __init__(self, kind: Kind, connection: Any) -> None:
        self.kind, self.connection = kind, connection
        self.events: list[Any] = []

    def has(self, texts: Iterable[bytes]) -> bool:
        return set(texts) <= {event.data for event in self.all_of(Message)}

    @property
    def readers(self) -> int:
        """Return the number of members that have the key, by the last notice."""
        keys = self.all_of(KeyChanged)
        return len(keys[-1].readers) if keys else 0

    async def read_on(self) -> None:
        """Receive for a moment."""
        event = await self.kind.receive(self.connection, MOMENT_S)
        if event is not None:
            self.events.append(event)

    def all_of(self, wanted: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, wanted)]


async def read_all(listeners: Iterable[Listener], done: Callable[[Listener], bool]) -> None:
    """Receive with all of them in turn, as each may need the others' part, until this is so."""
    end = time.monotonic() + PATIENCE_S
    while not all(map(done, listeners)):
        assert time.monotonic() < end, "what is awaited does not come"
        for one in listeners:
            await one.read_on()


@pytest.mark.parametrize("chosen", [None, [filters.causal, filters.compression]])
@played
async def test_all_that_members_send_is_read(
    kind: Kind, cluster: RunningCluster, chosen: Any
) -> None:
    async with (
        kind.connect(cluster.address("a"), "ann", filters=chosen) as ann,
        kind.connect(cluster.address("b"), "bob", filters=chosen) as bob,
    ):
        await ann.join("levels", secret=SECRET)
        await bob.join("levels", secret=SECRET)
        listeners = Listener(kind, ann), Listener(kind, bob)
        await read_all(listeners, lambda one: one.readers == 2)
        for level in LEVELS:
            await ann.multicast("levels", b"%d" % level, level=level, type=int(level))
        large = bytes(range(256)) * 2000
        await bob.multicast("levels", large)
        place = await bob.multicast_ordered("levels", b"placed", level=ServiceLevel.SAFE)
        await ann.rekey("levels")
        await ann.multicast_many("levels", [b"many %d" % i for i in range(20)])
        texts = [*(b"%d" % level for level in LEVELS), large, b"placed", b"many 19"]
        await read_all(listeners, lambda one: one.has(texts))
        for one in listeners:
            assert not one.all_of(Unreadable)
            [found] = [m for m in one.all_of(Message) if m.data == b"placed"]
            assert found.position == place.position
        with pytest.raises(LocalProtocolError, match="to it alone"):
            await ann.multicast(["levels", "open"], b"to both")
        await ann.leave("levels")
        with pytest.raises(LocalProtocolError, match="join it again"):
            await ann.multicast("levels", b"too late")


class Reader:
    """A connection that is read all the time, as programs do: members wait for each other's part.

    Attributes:
        events: the received events.
    """

    def __init__(self, connection: Any, nursery: trio.Nursery) -> None:
        self.connection = connection
        self.events: list[Any] = []
        nursery.start_soon(self._read)

    async def _read(self) -> None:
        with suppress(SessionEnded):
            while True:
                self.events.append(await self.connection.receive())

    async def until(self, ready: Callable[[], bool]) -> None:
        with trio.fail_after(PATIENCE_S):
            while not ready():
                await trio.sleep(0.002)

    def has_texts(self, texts: Iterable[bytes]) -> bool:
        return set(texts) <= {event.data for event in self.all_of(Message)}

    async def until_texts(self, texts: Iterable[bytes]) -> None:
        await self.until(lambda: self.has_texts(texts))

    async def until_key(self, members: set[MemberId]) -> None:
        await self.until(lambda: self._has_key(members))

    def _has_key(self, members: set[MemberId]) -> bool:
        keys, view = self.all_of(KeyChanged), self.connection.groups["plan"]
        return bool(keys) and set(keys[-1].readers) == members and keys[-1].view == view.id

    async def until_view(self, cause: Cause) -> None:
        await self.until(lambda: any(view.cause is cause for view in self.all_of(GroupView)))

    def all_of(self, wanted: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, wanted)]


async def say(what: bytes, *readers: Reader) -> list[bytes]:
    """Once just these have a key each of them sends a message, and all read all of them.

    They say it again if the group has changed meanwhile: a host that stood still for a moment was
    in another part of the network, whose messages not all can read.
    """
    members = {one.connection.member for one in readers}
    for reader in readers:
        await reader.until_key(members)
    before = [reader.connection.groups["plan"].id for reader in readers]
    texts = [b"%b: %b %d" % (MARKER, what, number) for number in range(len(readers))]
    for reader, text in zip(readers, texts, strict=True):
        await reader.connection.multicast("plan", text)

    def has_changed() -> bool:
        return before != [reader.connection.groups["plan"].id for reader in readers]

    def all_have() -> bool:
        return all(reader.has_texts(texts) for reader in readers)

    await readers[0].until(lambda: all_have() or has_changed())
    return texts if all_have() else await say(what + b" again", *readers)


async def test_programs_and_daemons_come_and_go_and_a_spy_reads_nothing() -> None:
    with RunningCluster("abc") as cluster:
        async with trio.open_nursery() as nursery, AsyncExitStack() as stack:

            async def enter(user: str, daemon: str, secret: SharedSecret | None = SECRET) -> Reader:
                address = cluster.address(daemon)
                connection = await stack.enter_async_context(connect(address, user=user))
                await connection.join("plan", secret=secret)
                return Reader(connection, nursery)

            ann, bob = await enter("ann", "a"), await enter("bob", "b")
            spy = await enter("spy", "a", None)
            sent = await say(b"at first", ann, bob)
            cem = await enter("cem", "c")
            sent += await say(b"with cem", ann, bob, cem)
            cluster.kill("c")
            for one in (ann, bob):
                await one.until_view(Cause.NETWORK)
            sent += await say(b"without c", ann, bob)
            dan = await enter("dan", "b")
            sent += await say(b"with dan", ann, bob, dan)
            await dan.connection.leave("plan")
            sent += await say(b"dan has left", ann, bob)
            eva = await enter("eva", "b")
            sent += await say(b"with eva", ann, bob, eva)
            eva.connection.close_socket()
            for one in (ann, bob):
                await one.until_view(Cause.DISCONNECT)
            sent += await say(b"eva has crashed", ann, bob)

            for one in (cem, dan, eva):
                texts = [message.data for message in one.all_of(Message)]
                assert all(b"clear: with " in text for text in texts), "it was not there then"
            await spy.until(lambda: len(spy.all_of(Unreadable)) >= len(sent))
            assert not spy.all_of(Message)
            assert not any(MARKER in one.message.data for one in spy.all_of(Unreadable))
            assert any(spy.connection.member in one.others for one in ann.all_of(KeyChanged))
            nursery.cancel_scope.cancel()


NOISE = 400
KINDS = 6
"""Messages about keys, and one of an unknown kind."""


async def make_noise(spy: Reader, members: list[str], rng: Random) -> None:
    """Say again what was heard, changed or not, and make up messages about keys."""
    await spy.until(lambda: len(spy.all_of(Unreadable)) > 3)
    for number in range(NOISE):
        heard = rng.choice(spy.all_of(Unreadable)[-100:]).message
        data = bytearray(heard.data)
        if rng.random() < 0.5:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        made_up = b"\xffGE\x01%c%b" % (number % KINDS, rng.randbytes(rng.randrange(200)))
        to = [rng.choice(["plan", *members])]
        for each in (bytes(data), made_up):
            await spy.connection.multicast(to, each, level=heard.level)


async def test_nothing_that_a_program_without_the_secret_says_is_taken_for_a_members() -> None:
    """It is in the group, hears all, and may send to the group and to each member."""
    with RunningCluster("ab") as cluster:
        async with (
            connect(cluster.address("a"), user="ann") as one,
            connect(cluster.address("b"), user="bob") as other,
            connect(cluster.address("b"), user="spy") as third,
            trio.open_nursery() as nursery,
        ):
            for connection, secret in ((one, SECRET), (other, SECRET), (third, None)):
                await connection.join("plan", secret=secret)
            ann, bob, spy = (Reader(each, nursery) for each in (one, other, third))
            texts = await say(b"at first", ann, bob)
            members = [one.member.name, other.member.name]
            nursery.start_soon(make_noise, spy, members, Random(1))
            for number in range(60):
                texts.append(b"%b: %d" % (MARKER, number))
                await (one, other)[number % 2].multicast("plan", texts[-1])
                await trio.sleep(0.002)
            texts += await say(b"at last", ann, bob)
            for reader in (ann, bob):
                sealed = [m.data for m in reader.all_of(Message) if "plan" in m.groups]
                assert sorted(sealed) == sorted(texts), "once each, and nothing else"
            assert {m.sender.name for m in spy.all_of(Message)} <= {third.member.name}
            nursery.cancel_scope.cancel()


async def test_a_connection_that_stays_joins_with_the_secret_again() -> None:
    with RunningCluster("ab") as cluster:
        async with (
            connect(cluster.address("a"), user="ann") as ann,
            connect(cluster.address("b"), user="bob", reconnect=True) as bob,
            trio.open_nursery() as nursery,
        ):
            await ann.join("plan", secret=SECRET)
            await bob.join("plan", secret=SECRET)
            readers = Reader(ann, nursery), Reader(bob, nursery)
            await say(b"at first", *readers)
            cluster.kill("b")
            cluster.start("b")
            await readers[1].until(lambda: bool(readers[1].all_of(Reconnected)))
            await say(b"back again", *readers)
            await bob.rekey("plan")
            await say(b"with another key", *readers)
            nursery.cancel_scope.cancel()
