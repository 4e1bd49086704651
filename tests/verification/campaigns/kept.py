"""Messages that are said to be kept, while archives, daemons and disks are lost and networks part.

    python -m tests.verification.campaigns kept --kills 100

Three daemons have an archive each. In an order that the seed gives, archives and daemons are killed
with SIGKILL, several at a time, and start again; daemons are cut off; and the folder of an archive
is removed while the other two have all, which is a disk less than a majority. Checked: each message
of which a program was told that a majority of disks has it is in the line that a reader gets in the
end, once and in its place; and so it is in the logs as Spark reads them, in each at most once. Ends
with a line of JSON.
"""

import shutil
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import groupcomm_spark
from groupcomm.clocks.stamp import parse_position
from groupcomm_client.blocking import connect
from groupcomm_client.history.keeping import NotKept
from groupcomm_spark.session import open_session
from groupcomm_tools.running_cluster import RunningCluster
from groupcomm_tools.terminal import say
from tests.groupcomm_client.history.archives import ArchiveProcess
from tests.groupcomm_client.history.lines import Seen
from tests.verification.campaigns.history import (
    ARCHIVES,
    GROUP,
    LAST,
    NAMES,
    STARTED_S,
    Keeping,
    Reading,
    check_kept,
)
from tests.verification.campaigns.runner import Found, campaign, option

CALM_S: Final = (0.0, 1.0)
"""The time between two troubles."""

LAST_S: Final = 60.0
"""The time in which the last message is kept, once all is well again."""


class Troubles:
    """The cluster, its archives, and what happens to them.

    Attributes:
        counts: how often what has happened.
    """

    def __init__(self, cluster: RunningCluster, folder: Path, rng: Random) -> None:
        self.counts: Counter[str] = Counter()
        self._cluster, self._folder, self._rng = cluster, folder, rng
        self._archives = {name: self._archive(name) for name in NAMES}
        self._until_live(NAMES)

    def _archive(self, name: str) -> ArchiveProcess:
        address = self._cluster.address(name)
        return ArchiveProcess(address, self._folder / name, [GROUP], *ARCHIVES)

    def _until_live(self, names: Iterable[str]) -> None:
        for name in names:
            self._archives[name].until_live(STARTED_S)

    def kill_archives(self) -> None:
        """Kill one, two or all archives, one after the other, and start them again."""
        victims = self._some()
        for name in victims:
            self._archives[name].kill()
            self._rest()
        for name in self._shuffled(victims):
            self._archives[name] = self._archive(name)
        self._until_live(victims)
        self.counts["archives"] += len(victims)

    def kill_daemons(self) -> None:
        """Kill one or two daemons, and start them again; their archives connect again."""
        victims = self._some()[:2]
        for name in victims:
            self._cluster.kill(name)
            self._rest()
        self._cluster.start(*victims)
        self.counts["daemons"] += len(victims)

    def cut_off(self) -> None:
        """Cut a daemon off, and kill an archive meanwhile."""
        alone, name = self._rng.choice(NAMES), self._rng.choice(NAMES)
        self._cluster.partition(alone, NAMES.replace(alone, ""))
        self._rest()
        self._archives[name].kill()
        self._rest()
        self._archives[name] = self._archive(name)
        self._rest()
        self._cluster.heal()
        self._until_live(name)
        self.counts["archives"] += 1
        self.counts["partitions"] += 1

    def lose_disk(self) -> None:
        """Remove the folder of an archive while the others have all; wait until it has it again."""
        self.mend()
        name = self._rng.choice(NAMES)
        self._archives[name].kill()
        shutil.rmtree(self._folder / name)
        archive = self._archives[name] = self._archive(name)
        archive.until(lambda: any(map(_is_caught_up, archive.reported)), STARTED_S)
        self.counts["archives"] += 1
        self.counts["disks"] += 1

    def mend(self) -> None:
        """Wait until all daemons are in one view, and a message is on all disks."""
        self._cluster.settle()
        limit = time.monotonic() + STARTED_S
        with connect(self._cluster.address("a")) as connection, connection.keeping() as sender:
            while True:
                try:
                    sender.multicast(GROUP, b"on all disks", copies=len(NAMES))
                except NotKept:
                    if time.monotonic() > limit:
                        raise
                else:
                    return

    def close(self) -> None:
        """End all archives."""
        for archive in self._archives.values():
            archive.kill()

    def _some(self) -> str:
        return "".join(self._shuffled(NAMES))[: self._rng.randint(1, len(NAMES))]

    def _shuffled(self, names: str) -> list[str]:
        return self._rng.sample(names, len(names))

    def _rest(self) -> None:
        time.sleep(self._rng.uniform(*CALM_S))


def _is_caught_up(told: dict[str, object]) -> bool:
    return told["event"] == "caught up"


@campaign(option("kills", 20, "of archives and daemons"), option("seed", 1))
def run(options: Namespace) -> Found:
    """Run it; return the results."""
    rng, reading = Random(options.seed), Reading()
    with (
        TemporaryDirectory(prefix="groupcomm-") as folder,
        RunningCluster(NAMES, relay=True, seed=options.seed) as cluster,
        ExitStack() as stack,
    ):
        troubles = Troubles(cluster, Path(folder), rng)
        stack.callback(troubles.close)
        usual: list[Callable[[], None]] = [troubles.kill_archives, troubles.kill_daemons]
        kinds = [*usual, *usual, troubles.cut_off, troubles.lose_disk]
        programs = [Keeping(cluster.address(name)) for name in NAMES]
        counts = troubles.counts
        while counts["archives"] + counts["daemons"] < options.kills:
            rng.choice(kinds)()
            cluster.settle()
            time.sleep(rng.uniform(*CALM_S))
            kept_so_far = sum(len(each.kept) for each in programs)
            say(f"{dict(counts)}: {kept_so_far} messages are kept")
        for each in programs:
            each.close()
        troubles.mend()
        with connect(cluster.address("a")) as connection, connection.keeping() as sender:
            sender.multicast(GROUP, LAST.encode(), copies=len(NAMES), within_s=LAST_S)
        reading.live(cluster.address("b"), None)
        troubles.close()
        kept = [key for each in programs for key in each.kept]
        violations = check_kept(reading, kept) + check_logs(Path(folder), kept)
    return {
        **{f"lost_{kind}": number for kind, number in counts.items()},
        "kept": len(kept),
        "in_doubt": sum(each.in_doubt for each in programs),
        "events": len(reading.keys),
        "gaps": len([gap for gap in reading.gaps if gap.after is not None]),
        "violations": violations + ([] if reading.is_at_end else ["the reader is not at the end"]),
    }


def check_logs(folder: Path, kept: list[Seen]) -> list[str]:
    """Return which kept messages Spark finds in no log, and which twice in one."""
    wanted = set(kept)
    spark = open_session()
    logs = groupcomm_spark.read(spark, str(folder / "*"))
    rows = logs.where("kind = 'message' AND data LIKE 'kept %'").selectExpr(
        "log",
        "concat(view, '/', concat_ws('.', stamp, ring, bundle, message)) AS place",
        "string(data) AS data",
    )
    found = Counter(
        (row.log, (parse_position(row.place), f"message {row.data}")) for row in rows.collect()
    )
    spark.stop()
    twice = sorted(f"{log}: {key}" for (log, key), times in found.items() if times > 1)
    lost = wanted - {key for _, key in found}
    wrong = [f"Spark finds {len(lost)} kept messages in no log, as {min(lost)}"] if lost else []
    if twice:
        wrong.append(f"Spark finds {len(twice)} messages twice in a log, as {twice[0]}")
    return wrong
