"""HTTP under load: many scrapes and open streams of events, and their effect on messages.

Three daemons carry AGREED messages from one to another. In each round they do so quietly, then
while another process scrapes all three as fast as they answer and keeps streams open. Views must
not change, and p99 must stay below LIMIT times that of the quiet phase, in the median of rounds.

That process stands for programs of other hosts, and runs on the same processors: at --nice 10 it
takes only what the ring leaves. With --nice 0 it is measured, too, as it takes a whole processor.
With --elsewhere it loads the daemons of another cluster: what the ring notices then is the host.

    python -m tests.verification.campaigns http_load --rounds 3 --scrapes 10000 --streams 1000
"""

import json
import select
import socket
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import AsyncExitStack
from http.client import HTTPConnection
from statistics import median
from typing import Any, Final

import attrs
import trio

from groupcomm.level import ServiceLevel
from groupcomm_client import connect
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.terminal import say
from tests.verification.campaigns.runner import Found, campaign, option

NAMES: Final = ("a", "b", "c")
RATE: Final = 200
LIMIT: Final = 1.5
"""The bound of p99 under load by p99 when quiet."""

SCRAPERS: Final = 6
SETTLE_S: Final = 2.0
WORK: Final = "groupcomm_http_work_seconds_total "
STREAM: Final = b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@attrs.frozen
class Phase:
    """The results of one phase: delays in milliseconds."""

    p50: float
    p99: float
    views: int
    told: dict[str, Any]


async def measure(cluster: LocalCluster, seconds: float, busy: trio.Event | None) -> list[float]:
    """Send RATE messages a second for some time, or until it is no more busy; return delays, s."""
    delays: list[float] = []
    sent_at: dict[int, float] = {}
    async with (
        connect(str(cluster["a"].unix), user="sender") as sender,
        connect(str(cluster["b"].unix), user="receiver") as receiver,
    ):
        await receiver.join("g")
        async with trio.open_nursery() as nursery:

            async def receive() -> None:
                async for message in receiver.messages():
                    at = time.perf_counter()
                    delays.append(at - sent_at.pop(int(message.data)))

            nursery.start_soon(receive)
            began, number = trio.current_time(), 0
            while trio.current_time() < began + seconds or (busy is not None and not busy.is_set()):
                sent_at[number] = time.perf_counter()
                await sender.multicast("g", b"%d" % number, level=ServiceLevel.AGREED)
                number += 1
                await trio.sleep_until(began + number / RATE)
            await trio.sleep(0.5)
            nursery.cancel_scope.cancel()
    return delays


def phase(delays: list[float], views: int, told: dict[str, Any]) -> Phase:
    """Return the results of a phase."""
    ordered = sorted(delays)
    p50, p99 = (ordered[int(share * (len(ordered) - 1))] * 1e3 for share in (0.5, 0.99))
    return Phase(round(p50, 2), round(p99, 2), views, told)


def views(cluster: LocalCluster) -> int:
    """Return the number of views that all daemons have logged."""
    return sum("view" in line and "daemons" in line for d in NAMES for line in cluster[d].lines())


