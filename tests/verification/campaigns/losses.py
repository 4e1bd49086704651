"""The losses of a vehicle with a daemon, or with a computer: one daemon for all, or one on each.

Each computer is a network namespace with one program that sends 50 messages a second to all. After
a second a daemon is killed, perhaps to start again a second later, or a computer is cut off with
everything that runs on it. The output has the messages that the remaining programs received.

python -m tests.verification.campaigns losses --computers 3 --rounds 3
"""

import json
import math
import statistics
import subprocess
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from examples.common.stage import Program, program
from groupcomm_tools.terminal import say
from tests.verification.campaigns.computers import MTU, Shape, prepare
from tests.verification.campaigns.peers.daemons import running
from tests.verification.campaigns.peers.nodes import open_nodes
from tests.verification.campaigns.runner import Found, campaign, option
from tests.verification.campaigns.wire import Wire

BEFORE_S: Final = 1.0
RESTART_S: Final = 1.0
RECENT_S: Final = 0.5
"""The time before the end within which a heard program counts as heard at the end."""


@attrs.frozen(kw_only=True)
class Loss:
    """A loss.

    Attributes:
        name: its name in the table.
        each: whether each computer has a daemon; otherwise the first has the only one.
        computer: the index of the computer concerned.
        whole: whether the computer goes; otherwise only its daemon.
        restarts: whether the daemon starts again.
    """

    name: str
    each: bool
    computer: int = 0
    whole: bool = False
    restarts: bool = False

    @property
    def kills_daemon(self) -> bool:
        """Return whether a daemon runs on the computer."""
        return self.each or self.computer == 0


LOSSES: Final = (
    Loss(name="one: the daemon", each=False),
    Loss(name="one: the daemon, restarted", each=False, restarts=True),
    Loss(name="one: its computer", each=False, whole=True),
    Loss(name="one: another computer", each=False, computer=1, whole=True),
    Loss(name="each: a daemon", each=True, computer=1),
    Loss(name="each: a daemon, restarted", each=True, computer=1, restarts=True),
    Loss(name="each: a computer", each=True, computer=1, whole=True),
)


async def measure(loss: Loss, options: Namespace) -> dict[str, Any]:
    """Run it once; return the reports of programs."""
    wire = Wire(delay_s=options.delay_ms / 1000, loss=options.loss)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_nodes(options.computers, MTU, (), wire=wire) as nodes,
    ):
        for node in nodes if options.tcp_retries else ():
            setting = f"net.ipv4.tcp_retries2={options.tcp_retries}"
            subprocess.run([*node.prefix, "sysctl", "-q", "-w", setting], check=True)
        shape = prepare(Path(folder), nodes, each=loss.each)
        async with running(shape.daemons):
            return await _lose(shape, loss, options.seconds)


async def _lose(shape: Shape, loss: Loss, seconds: float) -> dict[str, Any]:
    """Have programs talk, lose a part, and evaluate their reports."""
    async with AsyncExitStack() as stack:
        programs: dict[str, Program] = {}
        for at, node in enumerate(shape.nodes):
            options = ("--address", shape.address_at(at))
            one = program(
                "tests.verification.campaigns.losses_program",
                f"c{at + 1}",
                *options,
                prefix=node.prefix,
            )
            programs[f"c{at + 1}"] = await stack.enter_async_context(one)
        for each in programs.values():
            await each.told()
        await trio.sleep(BEFORE_S)
        at_s = time.monotonic()
        await _strike(shape, loss, programs)
        await trio.sleep(seconds - (time.monotonic() - at_s))
        if loss.whole:
            del programs[f"c{loss.computer + 1}"]
        for each in programs.values():
            await each.tell("report")
        end_s = time.monotonic()
        reports = {name: await each.told() for name, each in programs.items()}
    return evaluate(reports, f"c{loss.computer + 1}", at_s, end_s, loss)


