"""Operators' work: the log, signals, a daemon's treatment of slow programs."""

import signal
from collections.abc import Callable
from typing import Any

import pytest
import trio

from groupcomm.errors import SessionEnded
from groupcomm.events import Message
from groupcomm_client import Connection, connect
from groupcomm_tools.local_cluster import LocalCluster, LocalDaemon
from tests.groupcomm_tools.shell import NO_PAUSES


async def logged(daemon: LocalDaemon, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first line of a daemon's log that is so."""
    with trio.fail_after(20):
        while True:
            for line in daemon.lines():
                if what(line):
                    return line
            await trio.sleep(0.01)


async def test_a_late_token_is_reported_before_it_is_lost() -> None:
    async with LocalCluster("abc") as daemons:
        await daemons.settle("abc")
        for _ in range(5):  # on a busy host the token may rest elsewhere: nobody waits for it then
            async with connect(str(daemons["c"].unix)) as connection:
                await connection.multicast_ordered("g", b"x")  # from now on the token rests at c
                await trio.sleep(0.1)
                daemons["c"].signal(signal.SIGSTOP)
                await daemons.settle("ab")
                daemons["c"].signal(signal.SIGCONT)
            lines = daemons["a"].lines()
            late = [n for n, line in enumerate(lines) if "silent_s" in line]
            lost = [n for n, line in enumerate(lines) if line.get("left") == ["c"]]
            await daemons.settle("abc")
            if late:
                break
        assert late[-1] < lost[-1]
        assert 0.3 < lines[late[-1]]["silent_s"] < 0.6


async def test_sighup_takes_over_what_it_can_and_names_the_rest() -> None:
    async with LocalCluster("a", clients="backlog_cap_bytes = 1000") as daemons:
        text = daemons.config.read_text()
        daemons.config.write_text("nonsense = 1\n" + text)
        daemons["a"].signal(signal.SIGHUP)
        wrong = await logged(daemons["a"], lambda line: line["level"] == "error")
        assert "nonsense" in wrong["text"]
        daemons.config.write_text(
            'cluster = "other"\n' + text.replace("backlog_cap_bytes = 1000", "output_cap_bytes = 1")
        )
        daemons["a"].signal(signal.SIGHUP)
        await logged(daemons["a"], lambda line: "unreliable_drop_bytes" in line["text"])
        daemons.config.write_text('cluster = "other"\n' + text.replace("1000", "2000"))
        daemons["a"].signal(signal.SIGHUP)
        read = await logged(daemons["a"], lambda line: "needs_restart" in line)
        assert (read["taken"], read["needs_restart"]) == (["limits"], ["core"])
        async with connect(str(daemons["a"].unix)) as connection:
            assert (await connection.ask("status"))["state"] == "operational"


BLOCKING = 'slow_receivers = "block"\nblock_bytes = 200_000\nblock_s = {}'
SMALL_WINDOW = f"[windows]\nstream_bytes = 200_000\n{NO_PAUSES}"
"""Daemons that a busy machine parts would not hear what is sent meanwhile."""

COUNT = 400
SIZE = 10_000


async def read_all(connection: Connection, count: int) -> list[bytes]:
    """Return the first bytes of this many messages."""
    found: list[bytes] = []
    async for event in connection:
        if isinstance(event, Message):
            found.append(event.data[:4])
            if len(found) == count:
                break
    return found


async def output_bytes(connection: Connection, user: str) -> int:
    """Return the bytes that wait at its daemon for a program."""
    status = await connection.ask("status")
    (session,) = [each for each in status["sessions"] if each["user"] == user]
    waiting: int = session["output_bytes"]
    return waiting


async def test_all_senders_wait_for_a_slow_program_if_they_are_to() -> None:
    async with LocalCluster("ab", SMALL_WINDOW, clients=BLOCKING.format(60)) as daemons:
        await daemons.settle("ab")
        async with (
            connect(str(daemons["a"].unix), user="slow") as slow,
            connect(str(daemons["b"].unix)) as sender,
            connect(str(daemons["a"].unix)) as other,
        ):
            await slow.join("g")
            texts = [b"%04d" % number + bytes(SIZE - 4) for number in range(COUNT)]
            sent = trio.Event()

            async def send() -> None:
                await sender.multicast_many("g", texts)
                await sender.multicast_ordered("g", b"done")
                sent.set()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                with trio.fail_after(30):
                    while await output_bytes(other, "slow") <= 200_000:
                        await trio.sleep(0.05)
                await trio.sleep(0.5)
                assert not sent.is_set(), "it waits, at another daemon"
                waiting = await output_bytes(other, "slow")
                assert waiting < COUNT * SIZE / 2, "little waits here"
                with trio.fail_after(60):
                    got = await read_all(slow, COUNT)
                    await sent.wait()
            assert got == [text[:4] for text in texts]


async def test_a_program_that_all_wait_for_is_cut_off_in_the_end() -> None:
    async with LocalCluster("ab", SMALL_WINDOW, clients=BLOCKING.format(0.5)) as daemons:
        await daemons.settle("ab")
        async with (
            connect(str(daemons["a"].unix), user="slow") as slow,
            connect(str(daemons["b"].unix)) as sender,
        ):
            await slow.join("g")
            with trio.fail_after(30):
                await sender.multicast_many("g", [bytes(SIZE)] * COUNT)
                await sender.multicast_ordered("g", b"done")
                with pytest.raises(SessionEnded, match=r"all senders waited for it for 0\.5 s"):
                    await read_all(slow, COUNT)
