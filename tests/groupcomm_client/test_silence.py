"""A daemon that stands still is left, and a program that stands still is gone: all three kinds."""

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from groupcomm.errors import SessionEnded
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm.session.frames import FrameKind, encode_alive
from groupcomm_client import ConnectOptions, Reconnected, blocking
from groupcomm_client.basic_connection import GOODBYE_S
from groupcomm_client.client_protocol import MOST_UNREAD, MOST_UNREAD_BYTES, ClientProtocol
from groupcomm_client.options import SAME_HOST_TIMEOUT_S
from groupcomm_tools.local_cluster import LocalCluster
from tests.groupcomm_client.kinds import PATIENCE_S, Kind, next_of, played
from tests.groupcomm_client.virtual_kinds import AsyncioTime, Time, TrioTime, talking

PATIENT_S = 1.0
"""For how long programs here wait for their daemon."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with contextlib.closing(LocalCluster("ab", clients="session_timeout_s = 3.0")) as running:
        for name in "ab":
            trio.run(running[name].start)
        trio.run(running.settle, "ab")
        yield running


@pytest.fixture(autouse=True)
def settled(cluster: LocalCluster) -> None:
    thread = threading.Thread(target=trio.run, args=(cluster.settle, "ab"))
    thread.start()
    thread.join()


@contextlib.contextmanager
def stopped(cluster: LocalCluster, name: str) -> Iterator[None]:
    """Have a daemon stand still; its kernel accepts bytes meanwhile."""
    cluster[name].signal(signal.SIGSTOP)
    try:
        yield
    finally:
        cluster[name].signal(signal.SIGCONT)


def both(cluster: LocalCluster) -> str:
    return f"{cluster['a'].unix},{cluster['b'].unix}"


@played
async def test_an_idle_program_leaves_a_daemon_that_stands_still(
    kind: Kind, cluster: LocalCluster
) -> None:
    async with kind.connect(both(cluster), reconnect=True, daemon_timeout_s=PATIENT_S) as ann:
        await ann.join("g")
        await next_of(kind, ann, GroupView)
        with stopped(cluster, "a"):
            told = await next_of(kind, ann, Reconnected)
        assert told.member.daemon == "b"
        assert "nothing has come from the daemon for 1 s" in told.why


@played
async def test_a_sending_program_leaves_it_too(kind: Kind, cluster: LocalCluster) -> None:
    async with kind.connect(both(cluster), reconnect=True, daemon_timeout_s=PATIENT_S) as ann:
        with stopped(cluster, "a"):
            end = time.monotonic() + PATIENCE_S
            while ann.member.daemon == "a":  # until the socket is full, then it waits in it
                assert time.monotonic() < end
                await ann.multicast("g", bytes(20_000))


def test_a_program_that_calls_nothing_learns_it_with_its_next_call(cluster: LocalCluster) -> None:
    options = ConnectOptions(daemon_timeout_s=PATIENT_S)
    with blocking.connect(str(cluster["a"].unix), options=options) as ann, stopped(cluster, "a"):
        time.sleep(2 * PATIENT_S)  # no call of the library: its own thread notices
        with pytest.raises(SessionEnded, match="nothing has come from the daemon"):
            ann.multicast("g", b"x")


@pytest.mark.long
@played
async def test_an_idle_program_stays(kind: Kind, cluster: LocalCluster) -> None:
    async with (
        kind.connect(str(cluster["a"].unix)) as ann,
        kind.connect(str(cluster["b"].unix)) as bob,
    ):
        await bob.join("g")
        await next_of(kind, ann, DaemonView)
        assert await kind.receive(ann, 2 * SAME_HOST_TIMEOUT_S) is None
        await ann.multicast("g", b"x")
        assert (await next_of(kind, bob, Message)).data == b"x"


PROGRAM = """
import sys, time
from groupcomm_client import blocking
with blocking.connect(sys.argv[1], user="eve") as eve:
    eve.join("g")
    print("in", flush=True)
    while True:
        eve.receive()
"""


def test_a_program_that_stands_still_is_out_of_its_groups(cluster: LocalCluster) -> None:
    with blocking.connect(str(cluster["b"].unix)) as bob:
        bob.join("g")
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(cluster["a"].unix)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == b"in\n"
            _await_eve(bob, Cause.JOIN)
            program.send_signal(signal.SIGSTOP)
            _await_eve(bob, Cause.DISCONNECT)
            program.send_signal(signal.SIGCONT)
            _, said = program.communicate(timeout=PATIENCE_S)
            assert b"nothing has come from this program for 3 s" in said
        finally:
            program.send_signal(signal.SIGCONT)
            program.kill()
            program.communicate()
        with blocking.connect(str(cluster["a"].unix), user="eve") as again:
            status = again.ask("status")
            assert status["silent_programs"] == 1


def _await_eve(connection: Any, cause: Cause) -> None:
    """Wait until she has come, or gone."""
    while True:
        event = connection.receive(PATIENCE_S)
        if isinstance(event, GroupView) and event.cause is cause and event.changed[0].user == "eve":
            return


@pytest.mark.parametrize("time", [TrioTime(), AsyncioTime()], ids=lambda time: time.name)
def test_the_end_of_all_blocks_waits_once_for_a_daemon_that_stands_still(time: Time) -> None:
    async def scenario() -> None:
        async with talking(time, seed=1, crumb_bytes=100) as (connection, daemon):
            async with connection.group("one"), connection.group("two"):
                daemon.step = lambda: None  # type: ignore[method-assign]
                began = time.now()
            await connection.aclose()
            assert GOODBYE_S / 2 < time.now() - began < GOODBYE_S * 3 / 2

    time.run(scenario)


@pytest.mark.parametrize("time", [TrioTime(), AsyncioTime()], ids=lambda time: time.name)
def test_a_daemon_that_goes_on_is_waited_for_again(time: Time) -> None:
    async def scenario() -> None:
        async with talking(time, seed=1, crumb_bytes=100) as (connection, daemon):
            step = daemon.step
            async with connection.group("one"):
                daemon.step = lambda: None  # type: ignore[method-assign]
            daemon.step = step  # type: ignore[method-assign]
            await connection.ask("status")
            async with connection.group("two"):
                pass
            assert "two" not in connection.groups

    time.run(scenario)


@pytest.mark.parametrize("time", [TrioTime(), AsyncioTime()], ids=lambda time: time.name)
def test_a_heartbeat_leaves_though_more_has_come_before_the_loop_could_send_it(time: Time) -> None:
    """Programs of trio that sent something as soon as they were connected never sent any."""

    async def scenario() -> None:
        async with talking(time, seed=1, crumb_bytes=1000) as (connection, daemon):
            protocol = connection.protocol
            heard = encode_alive(FrameKind.DAEMON_ALIVE, 10.0)
            for _ in range(2):
                protocol.receive_data(heard)
            await time.loop.sleep(0.1)
            assert protocol.look_in_s > 0.0, "the first look is over"
            assert daemon.heartbeats == 1

    time.run(scenario)


def test_little_is_read_in_advance_for_a_program_that_receives_nothing() -> None:
    sender = MemberId("#ann#a", 1)
    for count, size in ((MOST_UNREAD, 1), (2, MOST_UNREAD_BYTES // 2)):
        protocol = ClientProtocol("ann")
        for number in range(count):
            assert protocol.may_read_ahead
            protocol.events.append(
                Message(sender, number, ("g",), ServiceLevel.FIFO, 0, bytes(size), None)
            )
        assert not protocol.may_read_ahead
