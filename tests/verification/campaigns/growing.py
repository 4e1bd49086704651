"""A cluster of real daemons from one to nine and back to three, one at a time, under load.

    python -m tests.verification.campaigns growing --rate 1000 --kills 20

Programs at the first three daemons stay: they send messages of all reliable levels to one group,
and receive all. Checked: none of them loses a message or gets one twice, ordered levels keep their
order, no step changes the view more than once, all daemons have one roster in the end. Then a
daemon is killed, `--kills` times at each step of an addition and of a removal, found by the files
and the log of the daemon that is killed; the others go on, and all rosters are equal again. That is
done in `--clusters` clusters at once, as most of the time is waiting. The
output has the longest time without deliveries of each step, as lines of JSON; the last one is the
result.
"""

import json
import string
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import attrs
import trio

from groupcomm.events import DaemonView, Message
from groupcomm.level import ServiceLevel
from groupcomm_client import Connection, connect
from groupcomm_tools.local_cluster import ClusterError
from groupcomm_tools.terminal import say
from tests.groupcommd.growing import GrowingCluster
from tests.verification.campaigns.programs import until
from tests.verification.campaigns.runner import PACKAGE, Found, campaign, option

GROUP: Final = "load"
STAY: Final = "abc"
"""The daemons whose programs stay."""

LEVELS: Final = (
    ServiceLevel.RELIABLE,
    ServiceLevel.FIFO,
    ServiceLevel.CAUSAL,
    ServiceLevel.AGREED,
    ServiceLevel.SAFE,
)
TICK_S: Final = 0.01
LATE: Final = 100
"""RELIABLE messages of one sender are never out of order by more."""

CALM_S: Final = 0.5
"""The time between two steps, and after the load, in which nothing changes."""

STEPS: Final = {
    "add": ("asked", "stored", "counts", "started", "in view", "counted"),
    "remove": ("asked", "stored", "counts", "left"),
}
"""The moments at which a daemon is killed, by the command that changes the roster."""

SPARE: Final = 12
"""Further additions, for steps at which no daemon could be killed."""

PAIRS: Final = max(map(len, STEPS.values()))
"""The additions, and as many removals, in which a daemon is killed at every step."""


class Receiver:
    """A program that receives everything, and notes what a step costs.

    Attributes:
        got: the numbers of received messages, in order, by sender and level.
        views: the views since the last `begin_step`.
        longest_s: the longest time between two deliveries since then.
    """

    def __init__(self) -> None:
        self.got: dict[tuple[str, int], list[int]] = {}
        self.views = 0
        self.longest_s = 0.0
        self._began = False  # whether the view in which the program began was reported
        self._last = time.monotonic()

    def begin_step(self) -> None:
        """Begin to note anew; the time since the latest delivery counts."""
        self.views, self.longest_s = 0, 0.0

    async def run(self, connection: Connection) -> None:
        """Receive until the task is cancelled."""
        while True:
            events = await connection.receive_batch()
            now = time.monotonic()
            for event in events:
                if isinstance(event, Message):
                    sender, level, number = event.data.split()
                    found = self.got.setdefault((sender.decode(), int(level)), [])
                    found.append(int(number))
                    self.longest_s = max(self.longest_s, now - self._last)
                    self._last = now
                elif isinstance(event, DaemonView):
                    self.views += self._began
                    self._began = True


