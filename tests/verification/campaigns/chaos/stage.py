"""One round's cluster: daemons and programs as processes, a relay between the daemons, traces."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from groupcomm.errors import GroupCommError
from groupcomm.host.trace_file import TraceFile, now_us
from groupcomm.trace.events import Ask, Quiet
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.relay import Line, Relay
from groupcomm_tools.topology import Topology
from groupcommd.config.config_file import read_addresses
from tests.verification.campaigns.chaos.hosts import Host, forget_clocks, make_hosts
from tests.verification.campaigns.chaos.programs import Load, ProgramProcess
from tests.verification.campaigns.consistency.programs import ObjectPrograms
from tests.verification.campaigns.traces import note_kill

PATIENCE_S: Final = 30.0
LOOK_S: Final = 0.01
QUIET_S: Final = 1.5
"""The silence after which programs have received all messages."""


class DidNotConverge(GroupCommError):
    """An awaited event has not come."""


class Stage:
    """All processes of a round.

    Attributes:
        cluster: the daemons.
        relay: the relay between them.
        programs: the programs by the name of their daemon.
        topology: the sites of the daemons.
        names: the names of all daemons.
        hosts: their hosts.
        tracebacks: what logs have that they must not; once all is over.
        objects: the programs that use shared objects; None without any.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        relay: Relay,
        trace: Path,
        seed: str,
        topology: Topology,
        hosts: Mapping[str, Host] | None = None,
    ) -> None:
        self.cluster = cluster
        self.relay = relay
        self.hosts = dict(hosts or {})
        self.topology = topology
        self.names = topology.daemons
        self.programs: dict[str, ProgramProcess] = {}
        self.tracebacks: list[str] = []
        self.objects: ObjectPrograms | None = None
        self._folder = trace
        self._trace = TraceFile(trace / "harness.jsonl")
        self._seed = seed

    def others(self, *victims: str) -> list[str]:
        """Return all daemons but these."""
        return [name for name in self.names if name not in victims]

    async def start_programs(self, nursery: trio.Nursery, load: Load) -> None:
        """One at each daemon."""
        self._nursery = nursery
        for name in self.names:
            share = 1 / len(self.names)
            program = ProgramProcess(
                self.cluster[name], load, share, self._folder, prefix=self.hosts[name].clock
            )
            self.programs[name] = program
            await program.start(nursery, self._seed)

    async def until(self, what: str, ready: object) -> None:
        """Wait until something is so.

        Raises:
            DidNotConverge: it is not, for long.
        """
        assert callable(ready)
        with trio.move_on_after(PATIENCE_S):
            while not ready():
                await trio.sleep(LOOK_S)
            return
        raise DidNotConverge(f"after {PATIENCE_S:g} s not yet: {what}")

    async def view(self, names: Sequence[str], since: int) -> float:
        """Wait until all programs of these daemons are told of one view with exactly these.

        Returns:
            The milliseconds from `since` until all sessions that were open then had been told.
        """
        daemons = tuple(sorted(names))
        programs = [self.programs[name] for name in daemons]
        await self.until(f"one view of {', '.join(daemons)}", lambda: _all_in(programs, daemons))
        return (max(p.notified_at(daemons, since) for p in programs) - since) / 1000

    async def replicated(self, names: Sequence[str]) -> None:
        """Wait until the programs of these daemons have the state of the shared objects."""
        if self.objects is not None:
            await self.objects.ready(names, now_us())

    async def gone(self, user: str, since: int) -> float:
        """Wait until no group of any open session has members with this prefix.

        Returns:
            Milliseconds from `since` until the last session knew that they had gone.
        """
        last = since

        def is_gone() -> bool:
            nonlocal last
            views = [view for p in self.programs.values() for view in p.views_with(f"#{user}.")]
            last = max([last, *(gone_at for _, gone_at in views)])
            return not any(is_there for is_there, _ in views)

        await self.until(f"{user} is gone from all groups", is_gone)
        return (last - since) / 1000

    async def kill_daemon(self, name: str) -> int:
        """Kill it by SIGKILL; return the time, once its programs know."""
        at = now_us()
        self.cluster[name].kill()
        await self.note_end(name)
        return at

    async def note_end(self, name: str) -> None:
        """Record the end of a daemon that has ended, and wait until its programs know."""
        note_kill(self._trace, self._folder, name)
        forget_clocks([self.cluster[name].pid])
        await self.lost(name)

    async def leave(self, name: str) -> None:
        """Have a daemon leave in order.

        Raises:
            DidNotConverge: it took too long: it left without order, or was killed.
        """
        status = await self.cluster[name].leave()
        forget_clocks([self.cluster[name].pid])
        if status:
            note_kill(self._trace, self._folder, name)
            raise DidNotConverge(f"{name} was to leave in order, and ended with status {status}")

    async def lost(self, name: str) -> None:
        """Wait until the programs of a daemon know that it has ended."""
        program = self.programs[name]
        await self.until(f"programs of {name} know that it ended", lambda: not program.open)

    async def kill_program(self, name: str) -> float:
        """Kill -9 the program of a daemon; milliseconds until its groups know. It comes back."""
        program = self.programs[name]
        at, user = now_us(), program.name
        for identity in await program.kill():
            self._trace.record(Ask(now_us(), identity, "crash", "", 0))
        program.open = {}
        took = await self.gone(user, at)
        await program.start(self._nursery, self._seed)
        return took

    async def settle(self) -> None:
        """End the load, and wait until every program has received all messages."""
        for program in self.programs.values():
            await program.say("stop")
        await self.view(self.names, now_us())
        heard, since = -1, trio.current_time()
        with trio.move_on_after(PATIENCE_S):
            while trio.current_time() - since < QUIET_S:
                await trio.sleep(LOOK_S)
                now_heard = sum(program.heard for program in self.programs.values())
                if now_heard != heard:
                    heard, since = now_heard, trio.current_time()
        self._trace.record(Quiet(now_us()))

    async def close(self) -> None:
        """End all programs, and the trace."""
        for program in self.programs.values():
            await program.end()
        self._trace.close()
        for name in self.names:
            text = self.cluster[name].log.read_text()
            (self._folder / f"{name}.log").write_text(text)
            if "Traceback" in text:
                self.tracebacks.append(f"the log of {name} has a traceback")


