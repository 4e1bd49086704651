"""Each part of coordination under each fault; holders judged by a database outside the cluster.

    python -m tests.verification.campaigns tenures           # all parts, loops and faults
    python -m tests.verification.campaigns tenures --part mutex --loop trio --reconnect --kills 500

Three programs at three daemons write with their tokens. Checked: whoever has left its block
normally was alone in it; tokens rise; after each fault somebody goes on; replicas are equal in the
end, and have all that was acknowledged. Of requests, shared work and the resource see the modules
of these parts. Prints a line of JSON for each combination.
"""

import json
import signal
import sqlite3
import time
from argparse import BooleanOptionalAction, Namespace
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from itertools import pairwise, product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import trio

from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.relay import Relay
from groupcomm_tools.terminal import say
from groupcommd.config.config_file import read_addresses
from tests.groupcomm_client.kinds import KINDS
from tests.verification.campaigns.programs import DidNotHappen, Program, until
from tests.verification.campaigns.runner import Found, campaign, option
from tests.verification.campaigns.tenures_program import PLAYS
from tests.verification.campaigns.tenures_requests import requests_of
from tests.verification.campaigns.tenures_resource import resource_of
from tests.verification.campaigns.tenures_work import MORE, is_each_done, work_of

PARTS: Final = tuple(PLAYS)
NAMES: Final = ("alfa", "bravo", "charlie")
LOOPS: Final = tuple(kind.name for kind in KINDS)
FAULT_S: Final = (0.2, 1.2)
"""How long a stop or a cut lasts: some are noticed by the others, and some are not."""

PROGRESS: Final[dict[str, tuple[str, ...]]] = {
    "mutex": ("entered",),
    "election": ("entered",),
    "replica": ("acknowledged",),
    "requests": ("answered",),
    "work": ("done",),
    "resource": ("entered", "accepted"),
}
"""The lines that say that a part goes on."""

ANYBODY: Final = ("mutex", "election")
"""The parts that go on if any program does; in the others each one has to."""