class Load:
    """The programs that stay, each of which sends its share of the messages.

    Attributes:
        receivers: the receivers, by the names of their daemons.
        sent: the number of messages sent, by sender and level.
    """

    def __init__(self, cluster: GrowingCluster, rate: float) -> None:
        self._cluster = cluster
        self._rate = rate
        self.receivers: dict[str, Receiver] = {}
        self.sent: dict[tuple[str, int], int] = {}
        self._over = False

    async def run(self, name: str, *, task_status: trio.TaskStatus[None]) -> None:
        """Send and receive at a daemon; started once the program is a member."""
        async with (
            connect(str(self._cluster[name].unix)) as connection,
            trio.open_nursery() as nursery,
        ):
            receiver = Receiver()
            await connection.join(GROUP)
            self.receivers[name] = receiver
            nursery.start_soon(receiver.run, connection)
            task_status.started()
            await self._send(name, connection)

    async def _send(self, name: str, connection: Connection) -> None:
        due, credit = trio.current_time(), 0.0
        while True:
            due += TICK_S
            await trio.sleep_until(due)
            if self._over:
                continue
            credit += self._rate * TICK_S / len(self.receivers)
            while credit >= 1:
                credit -= 1
                level = LEVELS[sum(self.sent.values()) % len(LEVELS)]
                number = self.sent.get((name, level), 0)
                self.sent[name, level] = number + 1
                data = b"%b %d %d" % (name.encode(), level, number)
                await connection.multicast(GROUP, data, level=level)

    def begin_step(self) -> None:
        """Have all receivers note anew."""
        for receiver in self.receivers.values():
            receiver.begin_step()

    async def end(self) -> None:
        """Send no more, and wait until everything has been received."""
        self._over = True
        await until("everything is received", self._is_complete)

    def _is_complete(self) -> bool:
        return all(
            max(receiver.got.get(of, [-1])[-LATE:]) == sent - 1
            for receiver in self.receivers.values()
            for of, sent in self.sent.items()
        )

    def violations(self) -> list[str]:
        """Return what was lost, doubled or out of order at the programs that stay."""
        found = []
        for at, receiver in self.receivers.items():
            for (sender, level), numbers in receiver.got.items():
                what = f"{sender}'s {ServiceLevel(level).name} messages at {at}"
                first, sent = min(numbers), self.sent[sender, level]
                if sender == at and first:
                    found.append(f"{what}: the first {first} are missing")
                if len(set(numbers)) != len(numbers):
                    found.append(f"{what}: {len(numbers) - len(set(numbers))} came twice")
                if len(set(numbers)) != sent - first:
                    found.append(f"{what}: {sent - first - len(set(numbers))} are missing")
                if level != ServiceLevel.RELIABLE and numbers != sorted(numbers):
                    found.append(f"{what} are out of order")
        return found


