"""Rounds of a cluster's life, each with fresh groups, names, users, connections, views and starts.

Two rings in virtual time. No name of a round is used again; after the round nothing of it is
needed, so a lasting daemon must not be any larger.
"""

from collections import Counter

import attrs

from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from groupcomm.trace.recorders import TraceProbe
from tests.memory.walker import sizes

LASTING = (1, 2)
"""Hosts, one in each ring, whose daemons run from the first round to the last."""

RESTARTING = (0, 3)
"""The other two."""

EVERYBODY = "everybody"
"""The group of the lasting programs."""

SETTLED_S = 12.0
"""The silence after which held packets are forgotten, and recent measurements, too."""

DAEMON_TIMEOUT_S = 5.0

ACCEPTED_S = 0.2
"""After it a program knows that its messages are accepted."""

LARGE_BYTES = 5_000
TOO_LARGE_BYTES = 100_000
"""More bytes than a connection holds: a client that dies at once has sent a part of them."""


class Rounds:
    """A cluster of two rings with one lasting program at each of four daemons.

    Args:
        suite: the suite that protects datagrams.

    Attributes:
        cluster: the cluster.
        lasting: the programs, by host.
    """

    def __init__(self, *, suite: int = 0) -> None:
        settings = plain_settings(daemons=4, sites=2, delay_s=0.005)
        self.cluster = Cluster(attrs.evolve(settings, suite=suite))
        self._fresh = 0
        self.lasting = [self._last(host) for host in range(4)]

    def _last(self, host: int) -> SimulatedClient:
        client = self._connect(f"lasting-{host}", host)
        self.cluster.run(0.1)
        client.join(EVERYBODY)
        return client

    def _connect(
        self, user: str, host: int, *, causes: bool = False, accepted: bool = False
    ) -> SimulatedClient:
        timeout_s = DAEMON_TIMEOUT_S if accepted else None
        client = self.cluster.connect(user, host, causes=causes, daemon_timeout_s=timeout_s)
        client.on_event = lambda event: None
        return client

    def _name(self, kind: str) -> str:
        self._fresh += 1
        return f"{kind}-{self._fresh:08}"

    def look(self, settled_s: float = SETTLED_S) -> Counter[str]:
        """Return the counts at the lasting daemons and programs after this silence."""
        self.cluster.run(settled_s)
        assert self.cluster.agree(range(4))
        cores = [self.cluster.daemons[at].core for at in LASTING]
        sessions = [self.lasting[at]._session for at in LASTING]
        return sizes(*cores, *sessions, besides=(TraceProbe,))

    # ---- events of a round ----

    def use_groups(self, count: int) -> None:
        """Join, send to and leave groups, some of which nobody has joined."""
        for at in range(count):
            group, empty = self._name("group"), self._name("empty")
            member, sender = self.lasting[at % 4], self.lasting[(at + at // 4) % 4]
            member.join(group)
            self.cluster.run(0.02)
            for level in LEVELS:
                sender.multicast([group], b"to members", level=level)
                sender.multicast([empty], b"to nobody", level=level)
            member.leave(group)

    def use_private_names(self, count: int) -> None:
        """Send to programs that are not there, in both rings."""
        for at in range(count):
            name = f"#{self._name('nobody')}#{self.cluster.daemons[at % 4].name}"
            for level in LEVELS:
                self.lasting[at // 4 % 4].multicast([name], b"to nobody", level=level)
            self.cluster.run(0.005)

    def use_users(self, count: int) -> None:
        """Connect, join and send; leave in order, or die in the middle of a message."""
        for at in range(count):
            group, user = self._name("group"), self._name("user")
            accepted = at % 4 in LASTING  # these end once they know what was accepted
            client = self._connect(user, at % 4, causes=at % 3 == 0, accepted=accepted)
            self.cluster.run(0.03)
            client.join(group)
            self.cluster.run(0.02)
            size = TOO_LARGE_BYTES if at % 6 == 0 else LARGE_BYTES
            client.multicast([group, EVERYBODY], bytes(size), level=LEVELS[at // 2 % len(LEVELS)])
            client.multicast([group], b"where?", ordered=True)
            self.lasting[at // 4 % 4].multicast([client.name], b"to a program")
            self.cluster.run(ACCEPTED_S if accepted else 0.0)
            if at % 2:
                client.disconnect()
            else:
                client.crash()
            self._connect(user, at % 4).disconnect()  # the connection waits until the name is free
        self.cluster.run(0.1)
        self.cluster.clients[:] = self.lasting

    def change_views(self) -> None:
        """Part the rings for a while."""
        pairs = [(a, b) for a in (0, 1) for b in (2, 3)]
        pairs += [(b, a) for a, b in pairs]
        self.cluster.network.cut(pairs)
        self.cluster.run(1.5)
        self.lasting[0].multicast(["parted"], b"", level=ServiceLevel.SAFE)
        self.cluster.network.mend(pairs)
        self.cluster.form()

    def restart(self) -> None:
        """Kill a daemon and have another one leave; start both again."""
        killed, left = (self.cluster.daemons[at] for at in RESTARTING)
        killed.kill()
        assert left.process is not None
        left.process.leave()
        self.cluster.run(1.5)
        for host in (killed, left):
            if not host.is_idle:
                host.kill()
            host.boot()
        self.cluster.run(0.5)
        self.cluster.form()
        for at in RESTARTING:
            self.lasting[at] = self._last(at)
        self.cluster.run(0.1)
        self.cluster.clients[:] = self.lasting
