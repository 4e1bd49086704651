"""Daemons under a steady mixed load: by how much their memory grows in each ten minutes.

    python -m tests.verification.campaigns memory_hour --minutes 60

Three daemons; at each a program that is a member of some groups and sends at all levels, small
messages and now and then a large one; and programs that connect, join, send and end. The memory is
read once a minute. Checked: in the last sixth of the time no daemon grows by more than
`NOISE_BYTES` and a tenth of what it grew by in all.
"""

import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from random import Random
from typing import Final

import trio

from groupcomm.level import LEVELS
from groupcomm_client import connect
from groupcomm_client.connection import Connection
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.terminal import say
from tests.verification.campaigns.memory import resident
from tests.verification.campaigns.runner import Found, campaign, option

NAMES: Final = ("a", "b", "c")
GROUPS: Final = tuple(f"group-{number}" for number in range(8))
SIXTHS: Final = 6
NOISE_BYTES: Final = 400_000
LARGE_BYTES: Final = 500_000

Readings = list[dict[str, int]]
"""For each minute the bytes of each daemon that are in memory."""


async def send(program: Connection, rate: float, rng: Random) -> None:
    """Send so many messages a second until cancelled."""
    while True:
        size = LARGE_BYTES if rng.random() < 0.002 else rng.randint(1, 2000)
        await program.multicast(rng.choice(GROUPS), bytes(size), level=rng.choice(LEVELS))
        await trio.sleep(rng.expovariate(rate))


async def receive(program: Connection) -> None:
    """Receive until cancelled."""
    while True:
        await program.receive_batch()


async def come_and_go(address: str, number: int, rng: Random) -> None:
    """Be a program that joins, sends and ends."""
    async with connect(address, user=f"user-{number}") as program:
        await program.join(rng.choice(GROUPS))
        for _ in range(5):
            await program.multicast(rng.choice(GROUPS), bytes(200), level=rng.choice(LEVELS))
        await trio.sleep(rng.random())


async def connect_often(addresses: Sequence[str], a_minute: float, rng: Random) -> None:
    """Begin so many such programs a minute until cancelled."""
    async with trio.open_nursery() as nursery:
        number = 0
        while True:
            nursery.start_soon(come_and_go, rng.choice(addresses), number, rng)
            number += 1
            await trio.sleep(rng.expovariate(a_minute / 60))


def growths(readings: Readings) -> dict[str, list[int]]:
    """Return the growth of each daemon in each sixth of the time, in bytes."""
    marks = [readings[(len(readings) - 1) * sixth // SIXTHS] for sixth in range(SIXTHS + 1)]
    return {
        name: [later[name] - earlier[name] for earlier, later in pairwise(marks)] for name in NAMES
    }


@campaign(
    option("minutes", 60),
    option("rate", 50.0, "messages a second, of each lasting program"),
    option("connects", 300.0, "programs that connect a minute"),
    option("seed", 1),
)
async def run(options: Namespace) -> Found:
    """Run it; return the growths, and tell each reading as it comes."""
    rng, readings = Random(options.seed), Readings()
    async with LocalCluster(NAMES) as cluster, AsyncExitStack() as stack:
        await cluster.settle(NAMES)
        addresses = [str(cluster[name].unix) for name in NAMES]
        nursery = await stack.enter_async_context(trio.open_nursery())
        for address in addresses:
            program = await stack.enter_async_context(connect(address))
            for group in GROUPS:
                await program.join(group)
            nursery.start_soon(receive, program)
            nursery.start_soon(send, program, options.rate, rng)
        nursery.start_soon(connect_often, addresses, options.connects, rng)
        began = time.monotonic()
        for minute in range(options.minutes + 1):
            await trio.sleep(max(0.0, began + 60 * minute - time.monotonic()))
            readings.append({name: resident(cluster[name].pid) for name in NAMES})
            sizes = ", ".join(f"{name} {size / 1e6:.2f} MB" for name, size in readings[-1].items())
            say(f"{minute} minutes: {sizes}")
        nursery.cancel_scope.cancel()
    found = growths(readings)
    return {
        "bytes": readings,
        "growth_kib_a_minute": {
            name: [round(each / 1024 / (options.minutes / SIXTHS), 1) for each in sixths]
            for name, sixths in found.items()
        },
        "violations": [
            f"{name} has grown by {sixths[-1]:,} bytes in the last sixth, {sum(sixths):,} in all"
            for name, sixths in found.items()
            if sixths[-1] > NOISE_BYTES + sum(sixths) / 10
        ],
    }
