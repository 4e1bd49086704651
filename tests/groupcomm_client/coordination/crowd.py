"""Programs in the simulator, one at each daemon, while daemons are parted and programs crash."""

from collections.abc import Callable
from random import Random
from typing import Protocol

from groupcomm.events import Connected, Event, MemberId
from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.faults.partitions import draw_partition
from groupcomm.sim.settings import Settings, plain_settings
from groupcomm.sim.virtual_time import microseconds, random_for

GROUP = "crowd"
AGREE_S = 10.0


class Program(Protocol):
    """The program at a daemon; a new one for each session."""

    def take(self, event: Event) -> None:
        """An event of its session, as soon as it has joined the group."""


class Seat:
    """A place at one daemon, where one program after another sits."""

    def __init__(self, crowd: "Crowd", daemon: int) -> None:
        self._crowd = crowd
        self.daemon = daemon
        self.client: SimulatedClient | None = None
        self.program: Program | None = None
        self.sat = 0

    @property
    def taken(self) -> bool:
        return self.client is not None

    def sit(self) -> None:
        """A new program, if the daemon runs."""
        cluster = self._crowd.cluster
        if self.client is None and cluster.daemons[self.daemon].is_up:
            self.sat += 1
            self.client = client = cluster.connect(f"p{self.sat}", self.daemon, origins=True)
            client.on_event = self._on_event
            client.on_end = self._on_end

    def send(self, data: bytes, level: ServiceLevel = ServiceLevel.AGREED, to: str = GROUP) -> None:
        if self.client is not None and self.client.connected:
            self.client.multicast([to], data, level=level)

    def crash(self) -> None:
        if self.client is not None:
            self.client.crash()

    def _on_end(self) -> None:
        self.client = self.program = None
        self._crowd.gone(self)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Connected):
            assert self.client is not None
            self.program = self._crowd.make(self, event.member)
            self._crowd.join_later(self.client)
        elif self.program is not None:
            self.program.take(event)


class Crowd:
    """A cluster, and what happens to it.

    Args:
        seed: the seed of all random choices.
        daemons: the number of daemons, and of programs.
        make: a program for a seat, as this member.
        may_crash: whether another program may lose all it knows now.
        loss: chance that a datagram is lost; ignored if faults are given.
        faults: what happens to datagrams.
        groups: the groups that programs join, in this order.
        settings: the settings of the cluster, in place of daemons and faults.
        late_join_s: some programs join so long after they have connected: the views of the daemons
            may change meanwhile.
    """

    def __init__(
        self,
        seed: int,
        daemons: int,
        make: Callable[[Seat, MemberId], Program],
        may_crash: Callable[[], bool] = lambda: True,
        loss: float = 0.0,
        faults: Faults | None = None,
        groups: tuple[str, ...] = (GROUP,),
        settings: Settings | None = None,
        late_join_s: float = 0.0,
    ) -> None:
        self.make = make
        self.groups = groups
        self.agree_s = AGREE_S
        self.late_join_s = late_join_s
        self.rng: Random = random_for(seed, "crowd")
        self.gone: Callable[[Seat], None] = lambda seat: None
        self._may_crash = may_crash
        faults = faults or Faults(loss=loss)
        settings = settings or plain_settings(daemons=daemons, seed=seed, faults=faults)
        self.cluster = Cluster(settings, start=False)
        self.cluster.start(form=not settings.faults.cold_s)
        self.seats = [Seat(self, index) for index in range(settings.daemons)]
        self._cuts: list[tuple[tuple[int, int], ...]] = []
        self.parted = self.crashed = 0

    def join_later(self, client: SimulatedClient) -> None:
        """Have a client join the groups, at once or a little later."""

        def join(_: object = None) -> None:
            for group in self.groups:
                if client.connected:
                    client.join(group)

        if self.late_join_s and self.rng.random() < 0.5:
            loop = self.cluster.loop
            loop.at(loop.now + microseconds(self.rng.uniform(0.0, self.late_join_s)), join)
        else:
            join()

    def trouble(self) -> None:
        """Something happens, or ends."""
        what = self.rng.random()
        if what < 0.35:
            self.part()
        elif what < 0.65:
            self.mend()
        elif self._may_crash():
            self._crash(daemon=what > 0.85)

    def part(self) -> None:
        """The network falls apart, in some shape."""
        if len(self._cuts) < 2:
            pairs = draw_partition(self.rng, [0] * len(self.seats))
            self.cluster.network.cut(pairs)
            self._cuts.append(pairs)
            self.parted += 1

    def mend(self) -> None:
        """The network is whole again."""
        for pairs in self._cuts:
            self.cluster.network.mend(pairs)
        self._cuts = []

    def _crash(self, *, daemon: bool) -> None:
        seat = self.rng.choice(self.seats)
        host = self.cluster.daemons[seat.daemon]
        self.crashed += seat.taken
        if daemon and host.is_up:
            host.kill()
            host.boot()
        else:
            seat.crash()

    def run(self, seconds: float, each: Callable[[Seat], None], troubles_per_s: float) -> None:
        """Let time pass: all seats are taken again and again, and `each` acts at random times."""
        loop = self.cluster.loop
        until = loop.now + microseconds(seconds)
        while loop.now < until:
            self.cluster.run(self.rng.uniform(0.001, 0.03))
            for seat in self.seats:
                if self.rng.random() < 0.1:
                    seat.sit()
                elif self.rng.random() < 0.5 and seat.program is not None:
                    each(seat)
            if self.rng.random() < 0.015 * troubles_per_s:
                self.trouble()

    def until(self, ready: Callable[[], bool]) -> None:
        """Mend everything, take all seats, and run until something is so."""
        self.mend()
        loop = self.cluster.loop
        limit = loop.now + microseconds(self.agree_s)
        while not ready():
            assert loop.now < limit, "the crowd does not come to rest"
            for seat in self.seats:
                seat.sit()
            self.cluster.run(0.05)
