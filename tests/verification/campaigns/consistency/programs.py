"""The programs that use shared objects, as processes, one at each daemon; and their record."""

import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from groupcomm.errors import GroupCommError
from groupcomm_tools.local_cluster import LocalDaemon, lines_of
from tests.verification.campaigns.chaos.hosts import forget_clocks
from tests.verification.campaigns.consistency.operations import Operation
from tests.verification.campaigns.consistency.verdict import Verdict, lost_jobs, verify

PROGRAM: Final = Path(__file__).with_name("program.py")
PATIENCE_S: Final = 60.0


class NotFinished(GroupCommError):
    """A program has not read all objects in the end, or jobs were not done."""


class ObjectPrograms:
    """All programs of a cluster, and what they have done so far."""

    def __init__(self) -> None:
        self._begun: dict[tuple[str, int], Operation] = {}
        self._processes: list[trio.Process] = []
        self._finished: set[str] = set()
        self._used: dict[str, int] = {}  # when each program last began an act that a replica did

    @property
    def operations(self) -> list[Operation]:
        """Return the record; what has no end has an unknown outcome."""
        return list(self._begun.values())

    async def start(
        self,
        nursery: trio.Nursery,
        daemon: LocalDaemon,
        seed: str,
        prefix: Sequence[str],
        *more: str,
    ) -> None:
        """Start the program of a daemon; `more` are further options."""
        command = [
            *(*prefix, sys.executable, str(PROGRAM), "--address", str(daemon.unix)),
            *("--name", daemon.name, "--seed", f"{seed} {daemon.name}"),
            *more,
        ]
        process = await trio.lowlevel.open_process(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._processes.append(process)
        nursery.start_soon(self._read, process, daemon.name)

    async def _read(self, process: trio.Process, name: str) -> None:
        assert process.stdout is not None
        async for line in lines_of(process.stdout):
            self._note(name, msgspec.json.decode(line))

    def _note(self, name: str, told: Mapping[str, Any]) -> None:
        match told:
            case {"n": number, "begin": begun}:
                self._begun[name, number] = Operation(**begun)
            case {"n": number, "end": ended}:
                done = msgspec.structs.replace(self._begun[name, number], **ended)
                self._begun[name, number] = done
                if done.object in ("register", "list") and done.outcome == "ok":
                    self._used[name] = max(done.call, self._used.get(name, 0))
            case {"finished": True}:
                self._finished.add(name)
            case _:
                pass

    async def ready(self, names: Sequence[str], since: int) -> None:
        """Wait until programs use replicated objects, so that each has their state.

        The state is that of the replicas. It is lost, as is said for them, if one after the other
        ends before the next one has it.

        Args:
            names: the programs.
            since: a use counts if it began at this time or later, in microseconds.

        Raises:
            NotFinished: some do not.
        """
        with trio.move_on_after(PATIENCE_S):
            while missing := [name for name in names if self._used.get(name, -1) < since]:
                await trio.sleep(0.01)
            return
        raise NotFinished(f"after {PATIENCE_S:g} s {', '.join(missing)} do not use objects")

    async def finish(self) -> Verdict:
        """Have all programs finish, and verify what they did.

        Raises:
            NotFinished: some did not.
        """
        for process in self._processes:
            assert process.stdin is not None
            await process.stdin.send_all(b"stop\n")
        with trio.move_on_after(PATIENCE_S):
            while len(self._finished) < len(self._processes):
                await trio.sleep(0.01)
            while lost_jobs(self.operations):
                await trio.sleep(0.1)
        if len(self._finished) < len(self._processes):
            raise NotFinished(
                f"after {PATIENCE_S:g} s only {sorted(self._finished)} have read all objects"
            )
        return verify(self.operations)

    async def close(self) -> None:
        """End all programs."""
        for process in self._processes:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
        forget_clocks([process.pid for process in self._processes])


@asynccontextmanager
async def open_programs(
    daemons: Mapping[str, LocalDaemon],
    seed: str,
    prefixes: Mapping[str, Sequence[str]],
    trace: Path,
) -> AsyncIterator[ObjectPrograms]:
    """Run a program at each daemon; its sessions are traced to a folder."""
    programs = ObjectPrograms()
    more = ("--trace", str(trace), "--replicas", str(len(daemons)))
    async with trio.open_nursery() as nursery:
        try:
            for name, daemon in daemons.items():
                await programs.start(nursery, daemon, seed, prefixes.get(name, ()), *more)
            yield programs
        finally:
            await programs.close()
            nursery.cancel_scope.cancel()
