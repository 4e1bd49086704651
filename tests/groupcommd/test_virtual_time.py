"""The delays of a daemon's acts around its core: on virtual time, to the millisecond."""

import socket
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio
import trio.testing

from groupcomm.config.core import Windows
from groupcomm.errors import SessionEnded
from groupcomm.events import DaemonView, Message
from groupcomm.level import ServiceLevel
from groupcomm.session.frames import encode_hello
from groupcomm_client import Connection, connect
from groupcommd.programs.connections import HELLO_S, LINGER_S
from tests.groupcommd.virtual import Daemons, virtual_clock, virtual_daemons

TOKEN_TIMEOUT_S = 0.6


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


def raw(daemons: Daemons, name: str = "a") -> socket.socket:
    """A connection that has said nothing yet."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.connect(str(daemons[name].unix))
    made.setblocking(False)
    return made


def connect_to(daemons: Daemons, name: str) -> AbstractAsyncContextManager[Connection]:
    """A session at a daemon."""
    return connect(str(daemons[name].unix))


async def ended_after(client: socket.socket) -> float:
    """Seconds until the daemon ends a connection."""
    started = trio.current_time()
    while True:
        await trio.lowlevel.wait_readable(client)
        if not client.recv(65536):
            return trio.current_time() - started


async def test_a_cut_off_daemon_is_left_out_after_the_token_timeout_and_comes_back(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with virtual_daemons(tmp_path, "abc") as daemons:
        daemons.network.cut.add("c")
        took_s = await daemons.settle("ab", 3.0)
        assert TOKEN_TIMEOUT_S / 2 < took_s < TOKEN_TIMEOUT_S + 0.2
        await daemons.settle("c", 3.0)
        daemons.network.cut.clear()
        assert await daemons.settle("abc", 3.0) < 1.5


async def test_messages_pass_and_views_are_reported(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with (
        virtual_daemons(tmp_path, "ab") as daemons,
        connect(str(daemons["a"].unix)) as ann,
        connect(str(daemons["b"].unix)) as bob,
    ):
        await ann.join("g")
        await bob.multicast_ordered("g", b"hello")
        daemons.network.cut.add("b")
        seen: list[object] = []
        with trio.fail_after(5):
            while len(seen) < 3:
                event = await ann.receive()
                if isinstance(event, DaemonView):
                    seen.append(event.daemons)
                elif isinstance(event, Message):
                    seen.append(event.data)
        assert seen == [("a", "b"), b"hello", ("a",)]


async def test_who_does_not_say_hello_is_cut_off(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with virtual_daemons(tmp_path, "a") as daemons:
        with raw(daemons) as client:
            client.send(encode_hello("max")[:5])
            assert HELLO_S <= await ended_after(client) < HELLO_S + 0.1
        assert daemons["a"].service.connections.refusals.counts["slow"] == 1


async def test_who_does_not_close_its_end_is_cut_off(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with virtual_daemons(tmp_path, "a") as daemons:
        with raw(daemons) as client:
            client.send(b"\xff" * 10)
            await ended_after(client)
            assert len(daemons["a"].service.connections) == 1
            await trio.sleep(LINGER_S + 0.1)
            assert len(daemons["a"].service.connections) == 0


async def test_a_daemon_that_leaves_waits_for_its_programs_but_not_long(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with virtual_daemons(tmp_path, "ab") as daemons, connect_to(daemons, "a") as busy:
        await busy.join("g")
        async with connect_to(daemons, "b") as sender:
            await sender.multicast_many("g", [bytes(1000)] * 3000)
            await sender.multicast_ordered("g", b"last")
        started = trio.current_time()
        daemons["a"].service.leave()
        await daemons.settle("b", 2.0)
        assert trio.current_time() - started < 0.2, "nobody else waits for them"
        while "a" in daemons.network.ends:
            await trio.sleep(0.01)
        assert 0.5 < trio.current_time() - started < 1.5


NO_TIMEOUT = "session_timeout_s = 0"
"""Programs send heartbeats by the real clock, which stands still here."""

FAR_AHEAD = f"{NO_TIMEOUT}\n[windows]\nahead_bytes = 8_000_000"
"""Senders have sent all, and left, before a program reads a part of what waits for it."""


async def test_a_program_that_holds_all_up_is_cut_off_in_time(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    limits = f'slow_receivers = "block"\nblock_bytes = 100_000\nblock_s = 30\n{FAR_AHEAD}'
    async with virtual_daemons(tmp_path, "a", limits) as daemons, connect_to(daemons, "a") as slow:
        await slow.join("g")
        async with connect_to(daemons, "a") as sender:
            await sender.multicast_many("g", [bytes(1000)] * 4000)
        sessions = daemons["a"].service.core.sessions.by_connection
        await trio.sleep(29)
        assert [s.too_slow for s in sessions.values()] == [False]
        await trio.sleep(5)  # one more, and what a busy host makes the clock jump
        assert [s.too_slow for s in sessions.values()] == [True]
        with pytest.raises(SessionEnded, match="all senders waited for it for 30 s"):
            async for _ in slow:
                pass


async def test_what_waits_before_a_slow_program_is_bounded_beside_its_own_limit(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """Its daemon reports no progress, and the sender's daemon stops once `ahead_bytes` wait."""
    limits = f'slow_receivers = "block"\nblock_bytes = 100_000\n{NO_TIMEOUT}'
    async with (
        virtual_daemons(tmp_path, "a", limits) as daemons,
        connect_to(daemons, "a") as sender,
        connect_to(daemons, "a") as slow,
        trio.open_nursery() as nursery,
    ):
        await slow.join("g")
        nursery.start_soon(sender.multicast_many, "g", [bytes(1000)] * 20_000)
        await trio.sleep(5)
        sessions = daemons["a"].service.core.sessions.by_connection.values()
        unread = max(session.output_bytes for session in sessions)
        assert 100_000 < unread < 2 * Windows().ahead_bytes
        nursery.cancel_scope.cancel()


async def test_whoever_else_holds_all_up_is_cut_off_in_time_too(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """It began later, and nothing is said to it after the first one has had to go."""
    limits = f'slow_receivers = "block"\nblock_bytes = 100_000\nblock_s = 30\n{FAR_AHEAD}'
    async with (
        virtual_daemons(tmp_path, "a", limits) as daemons,
        connect_to(daemons, "a") as first,
        connect_to(daemons, "a") as second,
    ):
        await first.join("g")
        await second.join("h")
        sessions = list(daemons["a"].service.core.sessions.by_connection.values())
        async with connect_to(daemons, "a") as sender:
            await sender.multicast_many("g", [bytes(1000)] * 4000)
        await trio.sleep(10)
        async with connect_to(daemons, "a") as sender:  # UNRELIABLE messages wait for no answer
            await sender.multicast_many("h", [bytes(1000)] * 4000, level=ServiceLevel.UNRELIABLE)
        await trio.sleep(19)
        assert [s.too_slow for s in sessions] == [False, False]
        await trio.sleep(5)
        assert [s.too_slow for s in sessions] == [True, False]
        await trio.sleep(10)
        assert [s.too_slow for s in sessions] == [True, True]
