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

_SUBNET: Final = "10.77.0"


@attrs.frozen
class Node:
    """One of them.

    Attributes:
        address: IPv4, the one that the others see.
        prefix: of a command line that is to run there, in this folder.
    """

    address: str
    prefix: Sequence[str]


@contextmanager
def open_nodes(count: int, mtu: int, private: Sequence[str]) -> Iterator[list[Node]]:
    """Nodes that reach each other; they end with the block, and with this process.

    Args:
        count: how many.
        mtu: of their network, bytes.
        private: folders that are empty at first, and each node's own.

    Raises:
        GroupCommError: the system does not allow it.
    """
    with ExitStack() as stack:
        switch = stack.enter_context(_namespaces(()))
        _run("nsenter", f"--target={switch}", "--net", *_words("ip link add br0 type bridge"))
        _run("nsenter", f"--target={switch}", "--net", *_words("ip link set br0 up"))
        nodes = []
        for index in range(count):
            holder = stack.enter_context(_namespaces(private))
            address = f"{_SUBNET}.{index + 1}"
            _plug(switch, holder, f"port{index}", address, mtu)
            inside = ("nsenter", f"--target={holder}", "--net", "--mount")
            nodes.append(Node(address, (*inside, "env", f"--chdir={Path.cwd()}")))
        yield nodes


@contextmanager
def _namespaces(private: Sequence[str]) -> Iterator[int]:
    """The process that holds them. It ends when its input does."""
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


def _plug(switch: int, holder: int, port: str, address: str, mtu: int) -> None:
    """Connect a node to the bridge."""
    at_switch = ("nsenter", f"--target={switch}", "--net")
    at_node = ("nsenter", f"--target={holder}", "--net")
    ends = f"ip link add {port} mtu {mtu} type veth peer name eth0 mtu {mtu} netns {holder}"
    _run(*at_switch, *_words(ends))
    _run(*at_switch, *_words(f"ip link set {port} master br0 up"))
    _run(*at_node, *_words("ip link set lo up"))
    _run(*at_node, *_words(f"ip addr add {address}/24 dev eth0"))
    _run(*at_node, *_words("ip link set eth0 up"))


def _words(command: str) -> list[str]:
    return command.split()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GroupCommError(f"{' '.join(command)} fails: {done.stderr.strip()}")
