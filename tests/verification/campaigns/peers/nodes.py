"""Nodes on this host: namespaces with their own network and files, joined by a bridge, or by a
switch that delays and loses frames.

They have no names and belong to processes that wait here, so no node, interface or file remains
once those have ended, for whatever reason.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import attrs

from groupcomm.errors import GroupCommError
from tests.verification.campaigns.wire import Wire

_SUBNETS: Final = "10.77"


@attrs.frozen
class Node:
    """A node.

    Attributes:
        addresses: its IPv4 addresses, one on each network.
        prefix: the prefix of a command line that is to run there, in this folder.
    """

    addresses: Sequence[str]
    prefix: Sequence[str]

    @property
    def address(self) -> str:
        """Return its address on the first network."""
        return self.addresses[0]

    def plug(self, network: int, *, up: bool) -> None:
        """Put the cable to a network in, or pull it."""
        run(*self.prefix, *_words(f"ip link set eth{network} {'up' if up else 'down'}"))

    def delay(self, ms: float) -> bool:
        """Delay its frames on its first network; return False if this system cannot."""
        order = _words(f"tc qdisc add dev eth0 root netem delay {ms:g}ms")
        return not subprocess.run(
            [*self.prefix, *order], capture_output=True, check=False
        ).returncode


@contextmanager
def open_nodes(
    count: int, mtu: int, private: Sequence[str], networks: int = 1, wire: Wire | None = None
) -> Iterator[list[Node]]:
    """Nodes that reach each other; they end with the block, and with this process.

    Args:
        count: the number of nodes.
        mtu: the MTU of their networks, bytes.
        private: folders that are empty at first, and each node's own.
        networks: the number of networks that all are on.
        wire: the delay and loss of frames between them; None for a bridge, without both.

    Raises:
        GroupCommError: the system does not allow it.
    """
    if wire is not None:
        assert networks == 1, "a switch has one network"
        with _open_wired(count, mtu, private, wire) as nodes:
            yield nodes
        return
    with ExitStack() as stack:
        switch = stack.enter_context(_namespaces(()))
        for network in range(networks):
            at_switch = ("nsenter", f"--target={switch}", "--net")
            run(*at_switch, *_words(f"ip link add br{network} type bridge"))
            run(*at_switch, *_words(f"ip link set br{network} up"))
        nodes = []
        for index in range(count):
            holder = stack.enter_context(_namespaces(private))
            addresses = [f"{_SUBNETS}.{network}.{index + 1}" for network in range(networks)]
            run("nsenter", f"--target={holder}", "--net", *_words("ip link set lo up"))
            for network, address in enumerate(addresses):
                _plug(switch, holder, index, network, address, mtu)
            nodes.append(_node(holder, addresses))
        yield nodes


@contextmanager
def _open_wired(count: int, mtu: int, private: Sequence[str], wire: Wire) -> Iterator[list[Node]]:
    """Nodes at a switch in user space."""
    with ExitStack() as stack:
        holders = [stack.enter_context(_namespaces(private)) for _ in range(count)]
        for holder in holders:
            run("nsenter", f"--target={holder}", "--net", *_words("ip link set lo up"))
        places = {holder: f"{_SUBNETS}.0.{at}" for at, holder in enumerate(holders, 1)}
        command = [
            *(sys.executable, "-m", "tests.verification.campaigns.wire", f"--mtu={mtu}"),
            *(f"--delay-s={wire.delay_s}", f"--jitter-s={wire.jitter_s}", f"--loss={wire.loss}"),
            *(f"--seed={wire.seed}", *(f"{holder}={place}" for holder, place in places.items())),
        ]
        pipe = subprocess.PIPE
        switch = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe))
        stack.callback(switch.kill)
        assert switch.stdout is not None
        if not switch.stdout.readline():
            raise GroupCommError("no switch here; its message is above")
        yield [_node(holder, [place]) for holder, place in places.items()]


def _node(holder: int, addresses: Sequence[str]) -> Node:
    inside = ("nsenter", f"--target={holder}", "--net", "--mount")
    return Node(addresses, (*inside, "env", f"--chdir={Path.cwd()}"))


@contextmanager
def _namespaces(private: Sequence[str]) -> Iterator[int]:
    """Yield the process that holds them. It ends when its input does."""
    mounts = [f"mount -t tmpfs none {folder} &&" for folder in private]
    command = ["unshare", "--net", "--mount", "sh", "-c", f"{' '.join(mounts)} echo && exec cat"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            if not process.stdout.readline():
                raise GroupCommError(f"no namespaces here: {process.stderr.read().strip()}")
            yield process.pid
        finally:
            process.kill()


def _plug(switch: int, holder: int, index: int, network: int, address: str, mtu: int) -> None:
    """Connect a node to a bridge."""
    port, end = f"port{network}.{index}", f"eth{network}"
    at_switch = ("nsenter", f"--target={switch}", "--net")
    at_node = ("nsenter", f"--target={holder}", "--net")
    ends = f"ip link add {port} mtu {mtu} type veth peer name {end} mtu {mtu} netns {holder}"
    run(*at_switch, *_words(ends))
    run(*at_switch, *_words(f"ip link set {port} master br{network} up"))
    run(*at_node, *_words(f"ip addr add {address}/24 dev {end}"))
    run(*at_node, *_words(f"ip link set {end} up"))


def _words(command: str) -> list[str]:
    return command.split()


def run(*command: str) -> None:
    """Run a command to its end.

    Raises:
        GroupCommError: it fails; the text has what it said.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GroupCommError(f"{' '.join(command)} fails: {done.stderr.strip()}")
