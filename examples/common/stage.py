"""Daemons and programs as processes, and a network between the daemons that loses and delays."""

import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from groupcomm.errors import ConfigError, GroupCommError
from groupcomm.sim.faults.faults import Faults
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.relay import Line, Relay
from groupcommd.config.config_file import read_addresses

ROOT: Final = Path(__file__).parents[2]
NAMES: Final = ("alfa", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel")


class ProgramEnded(GroupCommError):
    """A program ended before it printed what was expected."""


@attrs.frozen(kw_only=True)
class Network:
    """The network between the daemons.

    Attributes:
        loss: probability that a datagram is lost, 0 to 1.
        delay_s: delay of one way, of every datagram.
        packet_bytes: size of a datagram.
        seed: seed of the losses.
        relayed: datagrams go through the relay even if it would do nothing.
    """

    loss: float = 0.0
    delay_s: float = 0.0
    packet_bytes: int = 1340
    seed: int = 1
    relayed: bool = False

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.loss <= 1:
            raise ConfigError(f"--loss is {self.loss}; it must be 0 to 1")
        if self.delay_s < 0:
            raise ConfigError(f"--delay-ms is {self.delay_s * 1000:g}; it must be at least 0")

    @property
    def settings(self) -> str:
        """Return the settings of the daemons: slow paths need suitable timings."""
        preset = "wan" if self.delay_s > 0.02 else "lan"
        return f'packet_bytes = {self.packet_bytes}\npreset = "{preset}"'


@asynccontextmanager
async def open_daemons(count: int, network: Network) -> AsyncIterator[LocalCluster]:
    """Run daemons in one view; datagrams are lost only from then on.

    The relay runs in this process, which must not keep the processor busy.

    Raises:
        ClusterError: the daemons do not start, or do not find each other.
        ConfigError: there are too few or too many daemons.
    """
    if not 1 <= count <= len(NAMES):
        raise ConfigError(f"--daemons is {count}; it must be 1 to {len(NAMES)}")
    names = NAMES[:count]
    if not (network.loss or network.delay_s or network.relayed):
        async with LocalCluster(names, network.settings) as cluster:
            await cluster.settle(names)
            yield cluster
        return
    async with relayed(names, network) as (cluster, relay):
        relay.suffer(Faults(loss=network.loss))
        yield cluster


@asynccontextmanager
async def relayed(
    names: Sequence[str], network: Network
) -> AsyncIterator[tuple[LocalCluster, Relay]]:
    """Run daemons in one view, with a relay between them that only delays so far."""
    with tempfile.TemporaryDirectory() as folder:
        via = Path(folder) / "via.json"
        cluster = LocalCluster(names, network.settings, options=("--via", str(via)))
        line = Line(delay_s=network.delay_s)
        relay = Relay(read_addresses(cluster.config), seed=network.seed, line=line)
        relay.write(via)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(relay.run)
            async with cluster:
                await cluster.settle(names)
                yield cluster, relay
            nursery.cancel_scope.cancel()


class Program:
    """A process that reads and writes lines of JSON."""

    def __init__(self, process: trio.Process, name: str) -> None:
        self.name = name
        self._process = process
        self._rest = b""

    async def told(self) -> Any:
        """Return the next message of the program.

        Raises:
            ProgramEnded: it has ended.
        """
        assert self._process.stdout is not None
        while b"\n" not in self._rest:
            chunk = await self._process.stdout.receive_some()
            if not chunk:
                status = await self._process.wait()
                raise ProgramEnded(f"program {self.name} has ended too early, status {status}")
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def kill(self) -> None:
        """End it at once, as by ``kill -9``."""
        self._process.kill()

    async def tell(self, what: object) -> None:
        """Send a message to the program."""
        assert self._process.stdin is not None
        await self._process.stdin.send_all(json.dumps(what).encode() + b"\n")


@asynccontextmanager
async def program(
    module: str, name: str, *arguments: str, prefix: Sequence[str] = ()
) -> AsyncIterator[Program]:
    """Run a module as a process, which ends with the block.

    Args:
        module: a module with a function `main`.
        name: the name of the program.
        arguments: the arguments of its command line.
        prefix: begins a command line that runs it elsewhere.
    """
    process = await trio.lowlevel.open_process(
        [*prefix, sys.executable, "-m", module, "--name", name, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        process_group=0,  # ^C goes to the starting process, which ends this one
    )
    try:
        yield Program(process, name)
    finally:
        if process.poll() is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdin.aclose()
            await process.stdout.aclose()


def tell(what: object) -> None:
    """Write a message, in such a program."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def told() -> Any:
    """Wait for a message, in such a program."""
    return json.loads(await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True))
