"""Three replicas of a dict under load, through kills, partitions and merges.

    python -m tests.verification.campaigns store --disasters 50 --rate 500

Checked: every acknowledged value is in the dict in the end; no value is there that no program
wrote; replicas at the same view have the same contents, by hash. Ends with a line of JSON.
"""

from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import trio

from groupcomm.errors import GroupCommError
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.relay import Relay
from groupcomm_tools.terminal import say
from groupcommd.config.config_file import read_addresses
from tests.verification.campaigns.programs import Program, until
from tests.verification.campaigns.runner import Found, campaign, option

CALM_S: Final = (0.5, 1.5)
"""The calm time between two disasters."""

NAMES: Final = ("alfa", "bravo", "charlie")


class Shop:
    """The daemons, the relay between them, and a replica at each."""

    def __init__(self, cluster: LocalCluster, relay: Relay, nursery: trio.Nursery) -> None:
        self.cluster = cluster
        self.relay = relay
        self.nursery = nursery
        self.replicas: dict[str, Program] = {}
        self.finished: list[Program] = []

    async def open(self, name: str, rate: float) -> None:
        """Start the replica at a daemon: a new program, with new keys."""
        if name in self.replicas:
            self.finished.append(self.replicas.pop(name))
        address = str(self.cluster[name].unix)
        program = Program(
            "tests.verification.campaigns.store_program",
            ["--address", address, "--replicas", str(len(NAMES)), "--rate", str(rate)],
        )
        self.replicas[name] = program
        await program.start(self.nursery, "--name", f"{name}{len(self.finished)}")

    @property
    def everybody(self) -> list[Program]:
        return [*self.finished, *self.replicas.values()]

    def fellows(self, name: str) -> int:
        """Return the number of replicas with this one's state; 0 while it is not current."""
        said = [line for line in self.replicas[name].lines if "current" in line]
        return len(said[-1]["fellows"]) if said and said[-1]["current"] else 0

    async def whole(self) -> None:
        """Wait until all three have one state."""
        await until(
            "all replicas have one state",
            lambda: all(self.fellows(name) == len(NAMES) for name in NAMES),
        )


Disaster = Callable[[Shop, Random, float], Coroutine[Any, Any, None]]


async def kill_daemon(shop: Shop, rng: Random, rate: float) -> None:
    victim = rng.choice(NAMES)
    shop.cluster[victim].kill()
    await until("its program knows", lambda: shop.fellows(victim) == 0)
    await trio.sleep(rng.uniform(0.0, 1.5))
    await shop.cluster[victim].start()


async def kill_program(shop: Shop, rng: Random, rate: float) -> None:
    victim = rng.choice(NAMES)
    await shop.replicas[victim].kill()
    await trio.sleep(rng.uniform(0.0, 0.5))
    await shop.open(victim, rate)


async def part(shop: Shop, rng: Random, rate: float) -> None:
    """One daemon is alone, or all three are; then they meet again."""
    alone = rng.sample(NAMES, rng.choice((1, 1, 3)))
    for name in alone:
        others = [other for other in NAMES if other != name]
        shop.relay.cut(list(shop.relay.between([name], others)))
    await until("who is alone knows", lambda: all(shop.fellows(name) == 0 for name in alone))
    await trio.sleep(rng.uniform(0.0, 1.5))
    shop.relay.mend()


DISASTERS: Final[tuple[Disaster, ...]] = (kill_daemon, kill_program, part, part)


@asynccontextmanager
async def open_shop(folder: Path, rate: float) -> AsyncIterator[Shop]:
    """Yield all processes, with all replicas in one state."""
    via = folder / "via.json"
    cluster = LocalCluster(NAMES, options=("--via", str(via)))
    relay = Relay(read_addresses(cluster.config))
    relay.write(via)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(relay.run)
        async with cluster:
            await cluster.settle(NAMES)
            shop = Shop(cluster, relay, nursery)
            for name in NAMES:
                await shop.open(name, rate)
            await shop.whole()
            yield shop
            nursery.cancel_scope.cancel()


@campaign(
    option("disasters", 50),
    option("rate", 500.0, "writes a second, of all"),
    option("seed", 1),
)
async def run(options: Namespace) -> Found:
    """Run it; return the results."""
    rng, rate = Random(options.seed), options.rate / len(NAMES)
    kinds: dict[str, int] = {}
    with TemporaryDirectory(prefix="groupcomm-") as folder:
        async with open_shop(Path(folder), rate) as shop:
            for number in range(options.disasters):
                await trio.sleep(rng.uniform(*CALM_S))
                disaster = rng.choice(DISASTERS)
                kinds[disaster.__name__] = kinds.get(disaster.__name__, 0) + 1
                await disaster(shop, rng, rate)
                await shop.whole()
                say(f"{number + 1} of {options.disasters}: {disaster.__name__}")
            for name in NAMES:
                await shop.replicas[name].say("stop")
            await trio.sleep(1.0)
            await shop.whole()
            for name in NAMES:
                await shop.replicas[name].end()
            return {"disasters": kinds, **check(shop)}
    raise GroupCommError("the cluster has ended too early")


def check(shop: Shop) -> dict[str, Any]:
    """Return the results, and the violated expectations."""
    told = [line for program in shop.everybody for line in program.lines]
    contents = [shop.replicas[name].lines[-1]["contents"] for name in NAMES]
    acknowledged = [line["acknowledged"] for line in told if "acknowledged" in line]
    wrong = []
    if not contents[0] == contents[1] == contents[2]:
        wrong.append(f"the contents differ in the end: {[len(each) for each in contents]} keys")
    lost = [key for key in acknowledged if contents[0].get(key) != key[::-1]]
    if lost:
        wrong.append(f"{len(lost)} acknowledged keys are lost, such as {lost[:3]}")
    wrong += [f"nobody wrote {key}" for key, value in contents[0].items() if value != key[::-1]]
    digests: dict[str, set[str]] = {}
    seen = 0
    for line in told:
        if "digest" in line:
            seen += line["at"] in digests
            digests.setdefault(line["at"], set()).add(line["digest"])
    wrong += [f"contents differ at {at}" for at, found in digests.items() if len(found) > 1]
    return {
        "acknowledged": len(acknowledged),
        "unknown": sum("unknown" in line for line in told),
        "keys": len(contents[0]),
        "views": len(digests),
        "digests_compared": seen,
        "violations": wrong,
    }
