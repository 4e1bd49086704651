"""Corosync's closed process groups: agreed order, like ours, in C."""

import os
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from ctypes import CDLL
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import trio

from groupcomm.errors import GroupCommError
from groupcomm_tools.bench.plan import Plan
from tests.verification.campaigns.peers import cpg
from tests.verification.campaigns.peers.launching import (
    START_S,
    Programs,
    last_words,
    not_installed,
    open_server,
    packages_of,
)
from tests.verification.campaigns.peers.nodes import Node, open_nodes
from tests.verification.campaigns.peers.peer import Peer, Servers

LOOPBACK_MTU: Final = 60_000
"""As large as packets of ours are on loopback."""

PRIVATE: Final = ("/run", "/dev/shm", "/var/lib/corosync")
"""The folders in which Corosync puts sockets, shared memory and state, always by the same names."""

_PLAIN: Final = "transport: udpu\n  crypto_cipher: none\n  crypto_hash: none"
_ENCRYPTED: Final = (
    "transport: knet\n  crypto_cipher: aes256\n  crypto_hash: sha256\n  keyfile: {key}"
)
"""The older transport is the quicker one here, but cannot encrypt."""

_CONFIGURATION: Final = """totem {{
  version: 2
  cluster_name: bench
  netmtu: {packet_bytes}
  {totem}
}}
nodelist {{
{nodes}}}
system {{
  sched_rr: no
}}
logging {{
  to_stderr: yes
  to_syslog: no
}}
"""
_NODE: Final = "  node {{\n    ring0_addr: {address}\n    nodeid: {id}\n    name: n{id}\n  }}\n"


class Corosync(Peer):
    """Daemons on nodes of their own, at ordinary priority.

    By default they have real-time priority, which here takes processors from their own clients.

    Args:
        crypto: whether they encrypt their datagrams.
        mtu: the MTU of the network, which Corosync is told, bytes.
    """

    family = "corosync"

    def __init__(self, *, crypto: bool = False, mtu: int = LOOPBACK_MTU) -> None:
        self.name = "corosync, encrypted" if crypto else "corosync"
        self.sending = "one call per message"
        self._crypto, self._mtu = crypto, mtu

    def missing(self) -> str:
        packages = packages_of(corosync="corosync", iproute2="ip")
        if not _has_library():
            packages.append("libcpg4")
        if not packages and os.geteuid():
            return "each node has a network of its own; run it as root"
        return not_installed(packages)

    @asynccontextmanager
    async def open(self, plan: Plan) -> AsyncIterator[Servers]:
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="groupcomm-")))
            nodes = stack.enter_context(open_nodes(plan.daemons, self._mtu, PRIVATE))
            configuration = self._configure(folder, nodes)
            pids, logs = [], []
            for node in nodes:
                logs.append(folder / f"{node.address}.log")
                command = [*node.prefix, "corosync", "-f", "-c", str(configuration)]
                server = open_server(command, logs[-1], logs[-1].exists)
                pids.append(await stack.enter_async_context(server))
            await _formed(logs)
            prefixes = [node.prefix for node in nodes]
            addresses = [node.address for node in nodes]
            yield Servers(pids, Programs(cpg.__name__, addresses, folder, prefixes))

    def _configure(self, folder: Path, nodes: Sequence[Node]) -> Path:
        """Write one configuration, for all."""
        key = folder / "authkey"
        key.write_bytes(secrets.token_bytes(256))
        lines = [_NODE.format(address=node.address, id=at + 1) for at, node in enumerate(nodes)]
        totem = _ENCRYPTED.format(key=key) if self._crypto else _PLAIN
        configuration = folder / "corosync.conf"
        configuration.write_text(
            _CONFIGURATION.format(totem=totem, packet_bytes=self._mtu, nodes="".join(lines))
        )
        return configuration


def _has_library() -> bool:
    try:
        CDLL(cpg.LIBRARY)
    except OSError:
        return False
    return True


async def _formed(logs: Sequence[Path]) -> None:
    """Wait until every node has logged that all are in one membership.

    Raises:
        GroupCommError: they do not find each other.
    """
    line = f"Sync members[{len(logs)}]"
    with trio.move_on_after(START_S):
        while not all(line in log.read_text(errors="replace") for log in logs):
            await trio.sleep(0.02)
        return
    raise GroupCommError(f"corosync's nodes do not find each other: {last_words(logs[0])}")
