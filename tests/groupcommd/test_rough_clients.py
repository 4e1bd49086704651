"""Clients that break every rule: no other client notices, and the daemon keeps no state of them."""

import os
import random
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

from groupcomm.errors import SessionEnded
from groupcomm.events import Message
from groupcomm.session.frames import encode_hello
from groupcomm_client import Connection, connect
from groupcomm_tools.local_cluster import LocalCluster
from groupcommd.programs.listeners import MAX_HALF_OPEN_LOCAL


@pytest.fixture
async def daemons(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    async with LocalCluster("a") as running:
        yield running


def raw(daemons: LocalCluster) -> socket.socket:
    """A connection that has said nothing yet."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(10)
    made.connect(str(daemons["a"].unix))
    return made


def answer(client: socket.socket) -> bytes:
    """All that the daemon says until it ends the connection."""
    found = b""
    try:
        while data := client.recv(65536):
            found += data
    except ConnectionResetError:
        pass  # the daemon had not read all bytes
    return found


async def echo(connection: Connection, data: bytes) -> None:
    """The daemon still serves somebody who behaves."""
    with trio.fail_after(10):
        await connection.multicast("g", data)
        while True:
            event = await connection.receive()
            if isinstance(event, Message) and event.data == data:
                return


async def test_bytes_that_mean_nothing_end_one_connection(daemons: LocalCluster) -> None:
    rng = random.Random(1)
    async with connect(str(daemons["a"].unix)) as good:
        await good.join("g")
        for number in range(40):
            with raw(daemons) as bad:
                bad.sendall(rng.randbytes(rng.randint(1, 5000)))
                bad.shutdown(socket.SHUT_WR)
                await trio.to_thread.run_sync(answer, bad)
            await echo(good, b"%d" % number)
    assert daemons["a"].running
    assert "failed to serve connection" not in daemons["a"].log.read_text()


async def test_a_hello_cut_at_every_length_admits_nobody(daemons: LocalCluster) -> None:
    hello = encode_hello("max")
    async with connect(str(daemons["a"].unix)) as good:
        await good.join("g")
        for length in range(len(hello)):
            with raw(daemons) as bad:
                bad.sendall(hello[:length])
                bad.shutdown(socket.SHUT_WR)
                assert await trio.to_thread.run_sync(answer, bad) == b""
        await echo(good, b"still here")
        status = await good.ask("status")
        assert [session["user"] for session in status["sessions"]] == [good.member.user]


async def test_who_says_nothing_makes_room_for_others(daemons: LocalCluster) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(raw(daemons)) for _ in range(MAX_HALF_OPEN_LOCAL + 50)]
        async with connect(str(daemons["a"].unix)) as good:
            await good.join("g")
            await echo(good, b"in spite of them")
            status = await good.ask("status")
            assert status["connections"] <= MAX_HALF_OPEN_LOCAL + 1
            assert status["connections_refused"] >= 50
        assert silent[0].recv(1) == b"", "the oldest was cut off"


async def test_a_client_that_does_not_read_is_cut_off_and_learns_why(tmp_path: Path) -> None:
    limits = "output_cap_bytes = 4000000\nunreliable_drop_bytes = 4000000"
    async with LocalCluster("a", clients=limits) as daemons:
        where = str(daemons["a"].unix)
        async with connect(where, user="lazy") as lazy, connect(where) as good:
            await lazy.join("g")
            await good.join("g")
            kept = waiting = 0
            while waiting >= kept:  # a client that is cut off has a few seconds to read the reason
                kept = waiting
                for number in range(10):
                    await echo(good, b"%d" % number + bytes(30_000))
                waiting = await output_bytes(good, "lazy")
                assert waiting < 5_000_000
            assert waiting < 1000, "what it will not read is not kept"
            with pytest.raises(SessionEnded, match="too slow"), trio.fail_after(10):
                async for _ in lazy:
                    pass
            assert resident_bytes(daemons) < 200e6


async def output_bytes(connection: Connection, user: str) -> int:
    """Return the number of bytes that wait at a daemon for its program."""
    status = await connection.ask("status")
    (waiting,) = [each["output_bytes"] for each in status["sessions"] if each["user"] == user]
    return int(waiting)


def resident_bytes(daemons: LocalCluster) -> float:
    """Return the memory of the daemon's process."""
    pages = int(Path(f"/proc/{daemons['a'].pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
