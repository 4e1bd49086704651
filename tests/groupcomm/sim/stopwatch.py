"""Delays of messages between rings, in units of the one-way delay; virtual time is exact.

Three rings of three daemons, an equal 40 ms apart, clocks within 1 ms, a member at each daemon.
"""

from functools import partial
from random import Random

import attrs

from groupcomm.events import Event, Message
from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND

DELAY_S = 0.04
DAEMONS = 9
INTERVAL_S = 0.02
"""Between two multicasts, on average: 50 a second."""

BOUNDS = {
    ServiceLevel.RELIABLE: 1.05,
    ServiceLevel.FIFO: 1.05,
    ServiceLevel.CAUSAL: 1.1,
    ServiceLevel.AGREED: 1.15,
    ServiceLevel.SAFE: 2.3,
}
"""The bound of the median delay of each level."""

FIRST_BOUND = 2.2
"""The bound of the delay of the first AGREED message after silence."""


class Stopwatch:
    """Notes from each call of `send` to its deliveries at the members of other rings.

    Attributes:
        delays: the delays so far, in one-way delays.
    """

    def __init__(self, seed: int) -> None:
        settings = plain_settings(daemons=DAEMONS, sites=3, delay_s=DELAY_S, seed=seed)
        self.cluster = Cluster(attrs.evolve(settings, clock_error_s=0.001))
        self.delays: list[float] = []
        self._sent: dict[bytes, tuple[int, int]] = {}
        self._members = [self.cluster.connect(f"user{at}", at) for at in range(DAEMONS)]
        self.cluster.run(0.3)
        for member in self._members:
            member.join("g")
        self.cluster.run(0.5)
        for member in self._members:
            member.on_event = partial(self._on_event, member)

    def send(self, sender: int, level: ServiceLevel) -> None:
        """Have the member at a daemon multicast."""
        data = str(len(self._sent)).encode()
        self._sent[data] = (self.cluster.loop.now, sender)
        self._members[sender].multicast(["g"], data, level=level)

    def _on_event(self, member: SimulatedClient, event: Event) -> None:
        if isinstance(event, Message):
            at, sender = self._sent[event.data]
            ring_of = self.cluster.view.ring_of
            if ring_of[sender] != ring_of[member.daemon]:
                self.delays.append((self.cluster.loop.now - at) / SECOND / DELAY_S)


def delays_of(level: ServiceLevel, messages: int, seed: int) -> list[float]:
    """Return the delays of this number of messages of one level, lowest first; senders and times
    are random."""
    watch = Stopwatch(seed)
    rng = Random(seed)
    for _ in range(messages):
        watch.send(rng.randrange(DAEMONS), level)
        watch.cluster.run(rng.uniform(0.0, 2 * INTERVAL_S))
    watch.cluster.run(0.5)
    assert len(watch.delays) == 6 * messages, "each reaches the six members of the other rings"
    return sorted(watch.delays)


def delays_after_silence(seed: int) -> list[float]:
    """Return the delays of AGREED messages, from each ring one, after three seconds of silence."""
    watch = Stopwatch(seed)
    for sender in (0, 4, 8):
        watch.cluster.run(3.0)
        watch.send(sender, ServiceLevel.AGREED)
        watch.cluster.run(1.0)
    assert len(watch.delays) == 3 * 6
    return sorted(watch.delays)
