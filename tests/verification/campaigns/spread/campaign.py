"""Clients of Spread at three daemons, under load, with kills and partitions, judged.

    python -m tests.verification.campaigns.spread.campaign --clients 200 --disasters 20

Each client is in one of some groups, sends, and connects again when its daemon has gone. Daemons
are killed and started again, and cut off from each other and joined again. `checker.SpreadChecker`
checks the events of the clients, and the simulator's checkers check the traces of the daemons.
"""

import argparse
import json
import random
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import trio

from groupcomm.sim.check import check_events
from groupcomm_tools.local_cluster import ClusterError, LocalCluster
from groupcomm_tools.relay import Relay
from groupcomm_tools.traces import trace_events
from groupcommd.config.config_file import read_addresses
from tests.groupcommd import spread_client as spread
from tests.groupcommd.spread_client import SpreadClient, connect
from tests.verification.campaigns.spread.checker import SpreadChecker

NAMES: Final = "abc"
SERVICES: Final = (spread.FIFO, spread.CAUSAL, spread.AGREED, spread.SAFE)
BETWEEN_S: Final = 1.0
"""From one disaster to its end, and on to the next."""

SETTLE_S: Final = 60.0
ATTEMPTS: Final = 4
"""The times in which all daemons must be in one view, each of some seconds."""

_UNTRACED: Final = "D1:"
"""Deliveries of sent messages only: that needs traces of clients, which write none here."""


class Campaign:
    """All clients, and the disasters of their daemons."""

    def __init__(self, cluster: LocalCluster, relay: Relay, options: argparse.Namespace) -> None:
        self._cluster = cluster
        self._relay = relay
        self._options = options
        self._random = random.Random(options.seed)
        self.checker = SpreadChecker()
        self.sent = self.sessions = 0
        self._count = 0
        self._open: dict[int, str] = {}  # the sessions, and the groups of each
        self.loaded = True

    async def live(self, index: int) -> None:
        """Be one client for ever: connect, be a member, send, and begin again at an end."""
        daemon, group = NAMES[index % len(NAMES)], f"group{index % self._options.groups}"
        while True:
            with suppress(OSError, trio.BrokenResourceError, spread.Ended, spread.Rejected):
                where = self._cluster[daemon].spread
                async with await connect(where, f"u{index}", big_endian=index % 2 == 0) as client:
                    await self._be_member(client, group)
            await trio.sleep(0.1 + self._random.random() / 10)

    async def _be_member(self, client: SpreadClient, group: str) -> None:
        self.sessions += 1
        session = self.sessions
        self._open[session] = group
        try:
            async with trio.open_nursery() as nursery:
                await client.join(group)
                nursery.start_soon(self._send, client, group)
                while True:
                    self.checker.see(session, client.name, await client.receive(patient=True))
        except* (OSError, trio.BrokenResourceError, spread.Ended):
            pass
        finally:
            del self._open[session]

    async def _send(self, client: SpreadClient, group: str) -> None:
        pause_s = self._options.clients / self._options.rate
        while True:
            await trio.sleep(pause_s * (0.5 + self._random.random()))
            if self.loaded:
                self._count += 1
                data = b"%012d" % self._count + bytes(self._random.choice((0, 100, 3000)))
                await client.multicast(group, data, self._random.choice(SERVICES))
                self.sent += 1

    async def disaster(self) -> None:
        """Have one thing happen to a daemon, and mend it."""
        victim = self._random.choice(NAMES)
        if self._random.random() < 0.5:
            self._cluster[victim].kill()
            await trio.sleep(BETWEEN_S)
            await self._cluster[victim].start()
        else:
            others = [name for name in NAMES if name != victim]
            self._relay.cut(list(self._relay.between([victim], others)))
            await trio.sleep(BETWEEN_S)
            self._relay.mend()
        await self._rejoin()
        await trio.sleep(BETWEEN_S)

    async def _rejoin(self) -> None:
        """Wait until all daemons are in one view, however long a busy machine takes for that."""
        for _ in range(ATTEMPTS):
            with suppress(ClusterError):
                await self._cluster.settle(NAMES)
                return
        await self._cluster.settle(NAMES)

    async def settle(self) -> None:
        """End the load, and wait until all members of each group are in one view of it."""
        self.loaded = False
        with trio.fail_after(SETTLE_S):
            while not self._is_settled():
                await trio.sleep(0.05)

    def _is_settled(self) -> bool:
        if len(self._open) < self._options.clients:
            return False
        for group in set(self._open.values()):
            members = [number for number, its in self._open.items() if its == group]
            views = self.checker.members_now(members, group)
            if [len(found) for found in views.values()] != [len(members)]:
                return False
        return True


async def play(options: argparse.Namespace) -> dict[str, Any]:
    """Run a campaign; return its figures."""
    with TemporaryDirectory() as folder:
        via = Path(folder) / "via.json"
        traces = Path(folder) / "traces"
        traces.mkdir()
        cluster = LocalCluster(NAMES, options=("--trace", str(traces), "--via", str(via)))
        relay = Relay(read_addresses(cluster.config))
        relay.write(via)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(relay.run)
            async with cluster:
                await cluster.settle(NAMES)
                campaign = Campaign(cluster, relay, options)
                for index in range(options.clients):
                    nursery.start_soon(campaign.live, index)
                await campaign.settle()
                campaign.loaded = True
                for _ in range(options.disasters):
                    await campaign.disaster()
                await campaign.settle()
                nursery.cancel_scope.cancel()
        checked = check_events("daemons", trace_events(traces))
        broken = [str(found) for found in checked.violations]
        return {
            "clients": options.clients,
            "disasters": options.disasters,
            "sessions": campaign.sessions,
            "sent": campaign.sent,
            "messages": campaign.checker.messages,
            "views": campaign.checker.views,
            "compared": campaign.checker.compared,
            "violations": campaign.checker.violations,
            "daemons_events": checked.events,
            "daemons_violations": [text for text in broken if not text.startswith(_UNTRACED)][:20],
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, print the figures as JSON; return 0 if all promises were kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.verification.campaigns.spread.campaign")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument("--rate", type=float, default=200.0, help="messages a second, of all")
    parser.add_argument("--disasters", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    found = trio.run(play, parser.parse_args(arguments))
    print(json.dumps(found))
    return 1 if found["violations"] or found["daemons_violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
