"""Daemons of which one runs with another file, started in every order: views, programs, words.

    python -m tests.verification.campaigns differing_files --seconds 20

The file of b does not list a; those of a and c list all three, as when a host is added one by one.
Checked for each order: no view in steady state, all programs admitted and served by their daemon's
own view, each tool names the file, the key and the host, and SIGTERM ends all within its bound.
"""

import json
import signal
from argparse import Namespace
from itertools import permutations
from typing import Final

import attrs
import trio

from groupcomm.errors import GroupCommError
from groupcomm.events import Message
from groupcomm_client import connect
from groupcomm_tools.local_cluster import LocalCluster, LocalDaemon
from tests.groupcommd.hosts import run as command
from tests.verification.campaigns.runner import Found, campaign, option

NAMES: Final = "abc"
KEY: Final = "sites.main.daemons"
BETWEEN_S: Final = 0.5
"""From one start to the next."""

BOUND_S: Final = 8.0
"""From SIGTERM to the end: the default of leave_timeout_s, and three seconds."""

PATIENCE_S: Final = 20.0


@attrs.frozen(kw_only=True)
class Played:
    """The results of one order of starts.

    Attributes:
        order: the order of the starts.
        views: the view of each daemon in the end.
        views_a_minute: the views that all daemons together installed in steady state.
        admitted: the number of programs, of three, that were admitted and got their own messages.
        sigterm_s: the time until all had ended.
        statuses: the exit statuses.
        log, status, doctor: the texts of each daemon's tools about files.
        wrong: the violated expectations.
    """

    order: str
    views: dict[str, str]
    views_a_minute: float
    admitted: int
    sigterm_s: float
    statuses: dict[str, int]
    log: dict[str, str]
    status: dict[str, str]
    doctor: dict[str, str]
    wrong: tuple[str, ...]


class Stage:
    """The daemons of one order."""

    def __init__(self) -> None:
        self.cluster = LocalCluster(NAMES)
        lines = self.cluster.config.read_text().splitlines()
        small = self.cluster.folder / "small.toml"
        small.write_text("\n".join(line for line in lines if not line.startswith("a = ")))
        self.files = dict.fromkeys(NAMES, self.cluster.config) | {"b": small}
        for name, file in self.files.items():
            self.cluster[name]._config = file

    async def start(self, order: str) -> None:
        """Start the daemons in turn, and wait until each has a view and has named the
        differences."""
        for name in order:
            await self.cluster[name].start()
            await trio.sleep(BETWEEN_S)
        with trio.fail_after(PATIENCE_S):
            while not (self._has_views() and all(self.words(name) for name in NAMES)):
                await trio.sleep(0.02)

    def _has_views(self) -> bool:
        views = [self.cluster[name].view[1] for name in NAMES]
        return views == [("a", "c"), ("b",), ("a", "c")]

    def words(self, name: str) -> str:
        """Return the last line of a daemon's log that names the file that counts."""
        lines = [line for line in self.cluster[name].lines() if "differ" in line]
        return lines[-1]["text"] if lines and lines[-1]["differ"]["counts"] != "open" else ""

    def installed(self) -> int:
        """Return the number of views that all daemons have logged."""
        return sum("view" in line for name in NAMES for line in self.cluster[name].lines())

    async def admits(self, name: str) -> bool:
        """Return whether a program is admitted and gets its own message to a group."""
        try:
            with trio.fail_after(PATIENCE_S):
                async with connect(str(self.cluster[name].unix)) as program:
                    await program.join("g")
                    await program.multicast("g", b"x")
                    async for event in program:
                        if isinstance(event, Message):
                            return True
        except (GroupCommError, trio.TooSlowError):
            return False
        return False

    async def status(self, name: str) -> str:
        """Return the text of `groupcomm status` about files."""
        _, told, _ = await command("status", "--json", *self._address(name))
        return " ".join(
            f"{each['text']}: {each['remedy']}" for each in json.loads(told)["files"]["differ"]
        )

    async def doctor(self, name: str) -> str:
        """Return the text of `groupcomm doctor` about files."""
        where = ("--config", str(self.files[name]), "--name", name)
        _, told, _ = await command("doctor", "--json", *where, *self._address(name))
        found = [each for each in json.loads(told)["findings"] if each["check"] == "files"]
        return " ".join(f"{each['text']}: {each['remedy']}" for each in found)

    def _address(self, name: str) -> tuple[str, str]:
        return "--address", str(self.cluster[name].unix)

    async def end(self) -> float:
        """Have all daemons leave; return the seconds until all have ended."""
        began = trio.current_time()
        for daemon in self.cluster.daemons.values():
            daemon.signal(signal.SIGTERM)
        for daemon in self.cluster.daemons.values():
            await daemon.ended()
        return trio.current_time() - began

    def missing(self, name: str, words: str) -> list[str]:
        """Return the missing words in a tool's text at one host: file, key, and the other host."""
        others = "ac" if name == "b" else "b"
        wanted = [str(self.files[name]), KEY, *(f"{other} (127." for other in others)]
        return [each for each in wanted if each not in words]


async def play(order: str, seconds: float) -> Played:
    """Play one order of starts; watch the steady state for `seconds`."""
    stage = Stage()
    try:
        await stage.start(order)
        before = stage.installed()
        await trio.sleep(seconds)
        views = stage.installed() - before
        admitted = [await stage.admits(name) for name in NAMES]
        tools = {
            "log": {name: stage.words(name) for name in NAMES},
            "status": {name: await stage.status(name) for name in NAMES},
            "doctor": {name: await stage.doctor(name) for name in NAMES},
        }
        members = {name: ",".join(stage.cluster[name].view[1]) for name in NAMES}
        sigterm_s = await stage.end()
        statuses = {name: status_of(stage.cluster[name]) for name in NAMES}
        wrong = [
            f"{tool} at {name} does not say {lacks}: {words[name]}"
            for tool, words in tools.items()
            for name in NAMES
            if (lacks := stage.missing(name, words[name]))
        ]
        if views:
            wrong.append(f"{views} views in {seconds:g} s of steady state")
        if not all(admitted):
            wrong.append(f"programs admitted: {admitted}")
        if sigterm_s > BOUND_S or any(statuses.values()):
            wrong.append(f"SIGTERM took {sigterm_s:.1f} s, with the statuses {statuses}")
        return Played(
            order=order,
            views=members,
            views_a_minute=views * 60 / seconds,
            admitted=sum(admitted),
            sigterm_s=round(sigterm_s, 2),
            statuses=statuses,
            wrong=tuple(wrong),
            **tools,
        )
    finally:
        stage.cluster.close()


def status_of(daemon: LocalDaemon) -> int:
    """Return the exit status of a daemon that has ended."""
    process = daemon._process
    assert process is not None
    return process.wait()


@campaign(
    option("seconds", 10.0, "of steady state, each order"),
    option("orders", tuple(map("".join, permutations(NAMES))), "of starts"),
)
async def run(options: Namespace) -> Found:
    """Play all orders, one after the other."""
    found = [await play(order, options.seconds) for order in options.orders]
    wrong = [f"{each.order}: {what}" for each in found for what in each.wrong]
    return {"orders": [attrs.asdict(each) for each in found], "violations": wrong}
