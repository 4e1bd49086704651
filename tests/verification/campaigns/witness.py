"""Two hosts, or two sites, and a witness: a daemon with a vote and no programs.

    python -m tests.verification.campaigns witness --rounds 3
    python -m tests.verification.campaigns witness --rounds 3 --sites

Each of the three is killed, stands still, is cut off, and is killed and comes back without its
disk; the network between each two of them is cut; and each two of them are lost in two of these
ways, which the seed draws. A program at each daemon but the witness enters a mutex again and again.
Judged: while one is lost, how long nobody of the others was in; while two are lost, that nobody
enters; and always that fencing tokens rise with time, so that never two sides act. Who loses the
mutex in its block does not count: only one whose block ends normally was alone in it.
"""

import shutil
import signal
from argparse import Namespace
from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

import attrs
import trio

from groupcomm.errors import GroupCommError
from groupcomm_client import connect
from groupcomm_client.coordination import MutexLost, join_mutex
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.relay import Relay
from groupcomm_tools.terminal import say
from groupcommd.config.config_file import read_addresses
from tests.verification.campaigns.programs import until
from tests.verification.campaigns.runner import Found, campaign, option

Parts: TypeAlias = dict[str, tuple[str, ...]]
"""The daemons of each host or site, by its name."""

HOSTS: Final[Parts] = {"one": ("a",), "other": ("b",), "witness": ("w",)}
SITES: Final[Parts] = {"one": ("a", "b"), "other": ("c", "d"), "witness": ("w",)}
WAYS: Final = ("kill", "stop", "cut", "empty")

AGAIN_S: Final = 0.02
"""The time after which a program tries again."""

ALONE_S: Final = 3.0
"""The time for which those that are left are watched; the losses are noticed within half of it."""

OFTEN: Final = 20
"""So often each survivor enters: before a loss is noticed, and many times after that."""

LATE_S: Final = 90.0


@attrs.frozen
class Entry:
    """A program has entered the mutex, and has left its block normally: it was alone in it.

    One whose daemon stood still, or was cut off, may enter as well before it knows of that; its
    block ends with MutexLost.
    """

    at_s: float
    program: str
    token: int


class Campaign:
    """The cluster, a program at each of its daemons but the witness, and when they were in.

    Attributes:
        entries: these times, the earliest first.
    """

    def __init__(self, cluster: LocalCluster, relay: Relay, parts: Parts) -> None:
        self.entries: list[Entry] = []
        self.parts = parts
        self._cluster, self._relay = cluster, relay
        self._all = sorted(name for part in parts.values() for name in part)
        self.serving = [name for name in self._all if name not in parts["witness"]]

    async def play(self, name: str) -> None:
        """Enter again and again, whatever happens."""
        while True:
            with trio.move_on_after(LATE_S):  # a daemon that stands still does not answer
                try:
                    await self._enter(name)
                except* (GroupCommError, MutexLost, OSError):
                    pass
            await trio.sleep(AGAIN_S)

    async def _enter(self, name: str) -> None:
        async with (
            connect(str(self._cluster[name].unix)) as connection,
            join_mutex(connection, "press") as mutex,
        ):
            while True:
                async with mutex:
                    entry = Entry(trio.current_time(), name, mutex.token)
                self.entries.append(entry)
                await trio.sleep(AGAIN_S)

    def times(self, begun_s: float, names: Sequence[str]) -> list[float]:
        """Return when these programs were in since a time."""
        return [each.at_s for each in self.entries if each.at_s > begun_s and each.program in names]

    async def one_is_lost(self, part: str, way: str) -> float:
        """Lose a host or site, and have it back; return how long no survivor was in, at most."""
        left = [name for name in self.serving if name not in self.parts[part]]
        begun_s = trio.current_time()
        self._lose(part, way)
        await self._until_in(left, begun_s, OFTEN)
        await trio.sleep(ALONE_S - 1)
        times = [begun_s, *sorted(self.times(begun_s, left))]
        await self._return(part, way)
        await self.all_enter()
        return max(after - before for before, after in pairwise(times))

    async def link_is_lost(self, one: str, other: str) -> float:
        """Cut two of them off from each other only; return how long nobody was in, at most."""
        begun_s = trio.current_time()
        self._relay.cut(self._relay.between(self.parts[one], self.parts[other]))
        await trio.sleep(2 * ALONE_S)
        times = [begun_s, *sorted(self.times(begun_s, self.serving)), trio.current_time()]
        self._relay.mend()
        await self.all_enter()
        return max(after - before for before, after in pairwise(times))

    async def two_are_lost(self, ways: dict[str, str]) -> int:
        """Lose two, and have them back; return how often one of the third part was in."""
        (left,) = self.parts.keys() - ways.keys()
        for part, way in ways.items():
            self._lose(part, way)
        await trio.sleep(ALONE_S / 2)
        begun_s = trio.current_time()
        await trio.sleep(ALONE_S / 2)
        wrong = len(self.times(begun_s, self.parts[left]))
        for part, way in ways.items():
            await self._return(part, way)
        await self.all_enter()
        return wrong

    def _lose(self, part: str, way: str) -> None:
        names = self.parts[part]
        if way == "cut":
            others = [name for name in self._all if name not in names]
            self._relay.cut(self._relay.between(names, others))
            return
        for name in names:
            self._cluster[name].signal(signal.SIGSTOP if way == "stop" else signal.SIGKILL)

    async def _return(self, part: str, way: str) -> None:
        if way == "cut":
            self._relay.mend()
            return
        for name in self.parts[part]:
            if way == "stop":
                self._cluster[name].signal(signal.SIGCONT)
                continue
            await self._cluster[name].ended()
            if way == "empty":
                shutil.rmtree(self._cluster[name].state)
            await self._cluster[name].start()

    async def all_enter(self) -> None:
        """Wait until all daemons are in one view, and each program has been in since."""
        await self._cluster.settle(self._all, LATE_S)
        await self._until_in(self.serving, trio.current_time(), 1)

    async def _until_in(self, names: Sequence[str], begun_s: float, often: int) -> None:
        def is_in(name: str) -> bool:
            return len(self.times(begun_s, [name])) >= often

        for name in names:
            await until(f"{name} enters", lambda name=name: is_in(name), LATE_S)  # type: ignore[misc]


