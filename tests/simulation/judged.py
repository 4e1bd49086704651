"""A cluster whose whole trace goes to the oracles."""

from groupcomm.sim.clients import Client
from groupcomm.sim.cluster import Cluster
from groupcomm.sim.oracles import Oracles
from groupcomm.sim.recorder import Recorder
from groupcomm.sim.settings import Settings


class Judged:
    """A cluster, its recorder and its oracles.

    Attributes:
        cluster: the cluster.
    """

    def __init__(self, settings: Settings) -> None:
        self._oracles = Oracles()
        self._recorder = Recorder(self._oracles.feed)
        self.cluster = Cluster(settings, self._recorder.record)

    def connect(self, count: int) -> list[Client]:
        """So many clients, spread over the daemons."""
        daemons = len(self.cluster.daemons)
        clients = [self.cluster.connect(f"user{user}", user % daemons) for user in range(count)]
        self.cluster.run(1.0)
        return clients

    def finish(self) -> None:
        """Let everything settle; nothing may be missing or out of order."""
        self.cluster.settle()
        self._recorder.trace_hash()
        self._oracles.finish()
        assert self._oracles.violations == []
