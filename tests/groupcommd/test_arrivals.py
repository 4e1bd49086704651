"""What has come is read to its end, though epoll (edge-triggered, epoll(7)) tells of it once."""

import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio
import trio.testing

from groupcomm.session.frames import encode_hello, encode_query
from groupcommd.programs import connections as module
from tests.groupcommd.virtual import Daemons, virtual_clock, virtual_daemons

QUESTION = encode_query("name")
WAIT_S = 60.0


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(WAIT_S):
        while not condition():
            await trio.sleep(0.01)


async def admit(daemons: Daemons, stack: ExitStack) -> socket.socket:
    program = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    program.connect(str(daemons["a"].unix))
    program.setblocking(False)
    program.sendall(encode_hello("ann"))
    await trio.lowlevel.wait_readable(program)
    return program


async def test_a_stream_that_ends_behind_its_last_bytes_ends(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """One event tells of both, and the read of the bytes does not see the end."""
    async with virtual_daemons(tmp_path, "a") as daemons:
        connections = daemons["a"].service.connections
        with ExitStack() as stack:
            program = await admit(daemons, stack)
            program.sendall(QUESTION)
            program.shutdown(socket.SHUT_WR)
            await until(lambda: len(connections) == 0)
            assert b"a" in program.recv(65_536), "the question was answered"


async def test_a_stream_that_breaks_while_it_is_not_read_ends(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """What its principal owes holds the reading back."""
    quota = "quotas = {messages_per_s = 1}\n"
    async with virtual_daemons(tmp_path, "a", quota) as daemons:
        connections = daemons["a"].service.connections
        with ExitStack() as stack:
            program = await admit(daemons, stack)
            for _ in range(50):
                program.sendall(QUESTION)
                await trio.sleep(0.01)
        await until(lambda: len(connections) == 0)


async def test_what_is_more_than_a_turn_reads_is_read_in_the_next_ones(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_BYTES", 2 * len(QUESTION))
    monkeypatch.setattr(module, "TURN_BYTES", 4 * len(QUESTION))
    monkeypatch.setattr(module, "LEAST_BYTES", 1)
    async with virtual_daemons(tmp_path, "a") as daemons:
        with ExitStack() as stack:
            program = await admit(daemons, stack)
            await trio.sleep(0.1)
            program.recv(65_536)
            program.sendall(QUESTION)
            await trio.sleep(0.1)
            answer = program.recv(65_536)
            program.sendall(50 * QUESTION)
            found = b""
            with trio.fail_after(WAIT_S):
                while len(found) < 50 * len(answer):
                    await trio.lowlevel.wait_readable(program)
                    found += program.recv(65_536)
            assert found == 50 * answer
