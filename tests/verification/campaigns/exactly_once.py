"""Senders whose messages come exactly once, while daemons and senders are killed.

    python -m tests.verification.campaigns exactly_once --kills 60 --seed 7

It takes some 3 s for each kill, alone on a machine. Many kills are best made in pieces of about 60,
each with a seed of its own, as a failure can be seen again that much sooner.

Of three daemons one is killed at a time, and started again; a reader and an archive stay at the
third. Some senders are tasks here, with ``exactly_once=True``; others are processes with an outbox,
and are killed, too, often at once with their daemon. In the end the reader must have got each
message of each sender once, in order, and the archive each AGREED and SAFE one that is in no gap of
it (on a busy host its daemon may be alone for a moment), as a subscriber reads its history, and as
Spark reads its log. Ends with a line of JSON.
"""

from argparse import Namespace
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import attrs
import trio

import groupcomm_spark
from groupcomm.errors import GroupCommError
from groupcomm_client import EARLIEST, CaughtUp, Gap, Message, Position, ServiceLevel, connect
from groupcomm_spark.session import open_session
from groupcomm_tools.local_cluster import LocalCluster
from tests.groupcomm_client.history.archives import ArchiveProcess
from tests.verification.campaigns.programs import Program, bounded, until
from tests.verification.campaigns.runner import Found, campaign, option

DAEMONS: Final = "abc"
GROUP: Final = "g"
MODULE: Final = "tests.verification.campaigns.exactly_once_program"


@attrs.define
class Figures:
    """The results so far."""

    kills: dict[str, int] = attrs.field(factory=lambda: defaultdict(int))
    sent: dict[str, int] = attrs.field(factory=dict)
    got: dict[str, list[int]] = attrs.field(factory=lambda: defaultdict(list))
    archived: dict[str, list[int]] = attrs.field(factory=lambda: defaultdict(list))
    logged: dict[str, list[int]] = attrs.field(factory=lambda: defaultdict(list))
    agreed: dict[str, list[tuple[Position, int]]] = attrs.field(factory=lambda: defaultdict(list))
    gaps: list[Gap] = attrs.field(factory=list)
    violations: list[str] = attrs.field(factory=list)