def _all_in(programs: Sequence[ProgramProcess], daemons: tuple[str, ...]) -> bool:
    return all(program.is_in(daemons) for program in programs)


@asynccontextmanager
async def forgetting(cluster: LocalCluster) -> AsyncIterator[None]:
    """Clean up after the clocks of all daemons, once they have ended."""
    try:
        yield
    finally:
        forget_clocks([daemon.pid for daemon in cluster.daemons.values()])


@asynccontextmanager
async def open_stage(
    trace: Path, seed: str, load: Load, topology: Topology, within: Line | None = None
) -> AsyncIterator[Stage]:
    """Yield a cluster under load, in one view; its traces are written to a folder.

    Args:
        trace: the folder of the traces.
        seed: the seed of the load.
        load: the load of the programs.
        topology: the sites of the daemons.
        within: the line between daemons of one site; None if they communicate directly.
    """
    via = trace / "via.json"
    cluster = LocalCluster(
        topology.daemons,
        topology.settings(),
        sites=topology.sites,
    )
    hosts = make_hosts(cluster, ("--trace", str(trace), "--via", str(via)))
    relay = Relay(read_addresses(cluster.config), lines=topology.lines(within))
    relay.write(via)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(relay.run)
        async with forgetting(cluster), cluster:
            stage = Stage(cluster, relay, trace, seed, topology, hosts)
            try:
                await stage.start_programs(nursery, load)
                await stage.view(stage.names, now_us())
                yield stage
            finally:
                await stage.close()
                nursery.cancel_scope.cancel()
