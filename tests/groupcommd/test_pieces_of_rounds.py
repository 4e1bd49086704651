"""A round of the event loop reads and ends few connections, and a turn writes to few."""

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio
import trio.testing

from groupcomm.engine import ClientGone, Output
from groupcomm.session.frames import encode_hello, encode_query
from groupcommd.programs import connections as module
from groupcommd.programs.connection import Connection
from tests.groupcommd.test_rounds import PROGRAMS, open_all
from tests.groupcommd.virtual import Daemons, virtual_clock, virtual_daemons


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


async def admit_all(daemons: Daemons, stack: ExitStack) -> list[socket.socket]:
    programs = open_all(daemons, stack)
    for number, program in enumerate(programs):
        program.sendall(encode_hello(f"u{number}"))
    sessions = daemons["a"].service.core.sessions.by_connection
    while sum(session.bundle_limit > 0 for session in sessions.values()) < PROGRAMS:
        await trio.sleep(0.01)
    return programs


async def test_of_many_streams_that_end_at_once_a_round_ends_few(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READS_A_ROUND", 10)
    monkeypatch.setattr(module, "READS_AN_END", 4)
    async with virtual_daemons(tmp_path, "a") as daemons:
        service, gone = daemons["a"].service, list[int]()
        turn = service._turn

        def counted() -> None:
            gone.append(sum(isinstance(e, ClientGone) for e in service.connections.inputs))
            turn()

        with ExitStack() as stack:
            await admit_all(daemons, stack)
            service._turn = counted  # type: ignore[method-assign]
        while len(service.connections):
            await trio.sleep(0.01)
        assert sum(gone) == PROGRAMS
        assert max(gone) <= 2 * 2, "an end counts as five reads"
        assert not service.core.sessions.unfinished


async def test_of_many_programs_that_speak_at_once_a_round_reads_few(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READS_A_ROUND", 8)
    async with virtual_daemons(tmp_path, "a") as daemons:
        connections, rounds, found = daemons["a"].service.connections, [0], set[int]()
        read = connections._read_bytes

        def counted(connection: Connection) -> module.Left:
            rounds[-1] += 1
            found.add(connection.number)
            return read(connection)

        with ExitStack() as stack:
            programs = await admit_all(daemons, stack)
            await trio.sleep(0.1)
            monkeypatch.setattr(connections, "_read_bytes", counted)
            for program in programs:
                program.sendall(encode_query("name"))
            while len(found) < PROGRAMS:
                await trio.lowlevel.checkpoint()
                rounds.append(0)
                assert len(rounds) < 1000, "each is read"
        assert max(rounds) <= 2 * 8, "a round begins before or after the count of it"


async def test_a_turn_writes_to_few_and_those_that_get_little_do_not_wait(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WRITES_A_TURN", 8)
    monkeypatch.setattr(module, "WRITE_S", 60.0)
    async with virtual_daemons(tmp_path, "a") as daemons:
        connections, written = daemons["a"].service.connections, list[int]()
        with ExitStack() as stack:
            await admit_all(daemons, stack)
            await trio.sleep(0.1)
            monkeypatch.setattr(connections, "_write", lambda each: written.append(each.number))
            numbers, output = [number for number, _ in connections.principals()], Output([])
            output.ready = numbers[:-1]
            connections.carry_out(output)
            assert len(written) == 8
            output.ready = numbers[-1:]
            connections.carry_out(output)
            assert written[8] == numbers[-1], "the others wait longer, and have more"
            assert len(written) == 16
            await trio.sleep(0.1)
            assert sorted(set(written)) == sorted(numbers)
            assert len(written) == PROGRAMS
            monkeypatch.setattr(module, "WRITE_S", 0.0)
            connections.carry_out(output)
            output.ready = numbers[:3]
            connections.carry_out(output)
            assert len(written) == PROGRAMS + 2, "each turn has used its time up"
            await trio.sleep(0.1)
            assert sorted(written[PROGRAMS:]) == sorted([*numbers[:3], numbers[-1]])
