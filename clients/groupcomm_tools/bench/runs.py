"""One run of the benchmark: daemons, senders and receivers as processes, and the resources that
they used.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

import cattrs
import trio

from groupcomm.errors import GroupCommError
from groupcomm_client.credentials import CA_VARIABLE, TOKEN_VARIABLE
from groupcomm_tools.bench.figures import CpuUse, Figures, figures_of
from groupcomm_tools.bench.plan import Plan, members_of, topology_of
from groupcomm_tools.certificates import issue, make_authority
from groupcomm_tools.local_cluster import LocalCluster, LocalDaemon
from groupcomm_tools.relay import Relay
from groupcomm_tools.topology import Topology
from groupcommd.config.config_file import read_addresses
from groupcommd.programs.token_file import add_token

TLS_HOST: Final = "127.0.0.1"
_VALID_DAYS: Final = 1.0


@contextmanager
def over_tls(folder: Path) -> Iterator[str]:
    """Yield settings for the daemons' `[clients]`, with which programs started now connect by
    TLS.
    """
    ca, _ = make_authority(folder, _VALID_DAYS)
    certificate, key = issue(folder, "daemon", [TLS_HOST], _VALID_DAYS)
    tokens = folder / "bench.tokens"
    told = {CA_VARIABLE: str(ca), TOKEN_VARIABLE: add_token(tokens, "bench")}
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        yield (
            f'tls = {{address = "{TLS_HOST}:0", certificate = "{certificate}", key = "{key}"}}\n'
            f'tokens = "{tokens}"\n'
        )
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


START_S: Final = 30.0
IDLE_START_S: Final = 60.0
FINISH_S: Final = 20.0
"""Seconds after the end of the senders; messages that have not come by then are lost."""

_CLIENTS: Final = 'slow_receivers = "block"'
"""Senders go as fast as the slowest receiver, from the first message on."""

_TIMING: Final = "{token_timeout_s = 2.0}"
"""A busy machine stops a daemon for some tenths of a second now and then. The other daemons must
not take it for dead: messages sent while they are apart would count as lost.
"""

Command: TypeAlias = Sequence[str]

_PROGRAM: Final = (sys.executable, "-m", "groupcomm_tools.bench.programs")

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Program:
    """A program that prints lines of JSON and reads lines of text."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self._buffer = b""

    async def read(self) -> dict[str, Any]:
        """Return the next line that the program prints.

        Raises:
            GroupCommError: the program has ended instead.
        """
        assert self.process.stdout is not None
        while b"\n" not in self._buffer:
            more = await self.process.stdout.receive_some()
            if not more:
                raise GroupCommError(
                    f"a program of the benchmark ended with status {await self.process.wait()};"
                    " its error stands above"
                )
            self._buffer += more
        line, self._buffer = self._buffer.split(b"\n", 1)
        found: dict[str, Any] = json.loads(line)
        return found

    async def write(self, line: str = "") -> None:
        """Write a line to the input of the program."""
        assert self.process.stdin is not None
        with suppress(trio.BrokenResourceError):
            await self.process.stdin.send_all(line.encode() + b"\n")

    async def end(self) -> None:
        """End the program if it has not ended, and release its resources."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.kill()
        with trio.CancelScope(shield=True):
            await self.process.wait()
            await self.process.stdin.aclose()
            await self.process.stdout.aclose()


def cpu_s(pid: int) -> float:
    """Return the processor seconds that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


@asynccontextmanager
async def open_daemons(plan: Plan) -> AsyncIterator[tuple[list[str], list[int]]]:
    """Run daemons on this host; yield where programs connect, and the daemons' process numbers."""
    topology = topology_of(plan)
    settings = f'preset = "local"\npacket_bytes = {plan.packet_bytes}\ntiming = {_TIMING}\n'
    with TemporaryDirectory(prefix="groupcomm-") as folder, ExitStack() as stack:
        clients = _CLIENTS
        if plan.tls:
            clients += "\n" + stack.enter_context(over_tls(Path(folder)))
        if not plan.encryption:
            settings += "insecure = true\n"
        if plan.spin:
            settings += "spin = true\n"
        via = Path(folder) / "via.json"
        cluster = LocalCluster(
            topology.daemons,
            settings + topology.settings(plan.packet_bytes),
            clients=clients,
            options=("--via", str(via)) if plan.sites > 1 else (),
            tcp=not plan.unix,
            sites=topology.sites,
        )
        async with _relaying(cluster, topology, via), cluster:
            await cluster.settle(topology.daemons)
            members = [cluster[name] for name in members_of(plan)]
            addresses = [_address(each, plan) for each in members]
            async with _idle(plan, addresses):
                yield addresses, [each.pid for each in cluster.daemons.values()]


