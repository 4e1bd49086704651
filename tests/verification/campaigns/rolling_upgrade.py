"""A rolling upgrade with real daemons of two releases, and back, under load.

    python -m tests.verification.campaigns rolling_upgrade --daemons 3 --rounds 1 --first earlier

The earlier release is built from its commit (releases.py beside it); the later one is this
tree. All daemons run the first one of both; then each is drained and comes back with the other one,
in turn, and afterwards with the first one again. Programs of both releases are connected to
daemons of both: they send at all reliable levels and move when their daemon stops. Checked: every
view uses the version that all its members speak; no program gets an AGREED or SAFE message twice,
out of order or with a gap while it stays; no move leaves a message in doubt; no daemon blames
another one. Besides, senders with exactly_once send once all daemons know lines, and not before.
The checkers verify the traces of all daemons and sessions. Every wait has an end, with
an error that says what has not happened; then all programs and daemons are ended. Ends with a line
of JSON.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from groupcomm.config.versions import SPOKEN, feature_names
from groupcomm.errors import GroupCommError
from groupcomm_client import connect
from groupcomm_tools.local_cluster import ClusterError, LocalCluster, LocalDaemon
from groupcomm_tools.terminal import say
from tests.verification.campaigns.programs import DidNotHappen, bounded, until
from tests.verification.campaigns.releases import HistoryMissing, Release, earlier_release
from tests.verification.campaigns.rolling_senders import OnceSender
from tests.verification.campaigns.runner import Found, NotHere, campaign, option
from tests.verification.campaigns.traces import check

GROUP: Final = "load"
ONCE: Final = 3
"""The senders with exactly_once."""

PROGRAM: Final = Path(__file__).with_name("rolling_program.py")
EARLIER: Final = "earlier"
ORDERED: Final = ("AGREED", "SAFE")
WITHIN_S: Final = 20.0
CALM_S: Final = 0.5
START_S: Final = 60.0
"""The time for a start, and for a view: an earlier release has no warm start, and a busy machine
takes some ten times as long for it.
"""

READY_S: Final = 30.0
"""The time for a program to connect and join."""

REPORT_S: Final = 60.0
"""The time for a program to end: longer than it gives its last calls."""

_INCARNATION: Final = re.compile(rb'("[a-z0-9]+/[0-9]+)\.[0-9a-f]{8}(?=")')
"""The end of the identity of a start, as later releases have it in traces."""

BLAMES: Final = ("break the protocol", "contradict", "is left out", "cannot read")
"""Parts of log lines that no release may cause at another one."""

TIMING: Final = "[timing]\ntoken_timeout_s = 2.0\ngather_wait_s = 1.0\n"
"""A busy machine ends no view, and leaves no daemon out of the next one: a program that stays at
such a daemon misses what the others send meanwhile, as in any part of a network.
"""

LATER: Final = Release(name="this tree", python=sys.executable, highest=SPOKEN.highest)


@attrs.define
class Figures:
    """The results so far.

    Attributes:
        steps: the daemons that have changed their release.
        longest_step_s: the longest time for a step, from the drain to the view with all daemons.
        views: the number of views that daemons have logged.
        reports: the reports of the programs at their end.
        once: the messages of the senders with exactly_once, and how often they were in doubt.
        violations: what must not be.
    """

    steps: int = 0
    longest_step_s: float = 0.0
    views: int = 0
    reports: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    once: dict[str, int] = attrs.field(factory=dict)
    violations: list[str] = attrs.field(factory=list)


class RollingUpgrade:
    """One cluster whose daemons change their release in turn.

    Args:
        cluster: its daemons, which do not run yet.
        earlier: the other release than this tree.
        traces: the folder of all traces.
        options: `first`, `programs`, `rounds` and `rate`.
    """

    def __init__(
        self, cluster: LocalCluster, earlier: Release, traces: Path, options: Namespace
    ) -> None:
        self._cluster = cluster
        self._names = sorted(cluster.daemons)
        self._earlier = earlier
        self._traces = traces
        self._options = options
        both = (earlier, LATER)
        self._turns = both if options.first == EARLIER else both[::-1]
        self._running = dict.fromkeys(self._names, self._turns[0])
        self._over = trio.Event()
        self.senders = [OnceSender(f"once{number}") for number in range(ONCE)]
        self.figures = Figures()

    async def run(self) -> None:
        """Start all, change the release of each, and back; then end the programs and judge them.

        Raises:
            GroupCommError: something has not happened in time, within exception groups.
        """
        first, second = self._turns
        for name in self._names:
            await self._start(name, first)
        await self._cluster.settle(self._names, START_S)
        async with trio.open_nursery() as nursery:
            for number in range(self._options.programs):
                await nursery.start(self._program, number)
            async with trio.open_nursery() as senders:
                for number, sender in enumerate(self.senders):
                    where = (self._addresses(number), GROUP, self._traces, self._options.rate)
                    senders.start_soon(sender.run, *where)
                await self._check_senders()
                for _ in range(self._options.rounds):
                    for release in (second, first):
                        for name in self._names:
                            await self._change(name, release)
                            await self._check_senders()
                senders.cancel_scope.cancel()
            await trio.sleep(CALM_S)
            self._over.set()
        self._judge()
        self._judge_senders()

    # ---- daemons ----

    async def _start(self, name: str, release: Release) -> None:
        self._running[name] = release
        daemon: LocalDaemon = self._cluster[name]
        daemon._prefix = release.prefix
        try:
            await daemon.start(START_S)
        except ClusterError as error:
            used_s = f"{processor_s(daemon.pid):.1f}" if daemon.running else "an unknown number of"
            raise ClusterError(
                f"{release.name}: {error}; after {START_S:g} s it has used {used_s} seconds of a"
                " processor"
            ) from None

    async def _change(self, name: str, release: Release) -> None:
        """Drain a daemon, and start it with another release."""
        begun = time.monotonic()
        daemon = self._cluster[name]
        with bounded(f"{name} answers, and begins its drain"):
            async with connect(str(daemon.unix), user="operator") as connection:
                await connection.ask(f"drain {WITHIN_S} operator")
                await until(f"{name} ends its drain", lambda: not daemon.running, 2 * WITHIN_S)
        if status := await daemon.ended():
            self.figures.violations.append(f"{name} was drained, and ended with {status}")
        self._note_blame(daemon)
        await self._cluster.settle([other for other in self._names if other != name], START_S)
        await self._start(name, release)
        await self._cluster.settle(self._names, START_S)
        self.figures.steps += 1
        self.figures.longest_step_s = max(self.figures.longest_step_s, time.monotonic() - begun)
        await self._check_version()
        say(json.dumps({"step": f"{name}: {release.name}"}))

    async def _check_version(self) -> None:
        """Compare what daemons of this tree use with the version and features that all have."""
        expected = min(release.highest for release in self._running.values())
        features = SPOKEN.features if self._earlier not in self._running.values() else 0
        for name, release in self._running.items():
            if release is not LATER:
                continue
            with bounded(f"{name} answers about its status"):
                async with connect(str(self._cluster[name].unix), user="looker") as connection:
                    found = (await connection.ask("status"))["protocol"]["view"]
            if found != {"version": expected, "features": feature_names(features)}:
                running = {each: found.name for each, found in self._running.items()}
                self.figures.violations.append(
                    f"{name} uses {found}, not version {expected} with the features"
                    f" {feature_names(features)}; there are {running}"
                )

    def _note_blame(self, daemon: LocalDaemon) -> None:
        for line in daemon.lines():
            if any(part in line["text"] for part in BLAMES):
                self.figures.violations.append(f"{daemon.name} says: {line['text']}")

    def note_logs(self) -> None:
        """Note the accusations in the logs of the daemons as they run now, and all views."""
        views = set()
        for daemon in self._cluster.daemons.values():
            self._note_blame(daemon)
            views |= {line["view"] for line in daemon.lines() if "daemons" in line}
        self.figures.views = len(views)

    # ---- programs ----

    async def _program(self, number: int, *, task_status: trio.TaskStatus[None]) -> None:
        """Run a program of one of both releases until the end; note its report."""
        release = (self._earlier, LATER)[number % 2]
        user, addresses = f"p{number}", self._addresses(number // 2)
        command = [release.python, "-I", str(PROGRAM), addresses, user, str(self._options.rate)]
        process = await trio.lowlevel.open_process(
            [*command, str(self._traces)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self._cluster.folder,
        )
        try:
            with bounded(f"program {user} has joined", READY_S):
                await self._read_ready(process, user)
            task_status.started()
            await self._over.wait()
            with bounded(f"program {user} has ended and reported", REPORT_S):
                await self._read_report(process, user)
        finally:
            process.kill()  # does nothing to one that has ended
            with trio.CancelScope(shield=True):
                for end in (process.stdin, process.stdout):
                    assert end is not None
                    await trio.aclose_forcefully(end)
                await process.wait()

    def _addresses(self, number: int) -> str:
        """Return the addresses of all daemons, beginning with one of them."""
        at = number % len(self._names)
        names = self._names[at:] + self._names[:at]
        return ",".join(str(self._cluster[name].unix) for name in names)

    async def _check_senders(self) -> None:
        """Wait until all send if all daemons have lines; else see that nobody sends."""
        if self._earlier not in self._running.values():
            for sender in self.senders:
                await sender.until_it_sends()
            return
        await trio.sleep(CALM_S)
        before = [sender.count for sender in self.senders]
        await trio.sleep(CALM_S)
        if before != [sender.count for sender in self.senders]:
            text = "senders with exactly_once send beside daemons of the earlier release"
            self.figures.violations.append(text)

    def _judge_senders(self) -> None:
        """Note what senders have sent, and whether they were told why they could not."""
        doubts = sum(len(sender.doubts) for sender in self.senders)
        self.figures.once = {"sent": sum(s.count for s in self.senders), "in_doubt": doubts}
        told = {text for sender in self.senders for text in sender.told}
        begins_earlier = self._turns[0] is self._earlier
        if begins_earlier and not any("earlier release" in text for text in told):
            self.figures.violations.append("no sender was told of the earlier release")

    async def _read_ready(self, process: trio.Process, user: str) -> None:
        assert process.stdout is not None
        output = b""
        while not output.endswith(b"ready\n"):
            got = await process.stdout.receive_some()
            if not got:
                raise DidNotHappen(f"program {user} has ended before it has joined: {output!r}")
            output += got

    async def _read_report(self, process: trio.Process, user: str) -> None:
        """End a program, and note its report."""
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.aclose()
        output = b""
        async for part in process.stdout:
            output += part
        if await process.wait():
            self.figures.violations.append(f"program {user} ends with {process.returncode}")
        else:
            self.figures.reports[user] = json.loads(output)

    def _judge(self) -> None:
        """Judge what the programs have received."""
        for at, report in self.figures.reports.items():
            if report["in_doubt"]:
                text = f"{report['in_doubt']} messages of {at} are in doubt after its moves"
                self.figures.violations.append(text)
            for of, stays in report["segments"].items():
                sender, level = of.split()
                what = f"{sender}'s {level} messages at {at}"
                if any(len(set(stay)) < len(stay) for stay in stays):
                    self.figures.violations.append(f"{what}: some came twice")
                if level not in ORDERED:
                    continue
                for stay in stays:
                    if (wrong := first_gap(stay)) is not None:
                        text = f"{what}: {stay[wrong]} is followed by {stay[wrong + 1 : wrong + 4]}"
                        self.figures.violations.append(text)
                whole = [number for stay in stays for number in stay]
                if whole != sorted(set(whole)):
                    self.figures.violations.append(f"{what}: came again after a move")
                theirs = self.figures.reports.get(sender)
                if theirs is not None and whole[-1] != theirs["sent"][level] - 1:
                    self.figures.violations.append(f"{what}: the last ones are missing")


def processor_s(pid: int) -> float:
    """Return the seconds of a processor that a process has used: few, if it hangs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def first_gap(numbers: Sequence[int]) -> int | None:
    """Return the index of the first number that the next one does not follow; None without one."""
    for at, (number, following) in enumerate(pairwise(numbers)):
        if following != number + 1:
            return at
    return None


