"""The programs of one load: a sender, and members that note how long messages were under way."""

from functools import partial
from random import Random
from typing import Final

from groupcomm.events import Event, Message
from groupcomm.sim.clients import Client
from groupcomm.sim.cluster import Cluster
from groupcomm.sim.loop import SECOND, random_for
from groupcomm.sim.plan.topology import Load

CONNECT_US: Final = SECOND // 2
"""By then a program is connected, and can ask to join."""

NUMBER_BYTES: Final = 8
"""A message begins with its number; the rest of it means nothing."""


class Programs:
    """A member of the load's group at each daemon of its sites, and a program that sends to them.

    The sender is at the last daemon of its site, which is no gateway unless it is alone there.

    Args:
        cluster: in one view.
        load: what is sent.
        place: of the load among those of the plan.
        seed: of the moments of sending.

    Attributes:
        load: what is sent.
        counting: whether what is sent from now on counts.
        members: how many there are in each site, by index.
        sent: messages that count.
        delays_us: of these, by the receiver's site.
    """

    def __init__(self, cluster: Cluster, load: Load, place: int, seed: int) -> None:
        self._loop = cluster.loop
        self._rng: Random = random_for(seed, f"load {place}")
        self._number = 0
        self._running = False
        self._sent_at: dict[int, int] = {}
        self.load = load
        self.counting = False
        sites = cluster.settings.sites
        self.members = {site: len(sites[site]) for site in load.members}
        self.delays_us: dict[int, list[int]] = {site: [] for site in load.members}
        for site in load.members:
            for daemon in sites[site]:
                member = cluster.connect(f"member{place}", daemon)
                member.on_event = partial(self._on_event, site)
                self._loop.at(self._loop.now + CONNECT_US, self._join, member)
        self._sender = cluster.connect(f"sender{place}", sites[load.sender][-1])
        self._sender.on_event = lambda event: None

    @property
    def sent(self) -> int:
        """Messages that count."""
        return len(self._sent_at)

    def missing(self, site: int) -> int:
        """Deliveries that are due at the members of a site, and have not come."""
        return self.sent * self.members[site] - len(self.delays_us[site])

    def start(self) -> None:
        """Send from now on."""
        self._running = True
        self._loop.at(
            self._loop.now + int(self._rng.random() * SECOND / self.load.rate), self._send
        )

    def stop(self) -> None:
        """Send nothing more."""
        self._running = False

    def _join(self, member: Client) -> None:
        member.join(self.load.group)

    def _send(self, _: None) -> None:
        if not self._running:
            return
        load = self.load
        after = self._rng.uniform(0.5, 1.5) * SECOND / load.rate  # in step with no timer
        self._loop.at(self._loop.now + 1 + int(after), self._send)
        if self._sender.writable:
            self._number += 1
            if self.counting:
                self._sent_at[self._number] = self._loop.now
            data = self._number.to_bytes(NUMBER_BYTES, "big").ljust(load.bytes, b"\0")
            self._sender.multicast([load.group], data, level=load.level)

    def _on_event(self, site: int, event: Event) -> None:
        if isinstance(event, Message):
            sent_at = self._sent_at.get(int.from_bytes(event.data[:NUMBER_BYTES], "big"))
            if sent_at is not None:
                self.delays_us[site].append(self._loop.now - sent_at)
