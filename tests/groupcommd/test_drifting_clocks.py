"""Real daemons whose monotonic clocks run 10 % fast and slow, by Debian's faketime."""

import sys

import trio

from groupcomm_client import connect
from groupcomm_tools.local_cluster import LocalCluster, LocalDaemon
from tests.verification.campaigns.chaos.hosts import INSTALL, find_faketime, forget_clocks

RATES = {"a": "+0 x1.1", "b": "+0", "c": "+0 x0.9"}
MESSAGES = 100


async def test_daemons_whose_clocks_drift_have_one_view_and_one_order() -> None:
    cluster, faketime = LocalCluster("abc"), find_faketime()
    if faketime is None:  # the same with right clocks: less, but no less than that
        print(f"no clock drifts, as faketime is missing ({INSTALL})", file=sys.stderr)
    else:
        for name, rate in RATES.items():
            clock = (f"LD_PRELOAD={faketime}", f"FAKETIME={rate}")
            cluster.daemons[name] = LocalDaemon(
                cluster.folder, name, cluster.config, (), prefix=("env", *clock)
            )
    async with cluster:
        await cluster.settle("abc")
        before = cluster["a"].view
        orders = await send_and_receive(cluster)
        assert orders["a"] == orders["b"] == orders["c"]
        assert len(orders["a"]) == 3 * MESSAGES
        assert [cluster[name].view for name in "abc"] == [before] * 3
        pids = [cluster[name].pid for name in "abc"]
    forget_clocks(pids)


async def send_and_receive(cluster: LocalCluster) -> dict[str, list[bytes]]:
    """A program at each daemon sends; return what each receives, in its order."""
    orders: dict[str, list[bytes]] = {name: [] for name in "abc"}
    joined = dict.fromkeys("abc", False)

    async def live(name: str) -> None:
        async with connect(str(cluster[name].unix)) as connection:
            await connection.join("g")
            joined[name] = True
            while not all(joined.values()):
                await trio.sleep(0.01)
            for number in range(MESSAGES):
                await connection.multicast("g", f"{name}{number}".encode())
                await trio.sleep(0.005)
            async for message in connection.messages():
                orders[name].append(message.data)
                if len(orders[name]) == 3 * MESSAGES:
                    return

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for name in "abc":
                nursery.start_soon(live, name)
    return orders
