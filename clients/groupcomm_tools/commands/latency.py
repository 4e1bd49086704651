"""`groupcomm latency`: measure the time of a message from a program to the daemon and back."""

import argparse
import json
import statistics
import time
from contextlib import suppress
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.events import Message
from groupcomm.host.option_types import one_or_more, positive, whole_number
from groupcomm.wire.messages import MAX_MESSAGE_BYTES
from groupcomm_tools.commands.connecting import connect_blocking
from groupcomm_tools.commands.options import add_connection_options, add_level_option, level_of

EXAMPLE: Final = "groupcomm latency --level safe --count 500"

LAST_WAIT_S: Final = 5.0
"""The seconds that the last messages may take, beyond the time of sending at their rate."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--count", type=one_or_more, default=200, metavar="N", help="messages (200)"
    )
    parser.add_argument(
        "--rate", type=positive, default=100.0, metavar="R", help="messages a second (100)"
    )
    parser.add_argument(
        "--size",
        type=whole_number(0, MAX_MESSAGE_BYTES),
        default=100,
        metavar="B",
        help="bytes of each (100)",
    )
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    add_level_option(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Measure; return 1 if a message has not come back."""
    for name, least in (("count", 1), ("rate", 0.1), ("size", 0)):
        if getattr(options, name) < least:
            raise ConfigError(f"--{name} is {getattr(options, name)}; it must be at least {least}")
    delays_s = sorted(_measure(options))
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


def _measure(options: argparse.Namespace) -> list[float]:
    """Return the delay in seconds of each message that has come back."""
    padding = bytes(max(0, options.size - 4))
    sent_s: list[float] = []
    delays_s: list[float] = []
    with connect_blocking(options) as connection:
        group = connection.name[1:].replace("#", ".")  # the group has no other member
        connection.join(group)
        begin_s = time.perf_counter()
        end_s = begin_s + options.count / options.rate + LAST_WAIT_S
        while len(delays_s) < options.count and (now_s := time.perf_counter()) < end_s:
            due_s = end_s
            if len(sent_s) < options.count:
                due_s = begin_s + len(sent_s) / options.rate
            if now_s >= due_s:
                sent_s.append(now_s)
                data = (len(sent_s) - 1).to_bytes(4, "big") + padding
                connection.multicast(group, data, level=level_of(options))
                continue
            with suppress(TimeoutError):  # the next message is due then
                for event in connection.receive_batch(due_s - now_s):
                    if isinstance(event, Message):
                        number = int.from_bytes(event.data[:4], "big")
                        delays_s.append(time.perf_counter() - sent_s[number])
    return delays_s
