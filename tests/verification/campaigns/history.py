"""A subscriber and archives that are killed again and again, while the network is parted and mends.

    python -m tests.verification.campaigns history --rounds 200

Checked: what the subscriber has given over all of its lives is the line, exactly, as observers at
all daemons have seen it; each message of which a program was told that a majority of disks has it
is there, once and in its place; and archives that are left agree. Ends with a line of JSON.
"""

import json
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from groupcomm.clocks.stamp import Position, parse_position
from groupcomm.errors import SessionEnded
from groupcomm.level import ServiceLevel
from groupcomm_client.blocking import connect
from groupcomm_client.history.given import Gap
from groupcomm_client.history.keeping import NotKept
from groupcomm_tools.event_text import position_text
from groupcomm_tools.running_cluster import RunningCluster
from groupcomm_tools.terminal import say
from tests.groupcomm_client.history.archives import ArchiveProcess
from tests.groupcomm_client.history.lines import Deliveries, Reference, Seen, keys_of
from tests.verification.campaigns.runner import Found, campaign, option

NAMES: Final = "abc"
GROUP: Final = "orders"
STARTED_S: Final = 180.0
"""The time in which an archive starts and catches up, also on a busy machine."""

LIFE_S: Final = (0.05, 1.5)
"""The life of a subscriber, from its first event."""

PARTED_S: Final = 5.0
"""The longest time of a partition."""

REST_S: Final = 90.0
KEPT_S: Final = 10.0
PAUSE_S: Final = 0.05
ARCHIVES: Final = ("--archives", str(len(NAMES)))
LAST: Final = "the end"


class Observing:
    """A member at one daemon that keeps all that is delivered to it."""

    def __init__(self, address: str) -> None:
        self.deliveries = Deliveries(1)
        self._block = connect(address)
        self.connection = self._block.__enter__()
        self.connection.join(GROUP)
        self.fault: str | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                for event in self.connection.receive_batch():
                    self.deliveries.add(event)
        except SessionEnded as error:
            if error.code:
                self.fault = f"an observer was cut off: {error}"

    def close(self) -> None:
        self._block.__exit__(None, None, None)
        self._thread.join()


class Sending:
    """A sender at one daemon."""

    def __init__(self, address: str, rate: float, seed: int) -> None:
        self.sent = 0
        self._address, self._rate, self._rng = address, rate, Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        rng = self._rng
        with connect(self._address) as connection, suppress(SessionEnded):
            while not self._over.is_set():
                count = rng.randint(1, 20)
                level = rng.choice([ServiceLevel.AGREED] * 9 + [ServiceLevel.SAFE])
                data = [f"{connection.name} {self.sent + n}".encode() for n in range(count)]
                connection.multicast_many(GROUP, data, level=level)
                self.sent += count
                self._over.wait(count / self._rate)

    def close(self) -> None:
        self._over.set()
        self._thread.join()


class Keeping:
    """A program at one daemon whose messages are to be kept by a majority of archives.

    Attributes:
        kept: what identifies the messages that were said to be kept.
        in_doubt: the number of those of which that is unknown.
    """

    def __init__(self, address: str) -> None:
        self.kept: list[Seen] = []
        self.in_doubt = 0
        self._address = address
        self._over, self._begun = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._begun.wait()

    def _run(self) -> None:
        with (
            connect(self._address, reconnect=True) as connection,
            connection.keeping() as each,
        ):
            self._begun.set()
            for number in count():
                if self._over.is_set():
                    return
                data = f"kept {connection.name} {number}"
                try:
                    kept = each.multicast(GROUP, data.encode(), within_s=KEPT_S)
                    self.kept.append((kept.position, f"message {data}"))
                except NotKept:
                    self.in_doubt += 1
                    self._over.wait(PAUSE_S)

    def close(self) -> None:
        self._over.set()
        self._thread.join()