@attrs.define
class Growth:
    """The course of a campaign.

    Attributes:
        cluster: the daemons.
        load: the programs that stay.
        present: the daemons of the roster.
        steps: the result of each step.
        violations: what must not be.
    """

    cluster: GrowingCluster
    load: Load
    nursery: trio.Nursery
    present: list[str] = attrs.field(factory=list)
    steps: list[dict[str, Any]] = attrs.field(factory=list)
    violations: list[str] = attrs.field(factory=list)

    async def add(self, name: str) -> None:
        """Add a daemon, and start it."""
        self.load.begin_step()
        await self.change("add", name, through=self.present[-1])
        await self.cluster[name].start()
        self.present.append(name)
        await self.cluster.settle(self.present)
        await self._end_step(f"add {name}")
        if name in STAY:
            await self.nursery.start(self.load.run, name)

    async def remove(self, name: str) -> None:
        """Remove a daemon, which ends."""
        self.load.begin_step()
        self.present.remove(name)
        await self.change("remove", name, through=self.present[-1])
        if (status := await self.cluster[name].ended()) != 2:
            self.violations.append(f"{name} was removed, and ended with {status}")
        await self.cluster.settle(self.present)
        await self._end_step(f"remove {name}")

    async def change(self, verb: str, name: str, *, through: str) -> None:
        """Run the command in a process of its own, which does not hold the programs up."""
        words = [verb, name, "--through", str(self.cluster[through].unix), "--json"]
        if verb == "add":
            words += ["--address", self.cluster.at[name]]
        done = await trio.run_process(
            [sys.executable, "-m", "groupcomm_tools.cli", "daemons", *words],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
        if done.returncode:
            self.violations.append(f"{verb} {name}: {done.stderr.decode().strip()}")

    async def _end_step(self, what: str) -> None:
        await trio.sleep(CALM_S)
        views = max(receiver.views for receiver in self.load.receivers.values())
        longest_s = max(receiver.longest_s for receiver in self.load.receivers.values())
        if views > 1:
            self.violations.append(f"{what}: {views} views")
        self.steps.append({"step": what, "views": views, "silent_s": round(longest_s, 3)})
        say(json.dumps(self.steps[-1]))


async def grow(cluster: GrowingCluster, names: str, rate: float) -> dict[str, Any]:
    """Grow to all names, and shrink to three; return the result."""
    load = Load(cluster, rate)
    async with trio.open_nursery() as nursery:
        growth = Growth(cluster, load, nursery)
        await cluster[names[0]].start()
        await cluster.settle(names[0])
        growth.present.append(names[0])
        await nursery.start(load.run, names[0])
        await trio.sleep(CALM_S)
        for name in names[1:]:
            await growth.add(name)
        for name in reversed(names[len(STAY) :]):
            await growth.remove(name)
        await load.end()
        nursery.cancel_scope.cancel()
    found = [await cluster.roster(name) for name in growth.present]
    if any(each["daemons"] != found[0]["daemons"] for each in found):
        growth.violations.append("rosters differ")
    return {
        "steps": len(growth.steps),
        "sent": sum(load.sent.values()),
        "received": sum(len(each) for r in load.receivers.values() for each in r.got.values()),
        "most_views": max(each["views"] for each in growth.steps),
        "longest_silent_s": max(each["silent_s"] for each in growth.steps),
        "violations": growth.violations + load.violations(),
    }


# ---- kills ----


class Kills:
    """Kills at one step of a change, in a cluster of three daemons to which others come and go.

    Attributes:
        kills: the number of kills so far, by command and step.
        violations: what must not be.
    """

    def __init__(self, cluster: GrowingCluster, seed: int) -> None:
        self._cluster = cluster
        self._rng = Random(seed)
        self.kills = {f"{verb}, {step}": 0 for verb, steps in STEPS.items() for step in steps}
        self.violations: list[str] = []

    async def start(self) -> None:
        """Start the daemons that stay."""
        await self._cluster[STAY[0]].start()
        await self._cluster.settle(STAY[0])
        for number, name in enumerate(STAY[1:], start=1):
            await self._ask("add", name, STAY[0])
            await self._cluster[name].start()
            await self._cluster.settle(STAY[: number + 1])

    def least(self, verb: str) -> tuple[int, str]:
        """Return the least number of kills at a step of a command, and the first such step."""
        steps = STEPS[verb]
        step = min(steps, key=lambda step: self.kills[f"{verb}, {step}"])
        return self.kills[f"{verb}, {step}"], step

    async def kill(self, verb: str, step: str, comes: str) -> None:
        """Make a change, kill a daemon at one step, and have it come back."""
        others = [name for name in STAY if name != STAY[0]]
        victim = self._rng.choice(others)
        if verb == "add" and step in ("started", "in view", "counted"):
            victim = self._rng.choice([*others, comes])
        before, self._killed = self._record(STAY[0]), False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._change, verb, comes)
            await until(f"{verb}, {step}", self._moment(verb, step, victim, comes, before))
            if self._cluster[victim].running:
                self._cluster[victim].kill()
                self._killed = True
                self.kills[f"{verb}, {step}"] += 1
        if not self._cluster[victim].running:
            await self._cluster[victim].start()
        await self._agree(verb, comes)

    async def _change(self, verb: str, comes: str) -> None:
        await self._ask(verb, comes, STAY[0])
        if verb == "add" and not self._cluster[comes].running:
            try:
                await self._cluster[comes].start()
            except ClusterError:
                if self._cluster[comes].running or not self._killed:
                    raise  # else it was killed as it started, and is started again

    async def _ask(self, verb: str, name: str, through: str) -> None:
        """Make a change, again until it counts: a view that ends in between may drop it."""
        words = ["--address", self._cluster.at[name]] if verb == "add" else []
        wanted = verb == "add"
        with trio.fail_after(60):
            while wanted != (name in self._names(await self._cluster.roster(through))):
                await self._cluster.ask(verb, name, *words, "--timeout-s", 5, through=through)

    def _moment(
        self, verb: str, step: str, victim: str, comes: str, before: dict[str, Any]
    ) -> Callable[[], bool]:
        """Return a function that says whether the daemon to be killed has reached a step."""
        known = self._number(before)

        def reached() -> bool:
            record = self._record(victim)
            pending = record["pending"] or {"number": 0}
            number = self._number(record)
            match step:
                case "asked":
                    return self._asked(STAY[0])
                case "stored":
                    return pending["number"] > known or number > known
                case "counts":
                    return number > known
                case "started":
                    return self._cluster[comes].running
                case "in view":
                    return comes in self._cluster[STAY[0]].view[1]
                case "counted":
                    return number > known + 1
                case _:
                    return comes not in self._cluster[STAY[0]].view[1]

        self._lines = len(self._cluster[STAY[0]].lines())
        return reached

    def _asked(self, name: str) -> bool:
        new = self._cluster[name].lines()[self._lines :]
        return any("are asked to change the roster" in line["text"] for line in new)

    def _record(self, name: str) -> dict[str, Any]:
        path = Path(self._cluster.folder) / f"{name}.state" / "roster.json"
        if not path.exists():
            return {"agreed": None, "pending": None}
        found: dict[str, Any] = json.loads(path.read_bytes())
        return found

    def _number(self, record: dict[str, Any]) -> int:
        return record["agreed"]["number"] if record["agreed"] is not None else 0

    async def _agree(self, verb: str, comes: str) -> None:
        """Wait until all daemons are in one view, and compare their rosters."""
        names = [*STAY, comes] if verb == "add" else list(STAY)
        if verb == "remove":
            await self._cluster[comes].ended()
        await self._cluster.settle(names)
        with trio.move_on_after(20):
            while True:
                found = [await self._cluster.roster(name) for name in names]
                if all(
                    each["daemons"] == found[0]["daemons"] and not each["changing"]
                    for each in found
                ) and all(each["counts"] for each in found[0]["daemons"]):
                    break
                await trio.sleep(0.05)
            if set(self._names(found[0])) != set(names):
                self.violations.append(f"{verb}: the roster has {self._names(found[0])}")
            return
        self.violations.append(f"{verb}: rosters differ: {found}")

    @staticmethod
    def _names(roster: dict[str, Any]) -> list[str]:
        return [each["name"] for each in roster["daemons"]]


