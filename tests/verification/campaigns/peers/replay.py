"""History of other systems and ours, in turn: replay, publishing until it is kept, restart.

    python -m tests.verification.campaigns peers.replay --rounds 3

A daemon with an archive, NATS JetStream and Redis streams keep the same messages of 100 bytes in
files. Ours and Redis sync a message before they say that it is there; JetStream does not. Clients
are in Python: ours, nats-py, and redis-py with hiredis. For each system:

- `replay`: messages a second that a new subscriber gets, from the first one on;
- `durable_ms`: from a call that publishes one message until the system says that it has it;
- `restart_ms`: from connecting until the first message behind a stored position has come.
"""

import asyncio
import json
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import trio

from groupcomm.clocks.stamp import Position
from groupcomm.errors import GroupCommError
from groupcomm.events import Message
from groupcomm_client.blocking import BlockingConnection, connect
from groupcomm_client.history.frames import ARCHIVES, Find, Offer, decode_untrusted, encode
from groupcomm_tools.bench.figures import machine
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import ArchiveProcess
from tests.verification.campaigns.peers.launching import not_installed, open_server, packages_of
from tests.verification.campaigns.runner import Found, campaign, option

GROUP: Final = "orders"
DATA: Final = bytes(range(100))
BATCH: Final = 1000
PATIENCE_S: Final = 30.0

Figures = dict[str, float]


def rounded(count: int, replay_s: float, durable_s: list[float], restart_s: list[float]) -> Figures:
    """Return the figures of one round."""
    return {
        "replay": round(count / replay_s),
        "durable_ms": round(statistics.median(durable_s) * 1000, 2),
        "restart_ms": round(statistics.median(restart_s) * 1000, 2),
    }


# ---- ours ----