class Table:
    """The cluster, the programs, and the database.

    Attributes:
        victims: the program that each fault struck, None for no fault, and when the others and it
            had gone on, in nanoseconds of the host's monotonic clock.
        killed: the lives of programs that were killed.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        relay: Relay,
        nursery: trio.Nursery,
        rng: Random,
        options: list[str],
    ) -> None:
        self.cluster = cluster
        self.relay = relay
        self.rng = rng
        self.database = cluster.folder / "outside.db"
        self.victims: list[tuple[Program | None, int]] = []
        self.killed: set[str] = set()
        self._nursery = nursery
        with sqlite3.connect(self.database) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("CREATE TABLE writes (token TEXT, who TEXT)")
        self.programs = {
            name: Program(
                "tests.verification.campaigns.tenures_program",
                [
                    *("--address", str(cluster[name].unix), "--database", str(self.database)),
                    *options,
                ],
            )
            for name in NAMES
        }

    async def start(self, name: str) -> None:
        program = self.programs[name]
        await program.start(self._nursery, "--name", f"{name}{program.lives}")

    def progress(self, part: str) -> Counter[tuple[str, str]]:
        """Return how often each program has said each line of progress."""
        return Counter(
            (name, word)
            for name, program in self.programs.items()
            for line in program.lines
            for word in PROGRESS[part]
            if word in line
        )

    def victim(self) -> str:
        """Return the program that entered last, as far as known; or any."""
        last = max(
            (
                (line["at"], name)
                for name, program in self.programs.items()
                for line in program.lines[-3:]
                if "entered" in line
            ),
            default=(0, self.rng.choice(NAMES)),
        )
        return last[1]

    async def pause(self) -> None:
        await trio.sleep(self.rng.uniform(*FAULT_S))


async def daemon_killed(table: Table, name: str) -> None:
    table.cluster[name].kill()
    await trio.sleep(table.rng.uniform(0.0, 0.5))
    await table.cluster[name].start()


async def daemon_stopped(table: Table, name: str) -> None:
    table.cluster[name].signal(signal.SIGSTOP)
    await table.pause()
    table.cluster[name].signal(signal.SIGCONT)


async def link_cut(table: Table, name: str) -> None:
    others = [other for other in NAMES if other != name]
    table.relay.cut(list(table.relay.between([name], others)))
    await table.pause()
    table.relay.mend()


async def program_stopped(table: Table, name: str) -> None:
    table.programs[name].send_signal(signal.SIGSTOP)
    await table.pause()
    table.programs[name].send_signal(signal.SIGCONT)


async def host_stopped(table: Table, name: str) -> None:
    """The daemon and the program stand still; the program wakes first, or the daemon does."""
    table.programs[name].send_signal(signal.SIGSTOP)
    table.cluster[name].signal(signal.SIGSTOP)
    await table.pause()
    wake: list[Callable[[], None]] = [
        lambda: table.programs[name].send_signal(signal.SIGCONT),
        lambda: table.cluster[name].signal(signal.SIGCONT),
    ]
    table.rng.shuffle(wake)
    for call in wake:
        call()


async def program_killed(table: Table, name: str) -> None:
    table.killed.add(f"{name}{table.programs[name].lives - 1}")
    await table.programs[name].kill()
    await table.start(name)


Fault = Callable[[Table, str], Awaitable[None]]

FAULTS: Final[dict[str, Fault]] = {
    fault.__name__: fault
    for fault in (
        daemon_killed,
        daemon_stopped,
        link_cut,
        program_stopped,
        host_stopped,
        program_killed,
    )
}


async def go_on(table: Table, part: str, victim: str | None = None) -> None:
    """Wait until the programs go on after a fault."""
    before = table.progress(part)
    least = MORE if part == "work" else 1

    def is_done() -> bool:
        now = table.progress(part)
        more = [now[each] - before[each] >= least for each in product(NAMES, PROGRESS[part])]
        return any(more) if part in ANYBODY else all(more)

    await until("the programs go on", is_done)
    table.victims.append((table.programs.get(victim or ""), time.monotonic_ns()))


async def play(
    part: str, loop: str, reconnect: bool, faults: list[str], seed: int
) -> dict[str, Any]:
    """Run one combination through some faults; return the results."""
    rng = Random(seed)
    options = ["--part", part, "--loop", loop, *(["--reconnect"] if reconnect else [])]
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="groupcomm-"))
        via = Path(folder) / "via.json"
        cluster = LocalCluster(NAMES, options=("--via", str(via)))
        relay = Relay(read_addresses(cluster.config))
        relay.write(via)
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(relay.run)
        async with cluster:
            await cluster.settle(NAMES)
            table = Table(cluster, relay, nursery, rng, options)
            for name in NAMES:
                await table.start(name)
            await go_on(table, part)
            for fault in faults:
                victim = table.victim()
                await FAULTS[fault](table, victim)
                await go_on(table, part, victim)
            await cluster.settle(NAMES)
            await go_on(table, part)
            statuses = await end_all(table, part)
            found = results_of(table, part)
            nursery.cancel_scope.cancel()
    found["violations"] += [f"a program ended with status {s}" for s in statuses if s]
    return {
        "part": part,
        "loop": loop,
        "reconnect": reconnect,
        "faults": dict(Counter(faults)),
        **found,
    }


async def end_all(table: Table, part: str) -> list[int]:
    """Have all programs stop, then end; return their statuses."""
    statuses: list[int] = []
    everybody = table.programs.values()
    for program in everybody:
        await program.say("stop")
    if part not in ANYBODY:
        await until("all have stopped", lambda: all(has_stopped(each) for each in everybody))
    if part == "work":
        with suppress(DidNotHappen):  # the results name the jobs
            await until("each job is done", lambda: is_each_done(list(everybody)))

    async def end(program: Program) -> None:
        statuses.append(await program.end())

    async with trio.open_nursery() as nursery:
        for program in everybody:
            nursery.start_soon(end, program)
    return statuses


def has_stopped(program: Program) -> bool:
    return any("stopped" in line for line in program.lines)


def results_of(table: Table, part: str) -> dict[str, Any]:
    """Return the results, and the violated expectations."""
    programs = list(table.programs.values())
    match part:
        case "replica":
            return replicas_of(table)
        case "requests":
            return requests_of(programs, table.killed)
        case "work":
            return work_of(programs, table.victims)
        case "resource":
            tenures, uses = tenures_of(table, part), resource_of(programs, table.victims)
            return {**tenures, **uses, "violations": tenures["violations"] + uses["violations"]}
        case _:
            return tenures_of(table, part)


def tenures_of(table: Table, part: str) -> dict[str, Any]:
    lines = [line for program in table.programs.values() for line in program.lines]
    stays = stays_of(list(table.programs.values()))
    tokens = [token for token, _, _ in stays]
    wrong = [
        f"{b[0]:x} was in from {b[1]} on, and {a[0]:x} from {a[1]} to {a[2]}"
        for a, b in pairwise(stays)
        if b[1] < a[2]
    ]
    # A leader may enter several blocks in one term.
    again = part == "election"
    wrong += [
        f"{b:x} follows {a:x}" for a, b in pairwise(tokens) if b < a or (b == a and not again)
    ]
    with sqlite3.connect(table.database) as database:
        rows = [row[0] for row in database.execute("SELECT token FROM writes ORDER BY rowid")]
    wrong += [f"rows of {a} and {b} are not in order" for a, b in pairwise(rows) if b < a]
    refused = [line for line in lines if "refused" in line]
    wrong += [f"{token:x} left normally, and was refused" for token in refused_and_out(table)]
    return {
        "tenures": sum("entered" in line for line in lines),
        "left_normally": len(stays),
        "lost": sum("lost" in line for line in lines),
        "writes": len(rows),
        "refused": len(refused),
        "refused_while_it_said_held": sum(line["believed"] for line in refused),
        "violations": wrong,
    }


def refused_and_out(table: Table) -> list[int]:
    """Return the tokens of blocks that ended normally after the database had refused a write."""
    found: list[int] = []
    for program in table.programs.values():
        was_refused = False
        for line in program.lines:
            if "entered" in line or "refused" in line:
                was_refused = "refused" in line
            elif "out" in line and was_refused:
                found.append(line["out"])
    return found


def stays_of(programs: list[Program]) -> list[tuple[int, int, int]]:
    """Return the tenures that ended normally: token, and from when to when it was in."""
    found: list[tuple[int, int, int]] = []
    for program in programs:
        entered: dict[str, Any] | None = None
        last = 0
        for line in program.lines:
            if "entered" in line:
                entered = line
            elif "last" in line:
                last = line["at"]  # it is out once its release is known: the next one may be in
            elif "out" in line and entered is not None:
                found.append((entered["entered"], entered["at"], last))
    return sorted(found, key=lambda stay: stay[1])


def replicas_of(table: Table) -> dict[str, Any]:
    lines = [line for program in table.programs.values() for line in program.lines]
    contents = [program.lines[-1].get("contents") for program in table.programs.values()]
    acknowledged = [line["acknowledged"] for line in lines if "acknowledged" in line]
    wrong = []
    if not (contents[0] is not None and contents[0] == contents[1] == contents[2]):
        wrong.append(f"the contents differ: {[len(each or ()) for each in contents]} keys")
    lost = [key for key in acknowledged if (contents[0] or {}).get(key) != 1]
    if lost:
        wrong.append(f"{len(lost)} acknowledged keys are lost, or there twice, such as {lost[0]}")
    return {
        "acknowledged": len(acknowledged),
        "unknown": sum("unknown" in line for line in lines),
        "violations": wrong,
    }


@campaign(
    option("part", choices=PARTS),
    option("loop", choices=LOOPS),
    option("reconnect", action=BooleanOptionalAction),
    option("fault", choices=FAULTS, action="append", text="all without any"),
    option("rounds", 1, "of all faults"),
    option("kills", type=int, text="of programs and daemons in turn, no other fault"),
    option("seed", 1),
)
async def run(options: Namespace) -> Found:
    """Run all combinations; return the results of each."""
    faults = (options.fault or list(FAULTS)) * options.rounds
    if options.kills is not None:
        faults = [("program_killed", "daemon_killed")[at % 4 == 3] for at in range(options.kills)]
    found: list[dict[str, Any]] = []
    for part, loop, reconnect in product(
        [options.part] if options.part else PARTS,
        [options.loop] if options.loop else LOOPS,
        [True, False] if options.reconnect is None else [options.reconnect],
    ):
        found.append(await play(part, loop, reconnect, faults, options.seed))
        say(json.dumps(found[-1]))
    wrong = [f"{e['part']}, {e['loop']}: {text}" for e in found for text in e["violations"]]
    return {"combinations": found, "violations": wrong}