async def kill_at_each_step(cluster: GrowingCluster, times: int, seed: int) -> dict[str, Any]:
    """Kill daemons `times` times at each step; return the result."""
    kills = Kills(cluster, seed)
    await kills.start()
    for comes in [name for name in cluster.daemons if name not in STAY]:
        if all(kills.least(verb)[0] >= times for verb in STEPS):
            break
        for verb in STEPS:
            await kills.kill(verb, kills.least(verb)[1], comes)
    rare = [step for step, number in kills.kills.items() if number < times]
    missed = [f"{step}: {kills.kills[step]} kills instead of {times}" for step in rare]
    return {"kills": kills.kills, "violations": [*kills.violations, *missed]}


async def kill_in_clusters(times: int, seed: int, clusters: int) -> dict[str, Any]:
    """Kill daemons `times` times at each step, in several clusters at once; return the result.

    Each cluster has a process of its own, as commands write to the output of their process.
    """
    kills: Counter[str] = Counter()
    violations: list[str] = []

    async def kill(share: int, seed: int) -> None:
        words = ["--daemons", "0", "--clusters", "1", "--kills", f"{share}", "--seed", f"{seed}"]
        command = [sys.executable, "-m", PACKAGE, "growing", *words]
        ended = await trio.run_process(command, capture_stdout=True, check=False)
        found = json.loads(ended.stdout.splitlines()[-1])
        kills.update(found.get("figures", {}).get("kills", {}))
        violations.extend(found["violations"])

    async with trio.open_nursery() as nursery:
        for number in range(clusters):
            share = (times + number) // clusters
            if share:
                nursery.start_soon(kill, share, seed + number)
    return {"kills": dict(kills), "violations": violations}


async def kill_in_one(times: int, seed: int) -> dict[str, Any]:
    """Kill daemons `times` times at each step, in one cluster; return the result."""
    more = [f"d{number}" for number in range(times * PAIRS + SPARE)]
    async with _ended(make_cluster([*STAY, *more])) as cluster:
        return await kill_at_each_step(cluster, times, seed)


def make_cluster(names: Sequence[str]) -> GrowingCluster:
    """Return daemons that do not run; each file lists the first daemon and its own one."""
    return GrowingCluster({name: (names[0], name) for name in names})


@campaign(
    option("daemons", 9, "0: no growth, only kills"),
    option("rate", 1000.0, "messages a second of all"),
    option("kills", 3, "kills at each step"),
    option("clusters", 4, "clusters with kills at once"),
    option("seed", 1),
)
async def run(options: Namespace) -> Found:
    """Run both parts; return the result."""
    names = string.ascii_lowercase[: options.daemons]
    found: dict[str, Any] = {"violations": []}
    if options.daemons > len(STAY):
        async with _ended(make_cluster(names)) as cluster:
            found = await grow(cluster, names, options.rate)
    if options.kills:
        if options.clusters > 1:
            killed = await kill_in_clusters(options.kills, options.seed, options.clusters)
        else:
            killed = await kill_in_one(options.kills, options.seed)
        found["kills"] = killed["kills"]
        found["violations"] = [*found["violations"], *killed["violations"]]
    return found


class _ended:
    """A cluster that ends with the block, and is not started at its beginning."""

    def __init__(self, cluster: GrowingCluster) -> None:
        self._cluster = cluster

    async def __aenter__(self) -> GrowingCluster:
        return self._cluster

    async def __aexit__(self, *_: object) -> None:
        self._cluster.close()