def check_releases(traces: Path) -> list[str]:
    """Have the checkers verify the traces; return what is wrong.

    Earlier releases name a start of a daemon by its number alone; here no two starts of one have
    the same number.
    """
    for path in traces.glob("*.jsonl"):
        path.write_bytes(_INCARNATION.sub(rb"\1", path.read_bytes()))
    return check(traces)


def summary(figures: Figures) -> dict[str, Any]:
    """Return the results as JSON."""
    reports = figures.reports.values()
    return {
        "steps": figures.steps,
        "programs": len(reports),
        "sent": sum(sum(report["sent"].values()) for report in reports),
        "received": sum(
            sum(map(len, stays)) for report in reports for stays in report["segments"].values()
        ),
        "moves": sum(report["moves"] for report in reports),
        "views": figures.views,
        "once": figures.once,
        "longest_silent_s": max((report["silent_s"] for report in reports), default=0.0),
        "longest_step_s": round(figures.longest_step_s, 2),
        "violations": figures.violations,
    }


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """Yield the errors in a group and in its groups."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


async def roll(earlier: Release, folder: Path, options: Namespace) -> Figures:
    """Run a rolling upgrade and the way back; return the results.

    Args:
        earlier: the release to begin with.
        folder: an empty folder for traces.
        options: `first`, `daemons`, `programs`, `rounds` and `rate`.
    """
    names = [f"d{number}" for number in range(options.daemons)]
    cluster = LocalCluster(names, options=("--trace", str(folder)))
    text = cluster.config.read_text().replace("[clients]", f"{TIMING}\n[clients]")
    cluster.config.write_text(text)
    try:
        upgrade = RollingUpgrade(cluster, earlier, folder, options)
        try:
            await upgrade.run()
        except* GroupCommError as errors:
            upgrade.figures.violations += map(str, leaves(errors))
        upgrade.note_logs()
        for daemon in cluster.daemons.values():
            if daemon.running:
                await daemon.leave()
    finally:
        cluster.close()
    upgrade.figures.violations += check_releases(folder)
    return upgrade.figures


@campaign(
    option("first", EARLIER, "what all begin with", choices=(EARLIER, "later")),
    option("daemons", 3),
    option("programs", 6),
    option("rounds", 1, "up and back"),
    option("rate", 50.0, "messages a second of each"),
    option("traces", text="keep the traces in this folder, which is empty"),
    option("release", "first", "the earlier release"),
)
async def run(options: Namespace) -> Found:
    """Run it if the history of the repository is here."""
    kept = options.traces
    with (
        tempfile.TemporaryDirectory(prefix="release-") as built,
        nullcontext(kept) if kept else tempfile.TemporaryDirectory(prefix="rolling-") as traces,
    ):
        try:
            earlier = earlier_release(options.release, Path(built))
        except HistoryMissing as error:
            raise NotHere(str(error)) from error
        return summary(await roll(earlier, Path(traces), options))
