"""Daemons through a million fresh names: the growth of their memory.

    python -m tests.verification.campaigns memory --names 1000000

Two sites of two daemons. Lasting programs join, send to and leave groups and send to private names
that nobody has; short programs connect, join, send and end, half of them in the middle of a
message; one daemon is killed and started again, which changes the view twice. No name is used
twice. The memory of the three daemons that last is read after some silence, ten times. Checked:
from the second reading on it grows by less than `BYTES_A_NAME` for each name, and `NOISE_BYTES`.
"""

import os
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Final

import attrs
import trio

from groupcomm.level import LEVELS, ServiceLevel
from groupcomm_client import ConnectOptions, connect
from groupcomm_client.connection import Connection
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.terminal import say
from tests.verification.campaigns.runner import Found, campaign, option

SITES: Final = {"north": ("a", "b"), "south": ("c", "d")}
LASTING: Final = ("a", "b", "d")
RESTARTING: Final = "c"
PROGRAMS: Final = 4
"""The programs that last, at each of the lasting daemons."""

GROUPS, PRIVATE, USERS = 45, 45, 5
"""The names of each kind that a lasting program uses in a turn; a user has a group of its own."""

PATIENT: Final = ConnectOptions(timeout_s=120.0)
"""A busy machine may take long for a view, and this campaign does not measure speed."""

READINGS: Final = 10
SILENCE_S: Final = 12.0
"""After it nothing is held for others any more (tests/memory/rounds.py)."""

BYTES_A_NAME: Final = 4
"""Half a pointer: the smallest entry of any table has 50 times that."""

NOISE_BYTES: Final = 3_000_000
"""The variation of allocators, whatever programs do."""


@attrs.frozen
class Reading:
    """The memory of daemons at some moment.

    Attributes:
        names: the names used until then.
        restarts: the restarts of the one daemon until then, each with two views.
        bytes: the bytes of each lasting daemon that are in memory.
    """

    names: int
    restarts: int
    bytes: dict[str, int]


class Campaign:
    """A cluster, its lasting programs, and the number of names that they have used."""

    def __init__(self, cluster: LocalCluster, programs: Sequence[Connection]) -> None:
        self._cluster = cluster
        self._programs = programs
        self._fresh: Iterator[int] = count()
        self.names = 0
        self.restarts = 0

    def _name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}-{next(self._fresh):08}"

    async def turn(self) -> None:
        """Let all lasting programs use their share of names."""
        async with trio.open_nursery() as nursery:
            for at, program in enumerate(self._programs):
                nursery.start_soon(self._use, program, LASTING[at % len(LASTING)])

    async def _use(self, program: Connection, daemon: str) -> None:
        async with trio.open_nursery() as nursery:
            for at in range(GROUPS):
                nursery.start_soon(self._use_group, program, LEVELS[at % 6])
        for at in range(PRIVATE):
            nobody = f"#{self._name('nobody')}#{daemon}"
            await program.multicast(nobody, b"x", level=LEVELS[at % 6])
        async with trio.open_nursery() as nursery:
            for at in range(USERS):
                nursery.start_soon(self._come_and_go, daemon, bool(at % 2))
        program.pop_waiting()

    async def _use_group(self, program: Connection, level: ServiceLevel) -> None:
        group = self._name("group")
        await program.join(group)
        await program.multicast([group, self._name("empty")], b"x", level=level)
        await program.leave(group)

    async def _come_and_go(self, daemon: str, in_the_middle: bool) -> None:
        address = str(self._cluster[daemon].unix)
        async with connect(address, user=self._name("user"), options=PATIENT) as program:
            group = self._name("group")
            await program.join(group)
            await program.multicast(group, bytes(50_000 if in_the_middle else 100))
            if in_the_middle:
                program.close_socket()

    async def restart(self) -> None:
        """Kill one daemon and start it again, once the others have a view without it."""
        self._cluster[RESTARTING].kill()
        await self._cluster.settle(LASTING)
        await self._cluster[RESTARTING].start()
        await self._cluster.settle([*LASTING, RESTARTING])
        self.restarts += 1

    async def read(self) -> Reading:
        """Return the memory of the daemons after some silence."""
        await trio.sleep(SILENCE_S)
        sizes = {name: resident(self._cluster[name].pid) for name in LASTING}
        return Reading(self.names, self.restarts, sizes)


def resident(pid: int) -> int:
    """Return the bytes of a process that are in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def check(readings: Sequence[Reading]) -> list[str]:
    """Return the daemons that have grown from the second reading to the last, and their growth."""
    first, last = readings[1], readings[-1]
    allowed = NOISE_BYTES + BYTES_A_NAME * (last.names - first.names)
    grown = {name: last.bytes[name] - first.bytes[name] for name in LASTING}
    return [
        f"{name} has grown by {more:,} bytes over {last.names - first.names:,} names"
        for name, more in grown.items()
        if more > allowed
    ]


@campaign(
    option("names", 1_000_000, "how many fresh names"),
)
async def run(options: Namespace) -> Found:
    """Use this number of names; return the readings, and tell each as it comes."""
    readings: list[Reading] = []
    began = time.monotonic()
    cluster = LocalCluster([name for site in SITES.values() for name in site], sites=SITES)
    async with cluster, AsyncExitStack() as stack:
        await cluster.settle(list(cluster.daemons))
        addresses = [str(cluster[name].unix) for name in LASTING * PROGRAMS]
        programs = [await stack.enter_async_context(connect(each)) for each in addresses]
        load = Campaign(cluster, programs)
        for part in range(1, READINGS + 1):
            while load.names < options.names * part // READINGS:
                await load.turn()
            await load.restart()
            readings.append(await load.read())
            _show(readings[-1], time.monotonic() - began)
    told = [attrs.asdict(each) for each in readings]
    return {"readings": told, "violations": check(readings)}


def _show(reading: Reading, seconds: float) -> None:
    sizes = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in reading.bytes.items())
    say(f"{seconds:6.0f} s  {reading.names:9,} names  {sizes}")
