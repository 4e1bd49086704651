"""groupcomm itself, in its forms."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import attrs

from groupcomm_tools.bench.plan import Plan
from groupcomm_tools.bench.runs import commands, open_daemons
from tests.verification.campaigns.peers.daemons import prepare_daemons, running
from tests.verification.campaigns.peers.nodes import open_nodes
from tests.verification.campaigns.peers.peer import Peer, Servers

BLOCK: Final = 'slow_receivers = "block"'
"""Senders go as fast as the slowest receiver, from the first message on."""


class Ours(Peer):
    """Daemons, with programs on unix sockets.

    Args:
        name: the name of the form.
        bundling: whether messages are given by the iterable; otherwise each is awaited.
        encryption: whether daemons encrypt their datagrams.
    """

    def __init__(self, name: str, *, bundling: bool = True, encryption: bool = True) -> None:
        self.name = name
        self.sending = "multicast_many" if bundling else "one awaited call per message"
        if not encryption:
            self.sending += ", not encrypted"
        self._bundling = bundling
        self._encryption = encryption

    def adapted(self, plan: Plan) -> Plan | None:
        if plan.is_timed and not self._bundling:
            return None  # such messages are awaited singly anyway
        return attrs.evolve(plan, bundling=self._bundling, encryption=self._encryption)

    @asynccontextmanager
    async def open(self, plan: Plan) -> AsyncIterator[Servers]:
        async with open_daemons(plan) as (addresses, pids):
            yield Servers(pids, partial(commands, addresses=addresses))


class OnNetwork(Ours):
    """Daemons on nodes of their own; every setting but that of slow receivers is the default.

    Args:
        name: the name of the form.
        mtu: the MTU of their network, bytes.
    """

    def __init__(self, name: str, mtu: int) -> None:
        super().__init__(name)
        self._mtu = mtu

    def missing(self) -> str:
        return "each node has a network of its own; run it as root" if os.geteuid() else ""

    @asynccontextmanager
    async def open(self, plan: Plan) -> AsyncIterator[Servers]:
        with (
            TemporaryDirectory(prefix="groupcomm-") as folder,
            open_nodes(plan.daemons, self._mtu, ()) as nodes,
        ):
            daemons = prepare_daemons(Path(folder), nodes, (BLOCK,))
            async with running(daemons):
                addresses = [str(each.unix) for each in daemons.values()]
                pids = [each.pid for each in daemons.values()]
                yield Servers(pids, partial(commands, addresses=addresses))
