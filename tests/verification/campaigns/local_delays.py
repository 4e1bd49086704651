"""A group of one site: how long its messages take beside another site, far, busy or stopped.

    python -m tests.verification.campaigns local_delays

Two daemons of a site serve two programs of a group, which send in turn. Another site of two daemons
is 50 ms away, behind a relay. For AGREED and SAFE messages, each beside the same site alone: with a
site that has nothing to do; with one that sends AGREED messages to programs of both sites; and with
one whose daemons stand still, until the site is in a view without them. Judged by the bars of
docs/locality.md.
"""

import signal
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise, permutations, product
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Final

import trio

from groupcomm.level import ServiceLevel
from groupcomm_client import Connection, Message, connect
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.relay import Line, Relay
from groupcomm_tools.terminal import say
from groupcommd.config.config_file import read_addresses
from tests.verification.campaigns.runner import Found, campaign, option

SITES: Final[Mapping[str, tuple[str, ...]]] = {"near": ("a", "b"), "far": ("c", "d")}
ALL: Final = tuple(name for part in SITES.values() for name in part)
LEVELS: Final = (ServiceLevel.AGREED, ServiceLevel.SAFE)
DELAY_S: Final = 0.05
INTERVAL_S: Final = 0.02
OFTEN_S: Final = 0.005
"""The time between two messages while the far site stands still, and of the far site if busy."""

STOPPED_S: Final = 2.0
SETTLED_S: Final = 30.0
FORGOTTEN_S: Final = 3.0
"""After this time no ring sends notices because of what came before."""

Delays = dict[str, list[float]]
"""By level, those of all its messages, in ms."""


