"""What acknowledgements of a cursor cost, on real daemons.

    python -m tests.verification.campaigns cursor_rate --messages 100000

A subscriber reads messages of 100 bytes one by one, without a cursor's acknowledgements and with
one for each message, in turn. Then it waits for single acknowledgements, until the disks of all
archives have them. The output is a line of JSON; rates are messages a second of processor time.
"""

import statistics
import tempfile
import time
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path

import trio

from groupcomm.events import Message
from groupcomm_client import Subscription, connect
from groupcomm_client.history import EARLIEST, Cursor
from groupcomm_tools.bench.plan import GROUP
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import ArchiveProcess
from tests.verification.campaigns.history_rate import fill, wait_for
from tests.verification.campaigns.runner import Found, campaign, option

SINGLE = 100
PATIENCE_S = 60.0


async def next_message(subscription: Subscription) -> None:
    """Receive up to the next message."""
    while not isinstance(await subscription.receive(PATIENCE_S), Message):
        pass


async def read(address: str, name: str, messages: int, *, acknowledges: bool) -> float:
    """Read this number of messages; return the rate."""
    async with (
        connect(address) as connection,
        connection.subscribe(GROUP, start=Cursor(name, EARLIEST)) as subscription,
    ):
        await next_message(subscription)
        spent = time.process_time()
        for _ in range(messages - 1):
            await next_message(subscription)
            if acknowledges:
                await subscription.acknowledge()
        return messages / (time.process_time() - spent)


async def wait_ms(address: str) -> float:
    """Return the median time of an acknowledgement until the disks have it."""
    times = []
    async with (
        connect(address) as connection,
        connection.subscribe(GROUP, start=Cursor("single", EARLIEST)) as subscription,
    ):
        for _ in range(SINGLE):
            await next_message(subscription)
            began = time.monotonic()
            await subscription.acknowledge(wait=True)
            times.append(time.monotonic() - began)
    return statistics.median(times) * 1000


async def measure_at(address: str, options: Namespace) -> Found:
    """Return all figures."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(options.rounds):
        for acknowledges, found in rates.items():
            name = f"{turn} {acknowledges}"
            found.append(await read(address, name, options.messages, acknowledges=acknowledges))
    return {
        "rate": round(statistics.median(rates[False])),
        "rate_acknowledging": round(statistics.median(rates[True])),
        "wait_ms": round(await wait_ms(address), 1),
        "violations": [],
    }


@campaign(option("messages", 100_000), option("archives", 1), option("rounds", 3))
def measure(options: Namespace) -> Found:
    """Return all figures."""
    with (
        tempfile.TemporaryDirectory() as folder,
        RunningCluster(options.archives) as cluster,
        ExitStack() as stack,
    ):
        for name in cluster.names:
            store = Path(folder) / name
            archive = ArchiveProcess(cluster.address(name), store, [GROUP])
            stack.enter_context(archive).until_live()
        address = cluster.address("a")
        fill(address, options.messages)
        wait_for(address, options.messages)
        return trio.run(measure_at, address, options)