class Reading:
    """The lives of one subscriber.

    Attributes:
        keys: what identifies the events that it has given, in order.
        gaps: the gaps that it has told.
        position: where its next life begins.
        lives: the number of its lives.
    """

    def __init__(self) -> None:
        self.keys: list[Seen] = []
        self.gaps: list[Gap] = []
        self.position: Position | None = None
        self.lives = self.caught_up = 0
        self.is_at_end = False

    def start(self, address: str) -> subprocess.Popen[str]:
        start = "earliest" if self.position is None else position_text(self.position)
        assert start is not None
        self.lives += 1
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "groupcomm_tools.cli", "history", "read", GROUP),
                *("--json", "--stable", "--start", start, "--address", address),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )

    def live(self, address: str, seconds: float | None) -> None:
        """Live at a daemon for some time, or until the end of all messages."""
        process = self.start(address)
        killers = [threading.Timer(REST_S, process.kill)]
        killers[0].start()
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                if seconds is not None and len(killers) == 1:
                    killers.append(threading.Timer(seconds, process.kill))
                    killers[1].start()
                if line.endswith("\n"):  # else it was killed as it printed this
                    self._note(json.loads(line))
                if self.is_at_end:
                    process.kill()
        process.wait()
        for killer in killers:
            killer.cancel()

    def _note(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "message":
                if event["position"] is None:
                    return
                place = parse_position(event["position"])
                self._add((place, f"message {event['data']}"))
                self.is_at_end = event["data"] == LAST
            case "group view":
                place = parse_position(event["position"])
                self._add((place, f"view of {event['group']}: {' '.join(event['members'])}"))
            case "gap":
                after = None if event["after"] is None else parse_position(event["after"])
                self.gaps.append(Gap(after=after, upto=parse_position(event["upto"])))
                self.position = self.gaps[-1].upto
            case "caught up":
                self.caught_up += 1
                self.position = parse_position(event["position"])
            case _:
                pass

    def _add(self, key: Seen) -> None:
        self.keys.append(key)
        self.position = key[0]


class Campaign:
    """The cluster, its archives and one subscriber, and what happens to them.

    Attributes:
        reading: the subscriber.
        kills: the number of archives that were killed.
        partitions: the number of partitions.
    """

    def __init__(self, cluster: RunningCluster, folder: Path, rng: Random) -> None:
        self.reading = Reading()
        self.kills = self.partitions = 0
        self._cluster = cluster
        self._folder = folder
        self._rng = rng
        self._address = {name: cluster.address(name) for name in NAMES}
        self._archives = {name: self._archive(name) for name in NAMES}
        for archive in self._archives.values():
            archive.until_live(STARTED_S)

    def _archive(self, name: str) -> ArchiveProcess:
        return ArchiveProcess(self._address[name], self._folder / name, [GROUP], *ARCHIVES)

    def round(self, victim: str) -> None:
        """Let the subscriber live for a while, and kill an archive meanwhile."""
        rng = self._rng
        if rng.random() < 0.3:
            alone = rng.choice(NAMES)
            self._cluster.partition(alone, NAMES.replace(alone, ""))
            self.partitions += 1
        where, seconds = self._address[rng.choice(NAMES)], rng.uniform(*LIFE_S)
        life = threading.Thread(target=self.reading.live, args=(where, seconds))
        life.start()
        time.sleep(rng.uniform(0, LIFE_S[1]))
        self._archives[victim].kill()
        self.kills += 1
        life.join(PARTED_S)
        self._cluster.heal()  # a subscriber at the daemon that is alone gets nothing before
        life.join()
        self._archives[victim] = self._archive(victim)
        self._archives[victim].until_live(STARTED_S)

    def finish(self) -> None:
        """Have the subscriber read up to the last message of all."""
        self._cluster.settle()
        with connect(self._address["a"]) as connection:
            connection.multicast_ordered(GROUP, LAST.encode(), level=ServiceLevel.SAFE)
        self.reading.live(self._address["b"], None)

    def close(self) -> None:
        """End all archives."""
        for archive in self._archives.values():
            archive.kill()


@campaign(
    option("rounds", 20),
    option("rate", 600.0, "messages a second, of all"),
    option("seed", 1),
)
def run(options: Namespace) -> Found:
    """Run it; return the results."""
    rng, rounds = Random(options.seed), options.rounds
    with (
        TemporaryDirectory(prefix="groupcomm-") as folder,
        RunningCluster(NAMES, relay=True, seed=options.seed) as cluster,
        ExitStack() as stack,
    ):
        observers = [Observing(cluster.address(name)) for name in NAMES]
        campaign = Campaign(cluster, Path(folder), rng)
        stack.callback(campaign.close)
        reading = campaign.reading
        senders = [
            Sending(cluster.address(name), options.rate / 3, options.seed + n)
            for n, name in enumerate(NAMES)
        ]
        keeping = [Keeping(cluster.address(name)) for name in NAMES]
        for number in range(rounds):
            campaign.round(NAMES[number % len(NAMES)])
            say(
                f"{number + 1} of {rounds}: {len(reading.keys)} events,"
                f" {len(reading.gaps)} gaps, caught up {reading.caught_up} times"
            )
        for program in senders:
            program.close()
        for each in keeping:
            each.close()
        campaign.finish()
        for observer in observers:
            observer.close()
    violations = [observer.fault for observer in observers if observer.fault]
    violations += check(reading, observers)
    kept = [key for each in keeping for key in each.kept]
    violations += check_kept(reading, kept)
    return {
        "rounds": rounds,
        "kills": campaign.kills,
        "partitions": campaign.partitions,
        "sent": sum(sender.sent for sender in senders),
        "events": len(reading.keys),
        "kept": len(kept),
        "in_doubt": sum(each.in_doubt for each in keeping),
        "caught_up": reading.caught_up,
        "gaps": len([gap for gap in reading.gaps if gap.after is not None]),
        "violations": violations,
    }


def check(reading: Reading, observers: list[Observing]) -> list[str]:
    """Return what is wrong with the events of the subscriber."""
    if not reading.is_at_end:
        return [f"the subscriber has not come to the end, but to {reading.position}"]
    reference = Reference(observer.deliveries for observer in observers)
    # The command prints no positions of views of daemons.
    daemons = {
        key
        for observer in reference.observers
        for view in reference.views
        for key in keys_of(observer.seen[view])
        if key[1].startswith("daemons ")
    }
    first = reading.keys[0][0]
    keys = sorted(set(reading.keys) | {key for key in daemons if key[0] >= first})
    doubled = len(reading.keys) - len(set(reading.keys))
    places = [key[0] for key in reading.keys]
    wrong = [f"{doubled} events came twice"] if doubled else []
    if places != sorted(places):
        wrong.append("the positions of the events fall")
    try:
        reference.check_keys(list(reading.gaps), keys, reading.position, stable=True)
    except AssertionError as error:
        wrong.append(str(error))
    return wrong


def check_kept(reading: Reading, kept: Sequence[Seen]) -> list[str]:
    """Return which messages that were said to be kept are missing, or there more than once."""
    found = Counter(reading.keys)
    lost = [key for key in kept if found[key] != 1]
    return [f"{len(lost)} kept messages are not there once, as {lost[0]}"] if lost else []