class Programs:
    """The programs of a group, which send in turn.

    Attributes:
        delays_s: from multicast to the last of them that gets the message.
        got_at: when the last one got each message.
    """

    def __init__(self, group: str) -> None:
        self.delays_s: list[float] = []
        self.got_at: list[float] = []
        self._group = group
        self._members: list[Connection] = []
        self._number = 0
        self._left: dict[int, int] = {}
        self._sent_at: dict[int, float] = {}

    async def serve(
        self, address: Path, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Be a program of the group."""
        async with connect(str(address)) as connection:
            await connection.join(self._group)
            self._members.append(connection)
            task_status.started()
            async for event in connection:
                if isinstance(event, Message):
                    self._note(int(event.data))

    def _note(self, number: int) -> None:
        now = trio.current_time()
        self._left[number] -= 1
        if not self._left[number]:
            del self._left[number]
            self.delays_s.append(now - self._sent_at.pop(number))
            self.got_at.append(now)

    async def send(
        self,
        level: ServiceLevel,
        interval_s: float,
        duration_s: float,
        senders: slice = slice(None),
    ) -> None:
        """Send messages for some time, and wait until all have got them."""
        self.delays_s.clear()
        self.got_at.clear()
        end, members = trio.current_time() + duration_s, self._members[senders]
        while trio.current_time() < end:
            self._number += 1
            self._left[self._number] = len(self._members)
            self._sent_at[self._number] = trio.current_time()
            sender = members[self._number % len(members)]
            await sender.multicast([self._group], b"%d" % self._number, level=level)
            await trio.sleep(interval_s)
        with trio.move_on_after(SETTLED_S):
            while self._left:
                await trio.sleep(OFTEN_S)
        assert not self._left, f"{len(self._left)} messages have not come"


@asynccontextmanager
async def running(parts: Sequence[str], *groups: Sequence[str]) -> AsyncIterator[list[Programs]]:
    """Run a cluster of sites between which datagrams take DELAY_S, with programs of groups at some
    daemons."""
    async with cluster_of(parts) as cluster, trio.open_nursery() as nursery:
        found = [Programs(f"group{number}") for number in range(len(groups))]
        for programs, names in zip(found, groups, strict=True):
            for name in names:
                await nursery.start(programs.serve, cluster[name].unix)
        await trio.sleep(FORGOTTEN_S)
        yield found
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def cluster_of(parts: Sequence[str]) -> AsyncIterator[LocalCluster]:
    """Run the daemons of some sites."""
    sites = {part: SITES[part] for part in parts} if len(parts) > 1 else None
    names = [name for part in parts for name in SITES[part]]
    with TemporaryDirectory(prefix="groupcomm-") as folder:
        via = Path(folder) / "via.json"
        cluster = LocalCluster(names, options=["--via", str(via)] if sites else [], sites=sites)
        async with trio.open_nursery() as nursery:
            if sites:
                lines = {pair: None for part in parts for pair in permutations(SITES[part], 2)}
                addresses = read_addresses(cluster.config)
                relay = Relay(addresses, line=Line(delay_s=DELAY_S), lines=lines)
                relay.write(via)
                nursery.start_soon(relay.run)
            async with cluster:
                await cluster.settle(names, SETTLED_S)
                yield cluster
            nursery.cancel_scope.cancel()


async def silence(level: ServiceLevel) -> float:
    """Return for how long no message comes at most, from when the far site stands still on."""
    async with cluster_of(["near", "far"]) as cluster, trio.open_nursery() as nursery:
        near = Programs("group")
        for name in SITES["near"]:
            await nursery.start(near.serve, cluster[name].unix)
        await trio.sleep(FORGOTTEN_S)
        nursery.start_soon(near.send, level, OFTEN_S, STOPPED_S)
        await trio.sleep(STOPPED_S / 4)
        for name in SITES["far"]:
            cluster[name].signal(signal.SIGSTOP)
        await trio.sleep(STOPPED_S)
        nursery.cancel_scope.cancel()
    return max(after - before for before, after in pairwise(near.got_at))


async def delays(seconds: float, rounds: int) -> dict[str, Delays]:
    """Measure loads of each level, in turn in a site alone, beside an idle and beside a busy
    one."""
    found: dict[str, Delays] = {what: {} for what in ("alone", "idle", "busy")}
    async with (
        running(["near"], SITES["near"]) as (alone,),
        running(["near", "far"], SITES["near"], ["c", "a"]) as (near, wide),
    ):
        for number, level in product(range(rounds), LEVELS):
            for what, programs in (("alone", alone), ("idle", near), ("busy", near)):
                async with trio.open_nursery() as nursery:
                    if what == "busy":
                        nursery.start_soon(
                            wide.send, ServiceLevel.AGREED, OFTEN_S, 2 * seconds, slice(1)
                        )
                        await trio.sleep(seconds / 2)
                    await programs.send(level, INTERVAL_S, seconds)
                    found[what].setdefault(level.name, []).extend(programs.delays_s)
            say(f"round {number + 1}, {level.name}: {summary(found)}")
            await trio.sleep(FORGOTTEN_S)
    return found


def summary(found: Mapping[str, Delays]) -> dict[str, dict[str, list[float]]]:
    """Return p50 and p99, in ms."""
    return {
        what: {
            level: [round(1000 * median(all_s), 3), round(1000 * quantiles(all_s, n=100)[98], 3)]
            for level, all_s in by_level.items()
        }
        for what, by_level in found.items()
    }


@campaign(
    option("rounds", 5),
    option("seconds", 2.0, "of each load"),
    option("idle_factor", 1.2, "p50 beside an idle site, at most so many times that of one alone"),
    option("busy_factor", 2.0, "the same beside a busy one"),
    option("silence_s", 0.05, "the longest silence while the far site stands still"),
)
async def run(options: Namespace) -> Found:
    """Run it; return the results."""
    found = summary(await delays(options.seconds, options.rounds))
    silences = {level.name: round(await silence(level), 4) for level in LEVELS}
    wrong = list(misses(found, options))
    for level, longest in silences.items():
        if longest > options.silence_s:
            wrong.append(f"{level}: a silence of {longest} s while the far site stands still")
    return {"violations": wrong, "delays_ms": found, "silences_s": silences}


def misses(found: Mapping[str, Mapping[str, Sequence[float]]], options: Namespace) -> Iterator[str]:
    """Yield the bars that were missed."""
    for what, factor in (("idle", options.idle_factor), ("busy", options.busy_factor)):
        for level, (p50, p99) in found[what].items():
            alone = found["alone"][level][0]
            if p50 > factor * alone:
                yield f"{level} beside an {what} site: p50 {p50} ms, and {alone} alone"
            if p99 > 1000 * DELAY_S:
                yield f"{level} beside an {what} site: p99 {p99} ms"
