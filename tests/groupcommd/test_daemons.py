"""LocalCluster as processes, with real sockets and real kills."""

import signal
import socket
import sys
from pathlib import Path

import pytest
import trio

from groupcomm.events import Message
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm_client import Connection, connect
from groupcomm_tools.local_cluster import ClusterError, LocalCluster
from groupcommd.config.config_file import read_addresses


async def take(connection: Connection, count: int) -> list[Message]:
    """The next messages, whatever views come between them."""
    found: list[Message] = []
    with trio.fail_after(20):
        while len(found) < count:
            event = await connection.receive()
            if isinstance(event, Message):
                found.append(event)
    return found


async def test_three_daemons_deliver_all_levels_to_all(tmp_path: Path) -> None:
    async with LocalCluster("abc") as daemons:
        await daemons.settle("abc")
        async with (
            connect(str(daemons["a"].unix), user="ann") as ann,
            connect(str(daemons["b"].unix), user="bob") as bob,
            connect(str(daemons["c"].unix), user="cid") as cid,
        ):
            for each in (ann, bob, cid):
                await each.join("chat")
            for level in LEVELS:
                await ann.multicast("chat", level.name.encode(), level=level, type=int(level))
            for each in (ann, bob, cid):
                got = await take(each, len(LEVELS))
                assert {(m.level, m.type, m.data) for m in got} == {
                    (level, int(level), level.name.encode()) for level in LEVELS
                }
                assert {m.sender for m in got} == {ann.member}


async def test_all_see_one_order_and_know_it(tmp_path: Path) -> None:
    async with LocalCluster("abc") as daemons:
        await daemons.settle("abc")
        async with (
            connect(str(daemons["a"].unix)) as ann,
            connect(str(daemons["b"].unix)) as bob,
            connect(str(daemons["c"].unix)) as cid,
        ):
            everybody = (ann, bob, cid)
            for each in everybody:
                await each.join("chat")
            async with trio.open_nursery() as nursery:
                for each in everybody:
                    texts = [b"%d" % number for number in range(100)]
                    nursery.start_soon(each.multicast_many, "chat", texts)
            orders = [[(m.sender, m.data) for m in await take(each, 300)] for each in everybody]
            assert orders[0] == orders[1] == orders[2]
            place = await ann.multicast_ordered("chat", b"last", level=ServiceLevel.SAFE)
            (last,) = await take(bob, 1)
            assert last.position == place.position


async def test_a_killed_daemon_leaves_the_view_and_comes_back(tmp_path: Path) -> None:
    async with LocalCluster("abc") as daemons:
        await daemons.settle("abc")
        daemons["c"].kill()
        await daemons.settle("ab")
        await daemons["c"].start()
        await daemons.settle("abc")
        daemons["b"].signal(signal.SIGTERM)
        assert await daemons["b"].ended() == 0
        await daemons.settle("ac")
        causes = [
            cause
            for daemon in "ac"  # the first daemon may have told the second one
            for line in daemons[daemon].lines()
            if line.get("left") == ["b"]
            for cause in line["cause"]
        ]
        assert "member_left" in causes


async def test_a_cluster_of_which_one_does_not_start_leaves_nothing_behind() -> None:
    cluster = LocalCluster("ab")
    taken = read_addresses(cluster.config)["b"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as somebody:
        somebody.bind((taken.host, taken.port))
        with pytest.raises(ExceptionGroup) as caught:
            await cluster.__aenter__()
    assert caught.group_contains(ClusterError, match="daemon b does not start: ")
    assert not any(daemon.running for daemon in cluster.daemons.values())
    assert not cluster.folder.exists()


SUICIDE = """
import os, signal, sys, trio
from groupcomm_client import connect

async def main():
    async with connect(sys.argv[1], user="kamikaze") as connection:
        await connection.multicast("g", b"my last words")
        os.kill(os.getpid(), signal.SIGKILL)

trio.run(main)
"""


async def test_what_a_program_sent_before_it_was_killed_is_delivered() -> None:
    """`multicast` has returned, so the daemon takes it, whatever becomes of the program."""
    async with LocalCluster("ab") as daemons:
        await daemons.settle("ab")
        async with connect(str(daemons["b"].unix)) as bob:
            await bob.join("g")
            for _ in range(4):
                command = [sys.executable, "-c", SUICIDE, str(daemons["a"].unix)]
                done = await trio.run_process(command, check=False)
                assert done.returncode == -signal.SIGKILL
                (message,) = await take(bob, 1)
                assert message.data == b"my last words"
