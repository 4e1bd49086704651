"""However many programs speak at once, the daemon takes few turns for them."""

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio
import trio.testing

from groupcomm.session.frames import encode_bye, encode_hello
from groupcommd.programs.connections import HELLO_S
from tests.groupcommd.virtual import Daemons, virtual_clock, virtual_daemons

PROGRAMS = 60
MOST_TURNS = 20


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


class Turns:
    """Counts the turns of a daemon."""

    def __init__(self, daemons: Daemons) -> None:
        self.count = 0
        service = daemons["a"].service
        turn = service._turn

        def counted() -> None:
            self.count += 1
            turn()

        service._turn = counted  # type: ignore[method-assign]


def open_all(daemons: Daemons, stack: ExitStack) -> list[socket.socket]:
    """Programs that are admitted."""
    opened = []
    for _ in range(PROGRAMS):
        made = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        made.connect(str(daemons["a"].unix))
        made.setblocking(False)
        opened.append(made)
    return opened


async def test_what_many_say_in_one_round_is_taken_in_few_turns(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with virtual_daemons(tmp_path, "a") as daemons:
        with ExitStack() as stack:
            programs = open_all(daemons, stack)
            while len(daemons["a"].service.connections) < PROGRAMS:
                await trio.sleep(0.01)
            for number, program in enumerate(programs):
                program.sendall(encode_hello(f"u{number}"))
            sessions = daemons["a"].service.core.sessions.by_connection
            while sum(session.bundle_limit > 0 for session in sessions.values()) < PROGRAMS:
                await trio.sleep(0.01)
            turns = Turns(daemons)
            for program in programs:
                program.sendall(b"\0\0\0\x01\x04")  # an empty question
            await trio.sleep(0)
            await trio.sleep(0)
            assert 1 <= turns.count <= MOST_TURNS
            for program in programs:
                program.shutdown(socket.SHUT_WR)
            await trio.sleep(0.01)


async def test_who_waits_for_its_turn_is_not_cut_off_for_being_slow(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """A hello that its principal's debt holds back was said in time."""
    quota = "quotas = {messages_per_s = 1}\n"
    async with virtual_daemons(tmp_path, "a", quota) as daemons:
        with ExitStack() as stack:
            programs = open_all(daemons, stack)[:12]
            for number, program in enumerate(programs):
                program.sendall(encode_hello(f"u{number}") + encode_bye())
            started = trio.current_time()
            for program in programs:
                await trio.lowlevel.wait_readable(program)
            assert trio.current_time() - started > 2 * HELLO_S
            assert daemons["a"].service.connections.refusals.counts["slow"] <= PROGRAMS - 12
