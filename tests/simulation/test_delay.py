"""How long messages take between rings, in units of the one-way delay; virtual time is exact."""

import statistics
from functools import partial
from random import Random

import pytest

from groupcomm.events import Event, Message
from groupcomm.level import ServiceLevel
from groupcomm.sim.clients import Client
from groupcomm.sim.cluster import Cluster
from groupcomm.sim.loop import SECOND
from groupcomm.sim.settings import plain_settings

DELAY_S = 0.04
DAEMONS = 9


class Stopwatch:
    """Three rings of three daemons, a member at each; notes delays to members of other rings."""

    def __init__(self, seed: int) -> None:
        self.cluster = Cluster(
            plain_settings(daemons=DAEMONS, rings=3, ring_delay_s=DELAY_S, seed=seed)
        )
        self.members = [self.cluster.connect(f"user{daemon}", daemon) for daemon in range(DAEMONS)]
        self.cluster.run(1.0)
        for member in self.members:
            member.join("g")
        self.cluster.run(1.0)
        self.delays: list[float] = []
        self._sent: dict[bytes, tuple[int, int]] = {}
        for member in self.members:
            member.on_event = partial(self._on_event, member)

    def send(self, sender: int, level: ServiceLevel) -> None:
        data = str(len(self._sent)).encode()
        self._sent[data] = (self.cluster.loop.now, sender)
        self.members[sender].multicast(["g"], data, level=level)

    def _on_event(self, member: Client, event: Event) -> None:
        if isinstance(event, Message):
            at, sender = self._sent[event.data]
            ring_of = self.cluster.view.ring_of
            if ring_of[sender] != ring_of[member.daemon]:
                self.delays.append((self.cluster.loop.now - at) / SECOND / DELAY_S)


@pytest.mark.parametrize(
    ("level", "bound"),
    [
        (ServiceLevel.RELIABLE, 1.05),
        (ServiceLevel.FIFO, 1.05),
        (ServiceLevel.CAUSAL, 1.1),
        (ServiceLevel.AGREED, 1.15),
        (ServiceLevel.SAFE, 2.3),
    ],
)
def test_a_level_costs_what_its_promise_needs(level: ServiceLevel, bound: float) -> None:
    watch = Stopwatch(seed=3)
    rng = Random(1)
    for _ in range(120):
        watch.send(rng.randrange(DAEMONS), level)
        watch.cluster.run(0.02)
    watch.cluster.run(2.0)
    assert len(watch.delays) == 120 * 6
    assert statistics.median(watch.delays) <= bound


def test_the_first_agreed_message_after_silence_takes_two_ways() -> None:
    watch = Stopwatch(seed=5)
    for sender in (0, 4, 8):
        watch.cluster.run(10.0)
        watch.send(sender, ServiceLevel.AGREED)
        watch.cluster.run(1.0)
    assert len(watch.delays) == 3 * 6
    assert max(watch.delays) <= 2.2
