"""Programs that ask a daemon as fast as it reads: it answers one question at a time."""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio
import trio.testing

from groupcomm.engine import QuestionAnswered
from groupcomm.session.frames import encode_hello, encode_query
from groupcomm_client import connect
from groupcomm_tools.local_cluster import LocalCluster
from groupcommd.programs.connections import TURN_BYTES
from tests.groupcommd.virtual import Daemons, virtual_clock, virtual_daemons

BURST = 20_000
FLOOD = 516_000
FLOOD_S = 6.7
PATIENCE_S = 20.0
NO_RIGHTS = 'quotas = {messages_per_s = 10}\n[[access]]\nwho = "token:ann"\nmay = "send"\n'
ANONYMOUS = "u000000000000"


class Counted:
    """Counts the answers that a daemon puts together.

    Attributes:
        made: all of them.
        most: the most answers of one turn.
    """

    def __init__(self, daemons: Daemons, name: str) -> None:
        self.made = self.most = 0
        answers = daemons[name].service._answers
        answer = answers.answer

        def counted(_question: str, _principal: str) -> Iterator[bytes]:
            self.made += 1
            yield bytes(2000)

        def answered(now: float) -> list[QuestionAnswered]:
            before = self.made
            found = answer(now)
            self.most = max(self.most, self.made - before)
            return found

        answers._answer = counted
        answers.answer = answered  # type: ignore[method-assign]


@asynccontextmanager
async def flood(path: Path, count: int) -> AsyncIterator[trio.SocketStream]:
    """A program that asks this often, and reads all answers."""
    made = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    await made.connect(str(path))
    async with trio.SocketStream(made) as rude, trio.open_nursery() as nursery:
        await rude.send_all(encode_hello(ANONYMOUS, 2))
        await rude.receive_some()  # the daemon has admitted it
        nursery.start_soon(write, rude, encode_query("status") * count)
        nursery.start_soon(read, rude)
        yield rude
        nursery.cancel_scope.cancel()


async def write(rude: trio.SocketStream, data: bytes) -> None:
    with suppress(trio.BrokenResourceError):
        await rude.send_all(data)


async def read(rude: trio.SocketStream) -> None:
    while await rude.receive_some():
        pass


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return virtual_clock()


async def test_a_burst_of_questions_has_one_answer_at_a_time(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with (
        virtual_daemons(tmp_path, "ab") as daemons,
        connect(str(daemons["b"].unix)) as polite,
    ):
        counted = Counted(daemons, "b")
        await polite.join("g")
        async with flood(daemons["b"].unix, BURST):
            while not counted.made:
                await trio.sleep(0.001)
            for _ in range(10):
                await polite.multicast_ordered("g", b"")
        assert counted.most == 1
        assert counted.made < BURST / 100


async def test_who_has_no_rights_is_answered_as_often_as_its_quota_says(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with virtual_daemons(tmp_path, "ab", NO_RIGHTS) as daemons:
        counted, view = Counted(daemons, "b"), daemons["b"].service.core.view
        async with flood(daemons["b"].unix, FLOOD):
            session = next(iter(daemons["b"].service.core.sessions.by_connection.values()))
            held = 0
            for _ in range(67):
                await trio.sleep(FLOOD_S / 67)
                held = max(held, sum(map(len, session._input)))
        assert 60 < counted.made <= 10 + 67 + 1, "a burst of a second, and ten more in each"
        assert held <= TURN_BYTES, "the rest waits in its socket"
        assert daemons["a"].service.core.view == daemons["b"].service.core.view == view


# ---- on real time ----


@pytest.mark.parametrize(("clients", "count"), [("", BURST), (NO_RIGHTS, FLOOD)])
async def test_questions_cost_a_daemon_no_view(clients: str, count: int) -> None:
    async with LocalCluster("abc", clients=clients) as cluster:
        await cluster.settle("abc")
        before = [views(cluster, name) for name in "abc"]
        rude = await trio.to_thread.run_sync(ask_at_once, cluster["b"].unix, count)
        with rude, trio.fail_after(PATIENCE_S):
            async with connect(str(cluster["b"].unix)):  # this opens behind all earlier output
                pass
            await cluster.settle("abc")
        assert [views(cluster, name) for name in "abc"] == before


def views(cluster: LocalCluster, name: str) -> list[str]:
    """Return a daemon's log lines about its views."""
    return [line["text"] for line in cluster[name].lines() if "daemons" in line]


def ask_at_once(path: Path, count: int) -> socket.socket:
    """Send as much of it as goes within a second; nobody reads the answers."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(PATIENCE_S)
    made.connect(str(path))
    made.sendall(encode_hello(ANONYMOUS, 2))
    made.recv(100)
    made.settimeout(1.0)
    with suppress(TimeoutError):
        made.sendall(encode_query("status") * count)
    return made
