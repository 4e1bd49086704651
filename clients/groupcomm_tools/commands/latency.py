"""`groupcomm latency`: how long a message takes from a program to the daemon and back."""

import argparse
import json
import statistics
import time
from typing import Final

import trio

from groupcomm.errors import ConfigError
from groupcomm.events import Message
from groupcomm_client.connection import Connection
from groupcomm_tools.commands.shared import (
    add_connection_options,
    add_level_option,
    connect_as_told,
    level_of,
)

NAME: Final = "latency"
HELP: Final = "send messages to oneself and tell how long they take, in their level's order"
EXAMPLE: Final = "groupcomm latency --level safe --count 500"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--count", type=int, default=200, metavar="N", help="messages (200)")
    parser.add_argument("--rate", type=float, default=100.0, metavar="R", help="a second (100)")
    parser.add_argument("--size", type=int, default=100, metavar="B", help="bytes of each (100)")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    add_level_option(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Measure; 1 if a message has not come back."""
    for name, least in (("count", 1), ("rate", 0.1), ("size", 0)):
        if getattr(options, name) < least:
            raise ConfigError(f"--{name} is {getattr(options, name)}; it must be {least} at least")
    delays_s = sorted(trio.run(_run, options))
    lost = options.count - len(delays_s)
    figures: dict[str, float | int | str | None] = {
        "level": options.level,
        "count": options.count,
        "lost": lost,
        "p50_ms": None,
        "p99_ms": None,
        "max_ms": None,
    }
    if delays_s:
        p99 = delays_s[min(len(delays_s) - 1, len(delays_s) * 99 // 100)]
        figures["p50_ms"] = round(statistics.median(delays_s) * 1000, 3)
        figures["p99_ms"] = round(p99 * 1000, 3)
        figures["max_ms"] = round(delays_s[-1] * 1000, 3)
    if options.json:
        print(json.dumps(figures))
    else:
        print(
            f"{options.level}: {len(delays_s)} of {options.count} came back, p50"
            f" {figures['p50_ms']} ms, p99 {figures['p99_ms']} ms, max {figures['max_ms']} ms"
        )
    return 1 if lost else 0


async def _run(options: argparse.Namespace) -> list[float]:
    async with connect_as_told(options) as connection:
        sent: dict[int, float] = {}
        delays_s: list[float] = []
        await connection.join(connection.name[1:].replace("#", "."))  # a group of its own
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_send, connection, options, sent)
            with trio.move_on_after(options.count / options.rate + 5):
                while len(delays_s) < options.count:
                    event = await connection.receive()
                    if isinstance(event, Message):
                        number = int.from_bytes(event.data[:4], "big")
                        delays_s.append(time.perf_counter() - sent[number])
            nursery.cancel_scope.cancel()
        return delays_s


async def _send(
    connection: Connection, options: argparse.Namespace, sent: dict[int, float]
) -> None:
    (group,) = connection.groups
    padding = bytes(max(0, options.size - 4))
    for number in range(options.count):
        sent[number] = time.perf_counter()
        data = number.to_bytes(4, "big") + padding
        await connection.multicast(group, data, level=level_of(options))
        await trio.sleep(1 / options.rate)
