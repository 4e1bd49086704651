"""A cluster whose whole trace goes to the checkers."""

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from groupcomm.events import GroupView
from groupcomm.sim.checkers import Checkers
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.run import Recorder
from groupcomm.sim.settings import Settings

SELDOM_S: Final = 0.02
LIMIT_S: Final = 1.0
LOOK_S: Final = 0.02


def with_few_notices(settings: Settings) -> Settings:
    """Return settings for rings that announce their horizons every SELDOM_S at most.

    They suffice for a test that measures no delays: horizon notices are nearly all datagrams
    between quiet sites, and nearly all work of the daemons there.
    """
    return attrs.evolve(settings, notice_interval_s=SELDOM_S)


class CheckedCluster:
    """A cluster, its recorder and its checkers.

    Attributes:
        cluster: the cluster.
    """

    def __init__(self, settings: Settings, *, start: bool = True) -> None:
        self._checkers = Checkers()
        self._recorder = Recorder(self._checkers.feed)
        self.cluster = Cluster(settings, self._recorder.record, start=start)

    def connect(self, count: int) -> list[SimulatedClient]:
        """Return this number of clients, spread over the daemons, once they are connected."""
        daemons = len(self.cluster.daemons)
        clients = [self.cluster.connect(f"user{user}", user % daemons) for user in range(count)]
        self.run_until(lambda: all(client.connected for client in clients))
        return clients

    def join(self, group: str, clients: Sequence[SimulatedClient]) -> None:
        """Have clients join a group, and wait until each of them sees all others there."""
        for client in clients:
            client.join(group)
        wanted = len(clients)
        self.run_until(lambda: all(members_seen(client, group) == wanted for client in clients))

    def run_until(self, reached: Callable[[], bool]) -> None:
        """Let time pass until something is reached, or for LIMIT_S."""
        for _ in range(round(LIMIT_S / LOOK_S)):
            if reached():
                return
            self.cluster.run(LOOK_S)

    def finish(self) -> None:
        """Let everything settle; nothing may be missing or out of order."""
        self.cluster.settle()
        self._recorder.trace_hash()
        self._checkers.finish()
        assert self._checkers.violations == []


def members_seen(client: SimulatedClient, group: str) -> int:
    """Return the number of members in the client's last view of a group, 0 if there is none."""
    views = (event for event in reversed(client.events) if isinstance(event, GroupView))
    return next((len(view.members) for view in views if view.group == group), 0)
