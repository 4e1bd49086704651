"""Nodes on this host: namespaces with their own network and files, joined by a bridge.

They have no names and belong to processes that wait here, so nothing is left of them, of their
interfaces and of their files once those have ended, whatever has ended them.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import attrs

from groupcomm.errors import GroupCommError

_SUBNETS: Final = "10.77"


@attrs.frozen
class Node:
    """One of them.

    Attributes:
        addresses: IPv4, one on each network.
        prefix: of a command line that is to run there, in this folder.
    """

    addresses: Sequence[str]
    prefix: Sequence[str]

    @property
    def address(self) -> str:
        """Return the one that the others see on the first network."""
        return self.addresses[0]

    def plug(self, network: int, *, up: bool) -> None:
        """Put the cable to a network in, or pull it."""
        _run(*self.prefix, *_words(f"ip link set eth{network} {'up' if up else 'down'}"))

    def delay(self, ms: float) -> bool:
        """Delay what it sends on its first network; False if this system cannot."""
        order = _words(f"tc qdisc add dev eth0 root netem delay {ms:g}ms")
        return not subprocess.run(
            [*self.prefix, *order], capture_output=True, check=False
        ).returncode


@contextmanager
def open_nodes(
    count: int, mtu: int, private: Sequence[str], networks: int = 1
) -> Iterator[list[Node]]:
    """Nodes that reach each other; they end with the block, and with this process.

    Args:
        count: how many.
        mtu: of their networks, bytes.
        private: folders that are empty at first, and each node's own.
        networks: that all are on.

    Raises:
        GroupCommError: the system does not allow it.
    """
    with ExitStack() as stack:
        switch = stack.enter_context(_namespaces(()))
        for network in range(networks):
            at_switch = ("nsenter", f"--target={switch}", "--net")
            _run(*at_switch, *_words(f"ip link add br{network} type bridge"))
            _run(*at_switch, *_words(f"ip link set br{network} up"))
        nodes = []
        for index in range(count):
            holder = stack.enter_context(_namespaces(private))
            addresses = [f"{_SUBNETS}.{network}.{index + 1}" for network in range(networks)]
            _run("nsenter", f"--target={holder}", "--net", *_words("ip link set lo up"))
            for network, address in enumerate(addresses):
                _plug(switch, holder, index, network, address, mtu)
            inside = ("nsenter", f"--target={holder}", "--net", "--mount")
            nodes.append(Node(addresses, (*inside, "env", f"--chdir={Path.cwd()}")))
        yield nodes


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
    _run(*at_switch, *_words(ends))
    _run(*at_switch, *_words(f"ip link set {port} master br{network} up"))
    _run(*at_node, *_words(f"ip addr add {address}/24 dev {end}"))
    _run(*at_node, *_words(f"ip link set {end} up"))


def _words(command: str) -> list[str]:
    return command.split()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GroupCommError(f"{' '.join(command)} fails: {done.stderr.strip()}")