@campaign(
    option("rounds", 3),
    option("sites", False, "two sites of two daemons in place of two hosts"),
    option("within_s", 2.0, "in which survivors have to go on"),
    option("seed", 1),
)
async def run(options: Namespace) -> Found:
    """Run it; return the results."""
    rng, parts = Random(options.seed), SITES if options.sites else HOSTS
    names = [name for part in parts.values() for name in part]
    outages: dict[str, list[float]] = {}
    wrong: list[str] = []
    with TemporaryDirectory(prefix="groupcomm-") as folder:
        via = Path(folder) / "via.json"
        sites = parts if options.sites else None
        cluster = LocalCluster(names, options=["--via", str(via)], sites=sites)
        relay = Relay(read_addresses(cluster.config), seed=options.seed)
        relay.write(via)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(relay.run)
            async with cluster:
                play = Campaign(cluster, relay, parts)
                for name in play.serving:
                    nursery.start_soon(play.play, name)
                await play.all_enter()
                for number in range(options.rounds):
                    for what, outage_s in [
                        *[(f"{w} {p}", await play.one_is_lost(p, w)) for w in WAYS for p in parts],
                        *[
                            (f"no way from {one} to {other}", await play.link_is_lost(one, other))
                            for one, other in combinations(parts, 2)
                        ],
                    ]:
                        outages.setdefault(what, []).append(round(outage_s, 3))
                    for two in combinations(parts, 2):
                        ways = {part: rng.choice(WAYS) for part in two}
                        if times := await play.two_are_lost(ways):
                            wrong.append(f"without {ways}, the third was in {times} times")
                    say(f"round {number + 1}: {outages}")
                nursery.cancel_scope.cancel()
    late = {what: times for what, times in outages.items() if max(times) > options.within_s}
    wrong += [f"{what}: nobody was in for {max(times)} s" for what, times in late.items()]
    for one, other in pairwise(sorted(play.entries, key=lambda each: each.at_s)):
        if other.token <= one.token:
            wrong.append(f"{other.program} enters after {one.program} with a lower token")
    longest = {what: max(times) for what, times in outages.items()}
    return {"violations": wrong, "entries": len(play.entries), "longest_s": longest}
