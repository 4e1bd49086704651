"""View changes of a flushed group, on real daemons and programs, checked by a checker.

All members send all the time. Programs join, leave, disconnect and are killed; daemons are killed
and started again; sometimes the next change comes before the last one is through. `make campaigns`
runs it.
"""

import json
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import trio

from groupcomm_tools.local_cluster import LocalCluster
from tests.verification.campaigns.flush.checker import Checker
from tests.verification.campaigns.runner import Found, campaign, option

PROGRAM = Path(__file__).with_name("member.py")
DAEMONS = "abc"
MEMBERS = (4, 8)
"""At least, and at most."""

PATIENCE_S = 30.0


class Failure(Exception):
    """A member does not do its work."""


class Program:
    """A member's process.

    Attributes:
        daemon: its daemon's name.
        name: its private name.
        joined: whether it was told that it is in the group.
    """

    def __init__(self, cluster: LocalCluster, daemon: str, user: str, folder: Path) -> None:
        self.daemon = daemon
        self.name = f"#{user}#{daemon}"
        self.joined = False
        self._record = folder / f"{user}.jsonl"
        self._errors = folder / f"{user}.err"
        self._events: list[dict[str, Any]] = []
        self._read = 0
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(cluster[daemon].unix), user, self._record],
                stdin=subprocess.PIPE,
                stderr=errors,
            )

    def command(self, order: str) -> None:
        """Have it join, leave or quit."""
        self.joined = order == "join"
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n".encode())
        self._process.stdin.flush()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Wait until it is gone."""
        self._process.wait(PATIENCE_S)
        assert self._process.stdin is not None
        self._process.stdin.close()

    @property
    def running(self) -> bool:
        """Return whether it lives."""
        return self._process.poll() is None

    def events(self) -> list[dict[str, Any]]:
        """Return its records by now; a line that a kill has cut short does not count."""
        if self._record.exists():
            with self._record.open() as file:
                file.seek(self._read)
                text = file.read()
            whole = text[: text.rfind("\n") + 1]
            self._read += len(whole)
            self._events += [json.loads(line) for line in whole.splitlines()]
        return self._events

    @property
    def members(self) -> frozenset[str]:
        """Return the members of its view."""
        for event in reversed(self.events()):
            if event["what"] in ("view", "left"):
                return frozenset(event.get("members", ()))
        return frozenset()

    @property
    def last_words(self) -> str:
        """Return its errors."""
        return self._errors.read_text().strip()[-500:]


class Campaign:
    """A group, and the changes made to it.

    Attributes:
        done: the number of changes of each kind.
    """

    def __init__(self, cluster: LocalCluster, folder: Path, seed: str) -> None:
        self._cluster = cluster
        self._folder = folder
        self._random = Random(seed)
        self._all: list[Program] = []
        self._here: list[Program] = []
        self.done: Counter[str] = Counter()

    def run(self, changes: int, kills: int) -> None:
        """Make this number of changes, of which some are kills of daemons, and wait for their end.

        Raises:
            Failure: the members do not come to one view, or one has ended by itself.
        """
        for _ in range(MEMBERS[0]):
            self._enter()
        self.settle()
        at = {changes * (n + 1) // (kills + 1) for n in range(kills)}
        for number in range(changes):
            if number in at:
                self._kill_a_daemon()
            else:
                self._change()
            if self._random.random() < 0.6:
                self.settle()
        self.settle()

    def records(self) -> dict[str, list[dict[str, Any]]]:
        """Return the records of all members, by name."""
        return {program.name: program.events() for program in self._all}

    def close(self) -> None:
        """End all programs."""
        for program in self._here:
            if program.running:
                program.kill()

    def settle(self) -> None:
        """Wait until exactly the present members are in one view of the group."""
        wanted = frozenset(program.name for program in self._here if program.joined)
        end = time.monotonic() + PATIENCE_S
        while late := [p for p in self._here if p.members != (wanted if p.joined else frozenset())]:
            for program in self._here:
                if not program.running:
                    raise Failure(f"{program.name} has ended: {program.last_words}")
            if time.monotonic() > end:
                seen = {program.name: sorted(program.members) for program in late}
                raise Failure(f"no view of {sorted(wanted)}; there is {seen}")
            time.sleep(0.01)

    # ---- changes ----

    def _change(self) -> None:
        joined = [program for program in self._here if program.joined]
        idle = [program for program in self._here if not program.joined]
        kinds = ["enter"] * (len(self._here) < MEMBERS[1]) + ["rejoin"] * 2 * bool(idle)
        if len(joined) > MEMBERS[0]:
            kinds += ["leave", "leave", "disconnect", "kill"]
        kind = self._random.choice(kinds or ["leave"])
        if kind == "enter":
            self._enter()
        elif kind == "rejoin":
            self._random.choice(idle).command("join")
        elif kind == "leave":
            self._random.choice(joined).command("leave")
        else:
            program = self._random.choice(joined)
            self._here.remove(program)
            if kind == "kill":
                program.kill()
            else:
                program.command("quit")
                program.close()
        self.done[kind] += 1

    def _enter(self) -> None:
        daemon = DAEMONS[len(self._all) % len(DAEMONS)]
        program = Program(self._cluster, daemon, f"m{len(self._all)}", self._folder)
        program.command("join")
        self._all.append(program)
        self._here.append(program)

    def _kill_a_daemon(self) -> None:
        """While a change may be under way; its programs end with it."""
        name = self._random.choice(DAEMONS)
        rest = DAEMONS.replace(name, "")
        self._cluster[name].kill()
        for program in [program for program in self._here if program.daemon == name]:
            program.close()
            self._here.remove(program)
        trio.run(self._cluster.settle, rest)
        trio.run(self._cluster[name].start)
        trio.run(self._cluster.settle, DAEMONS)
        self.done["kill a daemon"] += 1


@contextmanager
def checked(changes: int, kills: int, seed: str) -> Iterator[tuple[Campaign, Checker]]:
    """Run a campaign, and check the records of its members."""
    with tempfile.TemporaryDirectory(prefix="flush-") as name, closing(LocalCluster(DAEMONS)) as c:
        for daemon in DAEMONS:
            trio.run(c[daemon].start)
        trio.run(c.settle, DAEMONS)
        with closing(Campaign(c, Path(name), seed)) as campaign:
            campaign.run(changes, kills)
            yield campaign, Checker(campaign.records())


@campaign(option("changes", 120), option("kills", 4, "of daemons among them"), option("seed", "1"))
def run(options: Namespace) -> Found:
    """Run it; return what the checker has seen."""
    with checked(options.changes, options.kills, options.seed) as (changing, checker):
        return {
            "changes": dict(changing.done),
            "views": checker.views,
            "deliveries": checker.deliveries,
            "violations": checker.violations,
        }