def _address(daemon: LocalDaemon, plan: Plan) -> str:
    if plan.unix:
        return str(daemon.unix)
    return f"tls://{daemon.tls}" if plan.tls else daemon.tcp


@asynccontextmanager
async def _relaying(cluster: LocalCluster, topology: Topology, via: Path) -> AsyncIterator[None]:
    """Run a relay between the sites, if there are several; daemons of one site communicate
    directly.
    """
    if not topology.links:
        yield
        return
    relay = Relay(read_addresses(cluster.config), lines=topology.lines())
    relay.write(via)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(relay.run)
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _idle(plan: Plan, addresses: Sequence[str]) -> AsyncIterator[None]:
    """Run programs that are connected and do nothing."""
    if not plan.idle_sessions:
        yield
        return
    numbers = str(plan.idle_sessions), str(plan.idle_groups)
    module = (*_PROGRAM, "idle")
    program = await _program((*module, json.dumps(list(addresses)), *numbers))
    try:
        with trio.fail_after(IDLE_START_S):
            await program.read()
        yield
    finally:
        await program.end()


async def measure(plan: Plan, addresses: Sequence[str], daemons: Sequence[int]) -> Figures:
    """Run senders and receivers against daemons; return the figures.

    Args:
        plan: parameters of the run.
        addresses: addresses of the daemons, used in turn.
        daemons: process numbers of the daemons on this host; empty if they run elsewhere.

    Raises:
        GroupCommError: a program ends, or is not ready in time.
    """
    return await measure_programs(plan, *commands(plan, addresses), daemons)


def commands(plan: Plan, addresses: Sequence[str]) -> tuple[list[Command], list[Command]]:
    """Return the command lines of the receivers and of the senders."""
    told = json.dumps(cattrs.unstructure(plan))
    receivers: list[Command] = [
        (*_PROGRAM, "receive", _place(addresses, index), told) for index in range(plan.receivers)
    ]
    senders: list[Command] = [
        (*_PROGRAM, "send", _place(addresses, index), str(index), told)
        for index in range(plan.senders)
    ]
    return receivers, senders


async def measure_programs(
    plan: Plan, receiving: Sequence[Command], sending: Sequence[Command], daemons: Sequence[int]
) -> Figures:
    """Run any programs that read and print like those of the benchmark; return the figures.

    Args:
        plan: parameters of the run.
        receiving, sending: the command lines of the receivers and the senders.
        daemons: the process numbers of the daemons whose processor time counts.

    Raises:
        GroupCommError: a program ends, or is not ready in time.
    """
    async with AsyncExitStack() as stack:
        receivers, senders = [], []
        for command in receiving:
            receivers.append(await _program(command))
            stack.push_async_callback(receivers[-1].end)
        for command in sending:
            senders.append(await _program(command))
            stack.push_async_callback(senders[-1].end)
        with trio.fail_after(START_S + len(receiving) + len(sending)):
            names = [(await each.read())["ready"] for each in senders]
            for each in receivers:
                await each.read()
                await each.write(json.dumps(names))
        pids = {
            "daemons": list(daemons),
            "senders": [each.process.pid for each in senders],
            "receivers": [each.process.pid for each in receivers],
        }
        for each in senders:
            await each.write("go")
        await trio.sleep(plan.warm_up_s)
        began, used = time.monotonic_ns(), _cpu(pids)
        await trio.sleep(plan.duration_s)
        ended = time.monotonic_ns()
        cpu = {kind: now - used[kind] for kind, now in _cpu(pids).items()}
        for each in senders:
            await each.write("stop")
        sent = [await each.read() for each in senders]
        reports = await _reports(receivers)
        for each in senders:
            await each.write("bye")
    return figures_of(plan, (began, ended), CpuUse(**cpu), sent, reports)


async def _reports(receivers: Sequence[Program]) -> list[dict[str, Any]]:
    """Return the reports of receivers; after a while, tell those that still wait to give up."""
    reports: list[dict[str, Any]] = [{} for _ in receivers]

    async def read(index: int) -> None:
        with trio.move_on_after(FINISH_S):
            reports[index] = await receivers[index].read()
        if not reports[index]:
            await receivers[index].write("give up")
            reports[index] = await receivers[index].read()

    async with trio.open_nursery() as nursery:
        for index in range(len(receivers)):
            nursery.start_soon(read, index)
    return reports


def _cpu(pids: dict[str, list[int]]) -> dict[str, float]:
    return {kind: sum(map(cpu_s, found)) for kind, found in pids.items()}


def _place(addresses: Sequence[str], index: int) -> str:
    return addresses[index % len(addresses)]


async def _program(command: Command) -> Program:
    pipe = subprocess.PIPE
    return Program(await trio.lowlevel.open_process(command, stdin=pipe, stdout=pipe))