async def _strike(shape: Shape, loss: Loss, programs: Mapping[str, Program]) -> None:
    daemon = list(shape.daemons.values())[loss.computer if loss.each else 0]
    if loss.whole:  # the cable goes first, so that no process says goodbye
        shape.nodes[loss.computer].plug(0, up=False)
        programs[f"c{loss.computer + 1}"].kill()
    if loss.kills_daemon:
        daemon.kill()
    if loss.restarts:
        await trio.sleep(RESTART_S)
        await daemon.start()


def evaluate(
    reports: Mapping[str, Mapping[str, Any]], struck: str, at_s: float, end_s: float, loss: Loss
) -> dict[str, Any]:
    """Return silences and whether programs hear each other at the end.

    Args:
        reports: the reports of the remaining programs, by name.
        struck: the program of the computer concerned.
        at_s, end_s: the time of the loss, and the time of the reports.
        loss: the loss.
    """
    others = {name: report for name, report in reports.items() if name != struck}
    heard = {
        (one, other): report["heard"].get(other, [])
        for one, report in reports.items()
        for other in reports
        if one != other
    }
    among = {pair: times for pair, times in heard.items() if struck not in pair}
    with_struck = {pair: times for pair, times in heard.items() if struck in pair}
    gone = [_dropped(report["members"], struck, at_s) for report in others.values()]
    return {
        "what": loss.name,
        "others_silent_s": _worst(silence(times, at_s, end_s) for times in among.values()),
        "others_hear_each_other": _share(among.values(), end_s),
        "struck_silent_s": _worst(silence(times, at_s, end_s) for times in with_struck.values()),
        "struck_is_heard_and_hears": _share(with_struck.values(), end_s),
        "left_out_after_s": _worst(gone),
    }


def silence(times: Sequence[float], at_s: float, end_s: float) -> float:
    """Return the longest time without a message around a moment and after it."""
    before = max((each for each in times if each <= at_s), default=at_s)
    points = [before, *(each for each in times if each > at_s), end_s]
    return max(later - earlier for earlier, later in pairwise(points))


def _dropped(members: Sequence[tuple[float, list[str]]], struck: str, at_s: float) -> float:
    """Return the time from a moment to a program's first view without another; inf if never."""
    seen = (when - at_s for when, names in members if when > at_s and struck not in names)
    return min(seen, default=math.inf)


def _worst(values: Iterable[float]) -> float | None:
    found = list(values)
    return round(max(found), 3) if found and max(found) < math.inf else None


def _share(all_times: Iterable[Sequence[float]], end_s: float) -> float | None:
    found = [bool(times) and times[-1] > end_s - RECENT_S for times in all_times]
    return round(sum(found) / len(found), 2) if found else None


@campaign(
    option("computers", 3),
    option("rounds", 3, "in turn"),
    option("seconds", 10.0, "after the loss"),
    option("delay_ms", 0.2, "one way"),
    option("loss", 0.0, "of all frames"),
    option(
        "tcp_retries",
        type=int,
        text="net.ipv4.tcp_retries2: after so many TCP gives a connection up (the system's)",
    ),
    option("only", type=int, choices=range(len(LOSSES)), text="only this loss, from 0"),
)
async def run(options: Namespace) -> Found:
    """Run all losses in turn; return medians."""
    found: dict[str, list[dict[str, Any]]] = {}
    for number in range(options.rounds):
        for loss in LOSSES if options.only is None else [LOSSES[options.only]]:
            row = await measure(loss, options)
            found.setdefault(loss.name, []).append(row)
            say(f"round {number + 1}: {json.dumps(row)}")
    return {"medians": [medians(rows) for rows in found.values()], "violations": []}


def medians(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the median of each figure; None if most of the rows have none."""
    told: dict[str, Any] = {}
    for key, value in rows[0].items():
        known = [row[key] for row in rows if row[key] is not None]
        if isinstance(value, str):
            told[key] = value
        else:
            told[key] = statistics.median(known) if 2 * len(known) > len(rows) else None
    return told