def measure_ours(messages: int, single: int) -> Figures:
    """Measure a daemon with an archive."""
    with (
        TemporaryDirectory() as folder,
        RunningCluster(1) as cluster,
        ArchiveProcess(cluster.address("a"), Path(folder) / "log", [GROUP]) as archive,
    ):
        archive.until_live()
        address = cluster.address("a")
        with connect(address) as connection:
            first = _interval(connection)[0]
            for _ in range(messages // BATCH):
                connection.multicast_many(GROUP, [DATA] * BATCH)
                time.sleep(0.004)
            last = connection.multicast_ordered(GROUP, DATA).position
            while _interval(connection)[1] < last:
                time.sleep(0.01)
            durable = []
            for _ in range(single):
                began = time.monotonic()
                place = connection.multicast_ordered(GROUP, DATA).position
                while _interval(connection)[1] < place:
                    pass
                durable.append(time.monotonic() - began)
        with connect(address) as connection:
            began = time.monotonic()
            replay_s = _read_ours(connection, first, messages) - began
        restart = []
        for _ in range(single):
            began = time.monotonic()
            with connect(address) as connection:
                restart.append(_read_ours(connection, last, 1) - began)
        return rounded(messages, replay_s, durable, restart)


def _interval(connection: BlockingConnection) -> tuple[Position, Position]:
    """Ask the archive what it has on its disk."""
    while True:
        connection.multicast(ARCHIVES, encode(Find(1, (GROUP,))))
        event = connection.receive(PATIENCE_S)
        offer = decode_untrusted(event.data) if isinstance(event, Message) else None
        if isinstance(offer, Offer) and offer.intervals:
            return offer.intervals[-1]


def _read_ours(connection: BlockingConnection, start: Position, count: int) -> float:
    """Read this number of messages; return when the last one came."""
    with connection.subscribe(GROUP, start=start) as reading:
        while count > 0:
            found = reading.receive_batch(PATIENCE_S)
            count -= sum([type(event) is Message for event in found])
        return time.monotonic()


# ---- NATS ----

_NATS: Final = """
listen: "127.0.0.1:-1"
jetstream {{ store_dir: "{folder}" }}
"""


async def measure_nats(messages: int, single: int) -> Figures:
    """Start a server with JetStream, and measure it.

    It acknowledges a message that is in the cache of the file system, and syncs every 2 minutes:
    Debian's release has no setting for it.
    """
    with TemporaryDirectory(prefix="groupcomm-") as name:
        folder = Path(name)
        config = folder / "nats.conf"
        config.write_text(_NATS.format(folder=folder))
        command = ["nats-server", "--config", str(config), "--ports_file_dir", name]

        def address() -> str:
            text = "".join(path.read_text() for path in folder.glob("*.ports"))
            return str(json.loads(text)["nats"][0]) if text.endswith("}") else ""

        async with open_server(command, folder / "server.log", lambda: bool(address())):
            told = address()
            return await trio.to_thread.run_sync(lambda: asyncio.run(_nats(told, messages, single)))


async def _nats(address: str, messages: int, single: int) -> Figures:
    import nats  # noqa: PLC0415 - an extra

    connection = await nats.connect(address)
    stream = connection.jetstream()
    await stream.add_stream(name=GROUP, subjects=[GROUP])
    for start in range(0, messages, BATCH):
        await asyncio.gather(*[stream.publish(GROUP, DATA) for _ in range(start, start + BATCH)])
    durable = []
    for _ in range(single):
        began = time.monotonic()
        await stream.publish(GROUP, DATA)
        durable.append(time.monotonic() - began)
    began = time.monotonic()
    replay_s = await _read_nats(connection, 1, messages) - began
    await connection.close()
    restart = []
    for _ in range(single):
        began = time.monotonic()
        connection = await nats.connect(address)
        restart.append(await _read_nats(connection, messages + 1, 1) - began)
        await connection.close()
    return rounded(messages, replay_s, durable, restart)


async def _read_nats(connection: Any, first: int, count: int) -> float:
    """Read this number of messages; return when the last one came."""
    from nats.js.api import ConsumerConfig, DeliverPolicy  # noqa: PLC0415 - an extra

    left = count
    is_over = asyncio.Event()

    async def take(_: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            is_over.set()

    config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=first)
    reading = await connection.jetstream().subscribe(
        GROUP, cb=take, ordered_consumer=True, config=config
    )
    await asyncio.wait_for(is_over.wait(), PATIENCE_S)
    ended = time.monotonic()
    await reading.unsubscribe()
    return ended


# ---- Redis ----


async def measure_redis(messages: int, single: int) -> Figures:
    """Start a server that syncs its log for each reply, and measure its streams."""
    with TemporaryDirectory(prefix="groupcomm-") as name:
        path = Path(name) / "redis.sock"
        command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--dir", name]
        command += ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        async with open_server(command, path.with_name("server.log"), path.exists):
            return await trio.to_thread.run_sync(_redis, str(path), messages, single)


def _redis(path: str, messages: int, single: int) -> Figures:
    import redis  # noqa: PLC0415 - an extra

    connection = redis.Redis(unix_socket_path=path)
    last = b"0"
    for _ in range(messages // BATCH):
        with connection.pipeline(transaction=False) as pipeline:
            for _ in range(BATCH):
                pipeline.xadd(GROUP, {"data": DATA})
            last = pipeline.execute()[-1]
    durable = []
    for _ in range(single):
        began = time.monotonic()
        connection.xadd(GROUP, {"data": DATA})
        durable.append(time.monotonic() - began)
    began, after, left = time.monotonic(), b"0", messages
    while left > 0:
        ((_, found),) = connection.xread({GROUP: after}, count=10 * BATCH)
        after, left = found[-1][0], left - len(found)
    replay_s = time.monotonic() - began
    restart = []
    for _ in range(single):
        began = time.monotonic()
        again = redis.Redis(unix_socket_path=path)
        again.xread({GROUP: last}, count=1)
        restart.append(time.monotonic() - began)
        again.close()
    return rounded(messages, replay_s, durable, restart)


# ---- all of them ----


def measure(messages: int, rounds: int, single: int) -> dict[str, list[Figures]]:
    """Return the figures of all rounds, by system."""
    nats_missing = not_installed(packages_of(nats_server="nats-server"), ["nats"])
    redis_missing = not_installed(packages_of(redis_server="redis-server"), ["redis", "hiredis"])
    systems: dict[str, tuple[str, Callable[[], Figures]]] = {
        "ours": ("", lambda: measure_ours(messages, single)),
        "NATS JetStream": (nats_missing, lambda: trio.run(measure_nats, messages, single)),
        "Redis streams": (redis_missing, lambda: trio.run(measure_redis, messages, single)),
    }
    found: dict[str, list[Figures]] = {}
    for number in range(rounds):
        for name, (missing, call) in systems.items():
            if missing:
                print(f"{name} is not measured: {missing}", file=sys.stderr)
                continue
            try:
                figures = call()
            except GroupCommError as error:
                if name == "ours":
                    raise
                print(f"{name} is not measured: {error}", file=sys.stderr)
                continue
            found.setdefault(name, []).append(figures)
            print(f"round {number + 1}: {name} {figures}", file=sys.stderr, flush=True)
    return found


@campaign(
    option("messages", 200_000),
    option("rounds", 3),
    option("single", 100, "messages and restarts that are timed"),
)
def run(options: Namespace) -> Found:
    """Measure, and print the table."""
    found = measure(options.messages, options.rounds, options.single)
    print(f"{machine()}; {options.messages:,} messages, {options.rounds} rounds, medians")
    print(f"{'':<18}{'replay /s':>14}{'durable ms':>14}{'restart ms':>14}")
    for name, rounds in found.items():
        medians = [statistics.median(each[key] for each in rounds) for key in rounds[0]]
        print(f"{name:<18}{medians[0]:>14,.0f}{medians[1]:>14,.2f}{medians[2]:>14,.2f}")
    return {"machine": machine(), "rounds": found, "violations": []}