class Campaign:
    """One cluster, its senders, and who kills them."""

    def __init__(self, cluster: LocalCluster, folder: Path, options: Namespace) -> None:
        self._cluster, self._folder, self._options = cluster, folder, options
        self._rng = Random(options.seed)
        self._over = False
        self._programs: dict[str, Program] = {}
        self.figures = Figures()

    def _address(self, number: int) -> str:
        """Return the addresses of the daemons that are killed, one of them first."""
        names = "ab" if number % 2 else "ba"
        return ",".join(str(self._cluster[name].unix) for name in names)

    async def run(self) -> None:
        """Send, kill, and wait until the reader has everything."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._read)
            for number in range(self._options.programs):
                nursery.start_soon(self._send, f"t{number}", number)
            for number in range(self._options.processes):
                user = f"p{number}"
                options = ("--address", self._address(number), "--user", user)
                outbox = ("--outbox", str(self._folder / user), "--rate", str(self._options.rate))
                self._programs[user] = Program(MODULE, (*options, *outbox))
                await self._programs[user].start(nursery)
            while sum(self.figures.kills.values()) < self._options.kills:
                await trio.sleep(self._rng.uniform(0.2, 1.0))
                await self._kill(nursery)
            self._over = True
            for user, program in self._programs.items():
                with bounded(f"the end of {user}"):
                    status = await program.end()
                assert not status, f"{user} ends with {status}"
                self.figures.sent[user] = program.lines[-1]["stored"]
            await until("all senders have ended", lambda: self._done)
            with suppress(GroupCommError):
                await until("the reader has the last messages", self._has_all, 30.0)
            nursery.cancel_scope.cancel()

    async def _kill(self, nursery: trio.Nursery) -> None:
        """Kill a daemon, a sender, or both; start them again."""
        what = self._rng.choice(("daemon", "sender", "both"))
        name = self._rng.choice("ab")
        user = self._rng.choice(list(self._programs))
        if what != "sender":
            self._cluster[name].kill()
            self.figures.kills["daemons"] += 1
        if what != "daemon":
            await self._programs[user].kill()
            self.figures.kills["senders"] += 1
            await trio.sleep(self._rng.choice((0.0, 0.3)))
            await self._programs[user].start(nursery)
        if what != "sender":
            await trio.sleep(self._rng.choice((0.0, 0.5)))
            await self._cluster[name].start()
            await self._cluster.settle(DAEMONS)

    async def _read(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with connect(str(self._cluster["c"].unix), user="reader") as connection:
            await connection.join(GROUP)
            task_status.started()
            async for message in connection.messages():
                user, _, number = message.data.decode().partition(" ")
                self.figures.got[user].append(int(number))
                if message.level >= ServiceLevel.AGREED and message.position is not None:
                    self.figures.agreed[user].append((message.position, int(number)))

    async def _send(self, user: str, first: int) -> None:
        levels = (ServiceLevel.FIFO, ServiceLevel.AGREED, ServiceLevel.CAUSAL, ServiceLevel.SAFE)
        address, number = self._address(first), 0
        async with connect(address, user=user, reconnect=True, exactly_once=True) as connection:
            while not self._over:
                level = levels[number // 5 % len(levels)]
                await connection.multicast(GROUP, f"{user} {number}".encode(), level=level)
                number += 1
                await trio.sleep(1 / self._options.rate)
        self.figures.sent[user] = number

    @property
    def _done(self) -> bool:
        return bool(len(self.figures.sent) == self._options.programs + self._options.processes)

    def _has_all(self) -> bool:
        got, sent = self.figures.got, self.figures.sent
        return all(len(got[user]) >= count for user, count in sent.items())

    async def read_archive(self) -> None:
        """Read the history of the group from its beginning."""
        async with (
            connect(str(self._cluster["c"].unix)) as connection,
            connection.subscribe(GROUP, start=EARLIEST) as subscription,
        ):
            async for event in subscription:
                if isinstance(event, CaughtUp):
                    return
                if isinstance(event, Gap):
                    self.figures.gaps.append(event)
                if isinstance(event, Message) and event.level >= ServiceLevel.AGREED:
                    user, _, number = event.data.decode().partition(" ")
                    self.figures.archived[user].append(int(number))

    def read_log(self, folder: Path) -> None:
        """Read the log of the archive, which has ended, with Spark; in its order."""
        spark = open_session()
        rows = groupcomm_spark.read(spark, str(folder)).where("kind = 'message'")
        agreed = rows.where(rows.level.isin("AGREED", "SAFE"))
        for row in agreed.orderBy("epoch", "row").selectExpr("string(data)").collect():
            user, _, number = row[0].partition(" ")
            self.figures.logged[user].append(int(number))
        spark.stop()

    def _kept(self, user: str) -> list[int]:
        """Return what the archive must have of a sender: all agreed ones but those in its gaps."""
        gaps = [(gap.after, gap.upto) for gap in self.figures.gaps]
        return [
            number
            for place, number in self.figures.agreed[user]
            if not any((after is None or after < place) and place < upto for after, upto in gaps)
        ]

    def judge(self) -> None:
        """Note what is lost, doubled, or out of order."""
        figures = self.figures
        for user, count in figures.sent.items():
            for who, numbers, wanted in (
                ("the reader", figures.got[user], list(range(count))),
                ("the archive", figures.archived[user], self._kept(user)),
                ("Spark", figures.logged[user], self._kept(user)),
            ):
                if numbers != wanted:
                    lost = sorted(set(wanted) - set(numbers))[:5]
                    doubled = sorted({n for n in numbers if numbers.count(n) > 1})[:5]
                    text = f"{user}: {who} has {len(numbers)} of {len(wanted)} messages"
                    figures.violations.append(f"{text}; lost {lost}, doubled {doubled}")


@campaign(
    option("kills", 100, "kills of daemons and senders"),
    option("programs", 4, "senders that are tasks here"),
    option("processes", 4, "senders with an outbox, in processes of their own"),
    option("rate", 50.0, "messages a second of each"),
    option("seed", 1, "seed of what is killed when"),
)
async def run(options: Namespace) -> Found:
    """Run it; return the results."""
    with TemporaryDirectory(prefix="once-") as folder:
        async with LocalCluster(DAEMONS) as cluster:
            await cluster.settle(DAEMONS)
            campaign = Campaign(cluster, Path(folder), options)
            store = Path(folder) / "archive"
            with ArchiveProcess(str(cluster["c"].unix), store, [GROUP]) as archive:
                await trio.to_thread.run_sync(archive.until_live)
                try:
                    await campaign.run()
                    with bounded("the history is read"):
                        await campaign.read_archive()
                except* GroupCommError as errors:
                    campaign.figures.violations += map(str, errors.exceptions)
            await trio.to_thread.run_sync(campaign.read_log, store)
        campaign.judge()
    figures = campaign.figures
    return {
        "killed": dict(figures.kills),
        "sent": sum(figures.sent.values()),
        "received": sum(map(len, figures.got.values())),
        "archived": sum(map(len, figures.archived.values())),
        "logged": sum(map(len, figures.logged.values())),
        "gaps_of_the_archive": len(figures.gaps),
        "violations": figures.violations,
    }
