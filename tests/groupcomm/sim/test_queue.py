"""Queues at full speed: the delay of a message stays below a bound, and senders share.

Daemons are as slow as `unit_us` says, and programs send as fast as their daemons read. So all that
is sent waits somewhere: all time is virtual, and the same everywhere.
"""

import attrs

from groupcomm.config.core import Windows
from groupcomm.events import Event, Message
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND

UNIT_US = 400
"""A daemon takes this time for each bundle that it delivers: all together carry 3 MB/s."""

WARM_UP_S = 1.5
COUNTED_S = 0.5
MESSAGE = bytes(1200)
AT_ONCE = 10
"""The messages that a program sends and its daemon reads at once: some 12 KB."""


class Load:
    """Programs that send as fast as they may, one at each of some daemons of three."""

    def __init__(self, senders: int) -> None:
        settings = attrs.evolve(
            plain_settings(daemons=3), unit_us=UNIT_US, windows=Windows(visit_bytes=5_000)
        )
        self.cluster = Cluster(settings)
        self.members = [self.cluster.connect(f"user{at}", at) for at in range(3)]
        self.cluster.run(0.1)
        self.sent_at: dict[tuple[str, int], int] = {}
        self.delays_ms: dict[str, list[float]] = {member.name: [] for member in self.members}
        for member in self.members:
            member.join("g")
            member.on_event = self._note
        self.cluster.run(0.1)
        for sender in self.members[:senders]:
            self._send(sender)
        self.cluster.run(WARM_UP_S)
        for delays in self.delays_ms.values():
            delays.clear()
        self.cluster.run(COUNTED_S)

    def _send(self, sender: SimulatedClient) -> None:
        """Send while the daemon reads, and all that was sent before has left the program."""
        process = self.cluster.daemons[sender.daemon].process
        assert process is not None
        if not (process.connections._unread or sender._session.pending_bytes):
            for _ in range(AT_ONCE):
                number = sender.multicast(["g"], MESSAGE)
                self.sent_at[sender.name, number] = self.cluster.loop.now
        self.cluster.loop.at(self.cluster.loop.now + 100, lambda _: self._send(sender))

    def _note(self, event: Event) -> None:
        if isinstance(event, Message):
            took = self.cluster.loop.now - self.sent_at[event.sender.name, event.number]
            self.delays_ms[event.sender.name].append(1000 * took / SECOND)


def test_at_full_speed_messages_wait_some_rotations_only_and_senders_share() -> None:
    load = Load(3)
    counts = [len(delays) for delays in load.delays_ms.values()]
    assert sum(counts) > 500, "all daemons are busy"
    assert max(counts) < 1.2 * min(counts)
    delays = sorted(delay for each in load.delays_ms.values() for delay in each)
    assert delays[len(delays) // 2] < 90, "some rotations of 10 ms, and what the sockets hold"
    assert delays[-1] < 180
