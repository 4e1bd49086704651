"""groupcomm itself, in its forms."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import attrs

from groupcomm_tools.bench.plan import Plan
from groupcomm_tools.bench.runs import commands, open_daemons
from tests.verification.campaigns.peers.peer import Peer, Servers


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