@campaign(
    option("rounds", 3),
    option("scrapes", 10_000),
    option("streams", 1000),
    option("quiet_s", 10.0),
    option("nice", 10, "of the process that loads"),
    option("elsewhere", False, "load other daemons"),
)
async def run(options: Namespace) -> Found:
    """Run all rounds; return the figures of their phases."""
    http = ("--http", "127.0.0.1:0")
    quiets: list[Phase] = []
    loads: list[Phase] = []
    async with AsyncExitStack() as stack:
        cluster = loaded = await stack.enter_async_context(LocalCluster(NAMES, options=http))
        if options.elsewhere:
            loaded = await stack.enter_async_context(LocalCluster(NAMES, options=http))
            await loaded.settle(NAMES)
        await cluster.settle(NAMES)
        await trio.sleep(SETTLE_S)
        where = json.dumps([loaded[name].http for name in NAMES])
        for number in range(1, options.rounds + 1):
            before = views(cluster)
            delays = await measure(cluster, options.quiet_s, None)
            quiets.append(phase(delays, views(cluster) - before, {}))
            before, over, told = views(cluster), trio.Event(), dict[str, Any]()
            command = ["nice", "-n", str(options.nice), sys.executable, "-m", __name__, where]
            command += [str(options.scrapes), str(options.streams)]

            async def load(
                command: list[str] = command,
                over: trio.Event = over,
                told: dict[str, Any] = told,
            ) -> None:
                done = await trio.run_process(command, capture_stdout=True)
                told |= json.loads(done.stdout)
                over.set()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(load)
                delays = await measure(cluster, options.quiet_s, over)
            loads.append(phase(delays, views(cluster) - before, told))
            say(f"round {number}: quiet {quiets[-1]}")
            say(f"round {number}: load  {loads[-1]}")
    ratio = median(b.p99 / a.p99 for a, b in zip(quiets, loads, strict=True))
    changed = sum(each.views for each in quiets + loads)
    wrong = [f"p99 under load / quiet is {ratio:.2f}: above {LIMIT:g}"] * (ratio > LIMIT)
    wrong += [f"{changed} views were installed"] * bool(changed)
    phases = {"quiet": quiets, "load": loads}
    told = {name: [attrs.asdict(each) for each in found] for name, found in phases.items()}
    return {"p99_ratio": round(ratio, 2), **told, "views": changed, "violations": wrong}


# ---- the other process ----


def scrape(at: str, count: int, times: list[float]) -> None:
    """Scrape one daemon at this rate over one connection."""
    host, _, port = at.rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=60)
    for _ in range(count):
        began = time.perf_counter()
        connection.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, answer.status
        assert body.endswith(b"# EOF\n")
        times.append(time.perf_counter() - began)
    connection.close()


def work_s(at: str) -> float:
    """Return the share of its time that a daemon has given to HTTP."""
    host, _, port = at.rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    (line,) = [line for line in text.splitlines() if line.startswith(WORK)]
    return float(line.split()[1])


def open_streams(addresses: Sequence[str], count: int) -> list[socket.socket]:
    """Open streams of events, the same number at each daemon."""
    made = []
    for number in range(count):
        host, _, port = addresses[number % len(addresses)].rpartition(":")
        stream = socket.create_connection((host, int(port)), timeout=60)
        stream.sendall(STREAM)
        made.append(stream)
    return made


def drain(streams: list[socket.socket], over: threading.Event, counts: dict[str, int]) -> None:
    """Read until the end; count events, and streams that were closed."""
    poll = select.epoll()
    by_number = {stream.fileno(): stream for stream in streams}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    while not over.is_set():
        for number, _ in poll.poll(0.2):
            data = by_number[number].recv(262_144)
            counts["events"] += data.count(b"data: ")
            if not data:
                poll.unregister(number)
                counts["closed"] += 1


def load(addresses: Sequence[str], scrapes: int, streams: int) -> None:
    """Load the daemons; print the results as JSON."""
    began, over, times = time.perf_counter(), threading.Event(), list[float]()
    counts = {"events": 0, "closed": 0}
    opened = open_streams(addresses, streams)
    opened_s = time.perf_counter() - began
    reader = threading.Thread(target=drain, args=(opened, over, counts))
    reader.start()
    worked = [work_s(address) for address in addresses]
    each = -(-scrapes // SCRAPERS)
    scrapers = [
        threading.Thread(target=scrape, args=(addresses[n % len(addresses)], each, times))
        for n in range(SCRAPERS)
    ]
    for thread in scrapers:
        thread.start()
    for thread in scrapers:
        thread.join()
    took_s = time.perf_counter() - began - opened_s
    over.set()
    reader.join()
    shares = [(work_s(a) - w) / took_s for a, w in zip(addresses, worked, strict=True)]
    told = {
        "share_of_http": [round(share, 3) for share in shares],
        "streams": len(opened),
        "opened_s": round(opened_s, 1),
        "scrapes": len(times),
        "scrapes_per_s": round(len(times) / took_s),
        "scrape_p50_ms": round(1e3 * median(times), 1) if times else None,
        **counts,
    }
    print(json.dumps(told))


if __name__ == "__main__":  # the load is a process of its own
    load(json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
