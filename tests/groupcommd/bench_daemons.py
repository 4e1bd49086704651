"""The cost of a daemon, and the effect of rough clients on others: figures as JSON.

Run by `make figures`, not by `make test`: a test asserts no time.
"""

import json
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import trio

from groupcomm.errors import LocalProtocolError
from groupcomm.events import Message
from groupcomm.session.frames import encode_hello
from groupcomm_client import Connection, ConnectOptions, connect
from groupcomm_tools.bench.runs import cpu_s
from groupcomm_tools.local_cluster import LocalCluster

ROUNDS: Final = 5
ROUND_S: Final = 3.0
RATE: Final = 200
SESSIONS: Final = 1000
GROUPS_EACH: Final = 10
HALF_OPEN: Final = 1000
MIB: Final = 1024 * 1024


def memory_mib(pid: int) -> float:
    """Return the bytes that it keeps in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


async def idle_percent(names: str, seconds: float = 20.0) -> float:
    """Return the processor share, in units of one, of the busiest daemon of an unused cluster."""
    async with LocalCluster(names) as daemons:
        await daemons.settle(names)
        await trio.sleep(1)
        before = {name: cpu_s(daemons[name].pid) for name in names}
        await trio.sleep(seconds)
        return max((cpu_s(daemons[n].pid) - before[n]) / seconds * 100 for n in names)


async def memory_of_sessions() -> float:
    """MiB of a daemon with SESSIONS sessions in GROUPS_EACH groups each, ten to a group."""
    async with LocalCluster("a") as daemons, trio.open_nursery() as nursery:
        ready: list[int] = []

        async def session(number: int) -> None:
            async with connect(
                str(daemons["a"].unix), options=ConnectOptions(timeout_s=120)
            ) as connection:
                for group in range(GROUPS_EACH):
                    await connection.join(f"g{(number * GROUPS_EACH + group) % SESSIONS}")
                ready.append(number)
                async for _ in connection:
                    pass

        for number in range(SESSIONS):
            nursery.start_soon(session, number)
        while len(ready) < SESSIONS:
            await trio.sleep(0.1)
        await trio.sleep(1)
        found = memory_mib(daemons["a"].pid)
        nursery.cancel_scope.cancel()
    return found


async def largest_message() -> dict[str, Any]:
    """64 MiB to programs at three daemons, and what a larger one is told."""
    data = random.Random(1).randbytes(64 * MIB)
    async with LocalCluster("abc", "packet_bytes = 60000") as daemons:
        await daemons.settle("abc")
        async with (
            connect(str(daemons["a"].unix)) as a,
            connect(str(daemons["b"].unix)) as b,
            connect(str(daemons["c"].unix)) as c,
        ):
            whole = []

            async def receive(connection: Connection) -> None:
                async for event in connection:
                    if isinstance(event, Message):
                        whole.append(event.data == data)
                        return

            for each in (a, b, c):
                await each.join("g")
            started = time.monotonic()
            async with trio.open_nursery() as nursery:
                for each in (a, b, c):
                    nursery.start_soon(receive, each)
                await a.multicast("g", data)
            took_s = time.monotonic() - started
            refusal = ""
            try:
                await a.multicast("g", data + b"x")
            except LocalProtocolError as error:
                refusal = str(error)
    return {"whole_at": sum(whole), "seconds": round(took_s, 2), "one_byte_more": refusal}


async def p95_ms(connection: Connection) -> float:
    """Return the delays of messages to oneself, at a steady rate."""
    delays: list[float] = []
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            end = trio.current_time() + ROUND_S
            while trio.current_time() < end:
                await connection.multicast("echo", str(time.perf_counter()).encode())
                await trio.sleep(1 / RATE)
            await connection.multicast("echo", b"end")

        nursery.start_soon(send)
        async for event in connection:
            if isinstance(event, Message):
                if event.data == b"end":
                    break
                delays.append(time.perf_counter() - float(event.data))
    return sorted(delays)[len(delays) * 95 // 100] * 1000


def raw(where: Path) -> socket.socket:
    """A connection that has said nothing, and does not wait."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with suppress(BlockingIOError):
        made.setblocking(False)
        made.connect(str(where))
    return made


async def be_rough(where: Path) -> None:
    """Half-open connections, random bytes, frames cut at every length, somebody who never reads."""
    rng = random.Random(2)
    hello = encode_hello("max")

    async def pester() -> None:
        while True:
            for bad in (rng.randbytes(rng.randint(1, 5000)), hello[: rng.randrange(len(hello))]):
                with raw(where) as client, suppress(OSError):
                    client.send(bad)
            await trio.sleep(0.01)

    async def flood(lazy: Connection) -> None:
        async with connect(str(where)) as sender:
            while True:
                await sender.multicast("lazy", bytes(1000))
                await trio.sleep(0.01)

    with ExitStack() as stack:
        for _ in range(HALF_OPEN):
            stack.enter_context(raw(where))
            await trio.sleep(0)
        async with connect(str(where)) as lazy, trio.open_nursery() as nursery:
            await lazy.join("lazy")
            nursery.start_soon(pester)
            nursery.start_soon(flood, lazy)
            print("rough", flush=True)


@asynccontextmanager
async def rough_clients(where: Path) -> AsyncIterator[None]:
    """Have a process of its own be rough."""
    command = [sys.executable, "-m", "tests.groupcommd.bench_daemons", "--rough", str(where)]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.receive_some()
    yield
    process.kill()
    await process.wait()
    await process.stdout.aclose()


async def rough() -> dict[str, Any]:
    """The p95 of a program that behaves, without and with others that do not, in turn."""
    normal, disturbed = [], []
    async with LocalCluster("a") as daemons:
        where = daemons["a"].unix
        async with connect(str(where)) as good:
            await good.join("echo")
            for _ in range(ROUNDS):
                normal.append(await p95_ms(good))
                async with rough_clients(where):
                    disturbed.append(await p95_ms(good))
                await trio.sleep(0.5)
        memory = memory_mib(daemons["a"].pid)
    ratios = [d / n for n, d in zip(normal, disturbed, strict=True)]
    return {
        "normal_p95_ms": [round(value, 2) for value in normal],
        "rough_p95_ms": [round(value, 2) for value in disturbed],
        "median_ratio": round(statistics.median(ratios), 2),
        "daemon_mib": round(memory, 1),
    }


async def main() -> None:
    """All figures, each printed when it is there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    found: dict[str, Any] = {
        "idle_percent_alone": round(await idle_percent("a"), 2),
        "idle_percent_of_three": round(await idle_percent("abc"), 2),
    }
    print(json.dumps(found), flush=True)
    print(json.dumps({"mib_of_1000_sessions": round(await memory_of_sessions(), 1)}), flush=True)
    print(json.dumps({"message_of_64_mib": await largest_message()}), flush=True)
    print(json.dumps({"rough_clients": await rough()}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rough"]:
        trio.run(be_rough, Path(sys.argv[2]))
    else:
        trio.run(main)
