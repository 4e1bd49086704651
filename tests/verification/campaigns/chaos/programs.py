"""Programs of the campaign as processes, and their reports."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from groupcomm_tools.local_cluster import LocalDaemon, lines_of
from tests.verification.campaigns.chaos.hosts import forget_clocks

PROGRAM: Final = Path(__file__).with_name("program.py")


@attrs.frozen(kw_only=True)
class Load:
    """The load of the programs.

    Attributes:
        sessions: the sessions of each program.
        rate: the messages a second of all programs together.
        steady: sessions stay for ever, in the groups that they have joined.
    """

    sessions: int = 2
    rate: float = 1800.0
    steady: bool = False


@attrs.define
class SessionSeen:
    """The latest notices of one open session.

    Attributes:
        views: all views of daemons, with the times of their notices, microseconds.
        groups: the members of each of its groups.
        lost: the times at which members were seen to have gone for good, by name.
    """

    views: list[tuple[tuple[str, ...], int]] = attrs.field(factory=list)
    groups: dict[str, frozenset[str]] = attrs.field(factory=dict)
    lost: dict[str, int] = attrs.field(factory=dict)

    def note(self, name: str, group: str, members: frozenset[str], at: int) -> None:
        """Note the members of a group."""
        for gone in self.groups.pop(group, frozenset()) - members:
            self.lost[gone] = at
        if name in members:
            self.groups[group] = members


class ProgramProcess:
    """One process with some sessions at one daemon.

    Attributes:
        daemon: the daemon of its sessions.
        open: its open sessions by identity.
        over: sessions that have ended, in order or with their daemon.
        heard, sent: messages, of all its lives.
    """

    def __init__(
        self,
        daemon: LocalDaemon,
        load: Load,
        share: float,
        trace: Path,
        *,
        prefix: Sequence[str] = (),
    ) -> None:
        """It has this share of the whole load; `prefix` begins its command line."""
        self.daemon = daemon
        self._prefix = prefix
        self.sessions = load.sessions
        self._options = ("--steady",) if load.steady else ()
        self.open: dict[str, SessionSeen] = {}
        self.over: set[str] = set()
        self.heard = self.sent = 0
        self._lived = (0, 0)
        self._life = 0
        self._rate = load.rate * share / load.sessions
        self._trace = trace
        self._process: trio.Process | None = None
        self._ended = trio.Event()

    @property
    def name(self) -> str:
        """Return the prefix of this life; its sessions' users begin with it."""
        return f"{self.daemon.name}{self._life}"

    async def start(self, nursery: trio.Nursery, seed: str) -> None:
        """Start it, for the first time or anew."""
        self._life += 1
        self._lived = (self.heard, self.sent)
        self.open, self.over = {}, set()
        self._process = await trio.lowlevel.open_process(
            [
                *(*self._prefix, sys.executable, str(PROGRAM), "--address", str(self.daemon.unix)),
                *("--name", self.name, "--sessions", str(self.sessions)),
                *("--rate", str(self._rate), "--trace", str(self._trace)),
                *("--seed", f"{seed} {self.name}"),
                *self._options,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._ended = trio.Event()
        nursery.start_soon(self._read, self._process, self._ended)

    async def _read(self, process: trio.Process, ended: trio.Event) -> None:
        assert process.stdout is not None
        try:
            async with process.stdout:
                async for line in lines_of(process.stdout):
                    self._note(json.loads(line))
        finally:
            ended.set()

    def _note(self, told: dict[str, Any]) -> None:
        match told:
            case {"open": identity}:
                self.open.setdefault(identity, SessionSeen())
            case {"over": identity}:
                self.open.pop(identity, None)
                self.over.add(identity)
            case {"session": identity, "view": daemons, "at": at}:
                if identity in self.open:
                    self.open[identity].views.append((tuple(daemons), at))
            case {"session": identity, "group": group, "members": members, "at": at}:
                if identity in self.open:
                    name = identity.partition("/")[0]
                    self.open[identity].note(name, group, frozenset(members), at)
            case {"heard": heard, "sent": sent}:
                self.heard, self.sent = self._lived[0] + heard, self._lived[1] + sent
            case _:
                pass

    def is_in(self, daemons: tuple[str, ...]) -> bool:
        """Return whether all its sessions are open and have this view as their last one."""
        return len(self.open) == self.sessions and all(
            seen.views and seen.views[-1][0] == daemons for seen in self.open.values()
        )

    def notified_at(self, daemons: tuple[str, ...], since: int) -> int:
        """Return the time at which all sessions that were open at `since` had been told; `since` if
        none was told later."""
        there = [seen.views for seen in self.open.values() if seen.views[0][1] < since]
        told = [[at for view, at in views if view == daemons and at >= since] for views in there]
        return max((times[0] for times in told if times), default=since)

    def views_with(self, prefix: str) -> Iterator[tuple[bool, int]]:
        """Yield for each open session whether a group has a member with this prefix, and the time
        at which one left."""
        for seen in self.open.values():
            members = frozenset[str]().union(*seen.groups.values())
            left = [at for name, at in seen.lost.items() if name.startswith(prefix)]
            yield any(name.startswith(prefix) for name in members), max(left, default=0)

    async def say(self, line: str) -> None:
        """Give it an order."""
        assert self._process is not None
        assert self._process.stdin is not None
        await self._process.stdin.send_all(line.encode() + b"\n")

    def signal(self, number: signal.Signals) -> None:
        """Send its process a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> list[str]:
        """End it at once; return the sessions that this breaks off, by their traces."""
        await self.end()
        broken = []
        for path in self._trace.glob(f"session-%23{self.name}.*.jsonl"):
            with path.open("rb") as file:
                identity = json.loads(file.readline())["c"]
            if identity not in self.over:
                broken.append(identity)
        return broken

    async def end(self) -> None:
        """Kill it; return when all its reports were noted."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.kill()
        with trio.CancelScope(shield=True):
            await self._process.wait()
            forget_clocks([self._process.pid])
            await self._process.stdin.aclose()
            await self._ended.wait()
