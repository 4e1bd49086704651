"""A recorder under load that is killed again and again, beside one that is left alone.

    python -m tests.verification.campaigns recorder --kills 50

Checked: every row that was reported as durable is there once, unchanged; rows have no hole; the
numbers of each sender have no hole, except where a gap is marked; and both recorders agree, as
`groupcomm log diff` has it. Ends with a line of JSON.
"""

import signal
import zlib
from argparse import Namespace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import trio

from groupcomm.level import ServiceLevel
from groupcomm_client import connect
from groupcomm_log.check import check_log
from groupcomm_log.diff import compare
from groupcomm_log.errors import LogError
from groupcomm_log.reader import BEGIN, LogReader
from groupcomm_log.schema import GAP, MESSAGE, Offset
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.terminal import say
from tests.verification.campaigns.programs import Program, until
from tests.verification.campaigns.runner import Found, campaign, option

NAMES: Final = ("alfa", "bravo")
GROUP: Final = "g"

LIFE_S: Final = 1.0
"""The longest life of a recorder from its first write; of every fourth from its start."""

LEVELS: Final = (
    ServiceLevel.FIFO,
    ServiceLevel.CAUSAL,
    ServiceLevel.AGREED,
    ServiceLevel.SAFE,
)
"""The levels at which a sender's numbers come in order."""

SIZES: Final = ("--sync-ms", "5", "--seal-mb", "0.3")
"""Many writes, and many files."""


async def send(address: str, rate: float, seed: int) -> None:
    """Send for ever, some at a time."""
    rng = Random(seed)
    async with connect(address) as connection:
        while True:
            count = rng.randint(1, 40)
            data = [rng.randbytes(rng.randrange(200)) for _ in range(count)]
            await connection.multicast_many(GROUP, data, level=rng.choice(LEVELS))
            await trio.sleep(count / rate)


def recorder(address: str, log: Path) -> Program:
    """It is not started yet."""
    options = ["record", GROUP, "--store", str(log), "--address", address, "--json", *SIZES]
    return Program("groupcomm_tools.cli", options)


def acknowledged(program: Program) -> Offset:
    """Return the last row that a recorder has reported as durable."""
    found = [line for line in program.lines if line["event"] == "synced"]
    return Offset(found[-1]["epoch"], found[-1]["row"]) if found else BEGIN


def writes_behind(program: Program, last: Offset) -> bool:
    """Return whether a recorder has reported more than this row."""
    return acknowledged(program) > last


def digest(log: Path, last: Offset) -> tuple[int, int]:
    """Return the number of rows up to this one, and a checksum of their contents."""
    count = crc = 0
    try:
        for batch in LogReader(log).batches(stop=last._replace(row=last.row + 1)):
            for row in batch.to_pylist():
                count, crc = count + 1, zlib.crc32(repr(row).encode(), crc)
    except LogError:  # the recorder was killed before it had a log
        return 0, 0
    return count, crc


def holes(log: Path) -> list[str]:
    """Return the places where a sender's numbers are missing or doubled without a gap row."""
    wrong: list[str] = []
    numbers: dict[str, int] = {}
    behind_gap: set[str] = set()
    for batch in LogReader(log).batches(columns=["row", "kind", "sender", "number"]):
        for row, kind, sender, number in zip(*batch.to_pydict().values(), strict=True):
            if kind == GAP:
                behind_gap = set(numbers)
            elif kind == MESSAGE:
                last = numbers.get(sender)
                fits = (
                    last is None or number == last + 1 or (sender in behind_gap and number > last)
                )
                if not fits:
                    wrong.append(f"row {row}: {number} of {sender} comes behind {last}")
                numbers[sender] = number
                behind_gap.discard(sender)
    return wrong


@campaign(
    option("kills", 50),
    option("rate", 2000.0, "messages a second, of all"),
    option("seed", 1),
)
async def run(options: Namespace) -> Found:
    """Run it; return the results."""
    rng = Random(options.seed)
    marks: list[tuple[Offset, tuple[int, int]]] = []
    with TemporaryDirectory(prefix="groupcomm-") as name:
        logs = {daemon: Path(name) / daemon for daemon in NAMES}
        async with LocalCluster(NAMES) as cluster, trio.open_nursery() as nursery:
            await cluster.settle(NAMES)
            addresses = {daemon: str(cluster[daemon].unix) for daemon in NAMES}
            for number, address in enumerate(addresses.values()):
                nursery.start_soon(send, address, options.rate / len(NAMES), options.seed + number)
            calm, killed = (recorder(addresses[daemon], logs[daemon]) for daemon in NAMES)
            await calm.start(nursery)
            for number in range(options.kills):
                await killed.start(nursery)
                before = acknowledged(killed)
                if rng.random() < 0.75:
                    await until("it writes", partial(writes_behind, killed, before))
                await trio.sleep(rng.uniform(0, LIFE_S))
                await killed.kill()
                last = acknowledged(killed)
                marks.append((last, await trio.to_thread.run_sync(digest, logs["bravo"], last)))
                say(f"{number + 1} of {options.kills}: {last.row} rows told")
            before = acknowledged(killed)
            await killed.start(nursery)
            await until("it writes", partial(writes_behind, killed, before))
            for program in (calm, killed):
                program.send_signal(signal.SIGTERM)
            for program in (calm, killed):
                await program.end()
            nursery.cancel_scope.cancel()
        found = check(logs, marks, acknowledged(killed))
    return {"kills": options.kills, **found}


def check(
    logs: dict[str, Path], marks: list[tuple[Offset, tuple[int, int]]], last: Offset
) -> dict[str, Any]:
    """Return the contents of the logs, and their faults."""
    calm, killed = logs.values()
    seen = check_log(killed)
    compared = compare(calm, killed, lambda damage: None)
    wrong = [f"rows {first} to {end} are missing" for first, end in seen.missing]
    wrong += [str(damage) for damage in [*seen.damage, *check_log(calm).damage]]
    wrong += holes(killed) + holes(calm) + compared.differences
    wrong += [
        f"up to {mark} there was something else when it was told"
        for mark, then in marks
        if digest(killed, mark) != then
    ]
    wrong += [
        f"{mark} was told, and then there were {count} rows"
        for mark, (count, _) in marks
        if mark != BEGIN and count != mark.row + 1
    ]
    if seen.last is None or seen.last < last:
        wrong.append(f"{last} was told, and the last row is {seen.last}")
    return {
        "rows": seen.rows,
        "gaps": len(seen.gaps),
        "compared": sum(compared.compared.values()),
        "violations": wrong,
    }
