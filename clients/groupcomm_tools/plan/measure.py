"""Measurement of one plan in virtual time: the real core, real sessions, the plan's network.

Each load has a sender, and members that note how long messages were in flight.
"""

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Final

import attrs

from groupcomm.errors import GroupCommError
from groupcomm.events import Event, Message
from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import LOOK_S, Cluster
from groupcomm.sim.virtual_time import SECOND, microseconds, random_for
from groupcomm.trace.events import Conf, TraceEvent
from groupcomm_tools.plan.topology import PlannedLoad, Topology
from groupcomm_tools.plan.traffic import Meter, TrafficPhase

CONNECT_US: Final = SECOND // 2
"""The time by which a program is connected, and can ask to join."""

NUMBER_BYTES: Final = 8
"""The bytes of the number with which a message begins; the rest is padding."""


class LoadPrograms:
    """A member of the load's group at each daemon of its sites, and a program that sends to them.

    The sender is at the last daemon of its site, which is no gateway unless it is alone there.

    Args:
        cluster: the cluster, in one view.
        load: the load to send.
        place: its place among the loads of the plan.
        seed: the seed of the moments of sending.

    Attributes:
        load: the load to send.
        counting: whether messages that are sent from now on count.
        members: the number of members in each site, by index.
        sent: the number of messages that count.
        delays_us: the delays of these, by the receiver's site, in microseconds.
    """

    def __init__(self, cluster: Cluster, load: PlannedLoad, place: int, seed: int) -> None:
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
        """Return the number of messages that count."""
        return len(self._sent_at)

    def missing(self, site: int) -> int:
        """Return the deliveries that are due at the members of a site, and have not come."""
        return self.sent * self.members[site] - len(self.delays_us[site])

    def start(self) -> None:
        """Send from now on."""
        self._running = True
        self._loop.at(
            self._loop.now + int(self._rng.random() * SECOND / self.load.rate), self._send
        )

    def stop(self) -> None:
        """Stop sending."""
        self._running = False

    def _join(self, member: SimulatedClient) -> None:
        member.join(self.load.group)

    def _send(self, _: None) -> None:
        if not self._running:
            return
        load = self.load
        after = self._rng.uniform(0.5, 1.5) * SECOND / load.rate  # not in step with any timer
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


FORM_LIMIT_S: Final = 60.0
JOIN_S: Final = 4.0
"""The time for programs to connect and to become members, before any measurement; and for the
notices of the agreed order to rest again, as joins are part of it (Timing.agreed_memory_s)."""

IDLE_S: Final = 2.0
WARM_S: Final = 1.0
"""Load that is not counted, until notices and windows have found their pace."""

DRAIN_LIMIT_S: Final = 10.0
"""The time after the load from which an undelivered message counts as missing."""


class PlanFailed(GroupCommError):
    """Raised if a plan cannot be measured; the text says why."""


@attrs.frozen(kw_only=True)
class MeasuredDelays:
    """The delays from multicast to delivery at programs, for a group, a level and a pair of sites.

    Attributes:
        group: the group that the messages were sent to.
        level: the level of the messages.
        near, far: the sites of the sender and of the receiver, by index.
        seconds: the delays of all deliveries, sorted.
        missing: deliveries that were due and did not come; only UNRELIABLE may have some.
    """

    group: str
    level: ServiceLevel
    near: int
    far: int
    seconds: Sequence[float]
    missing: int

    def quantile(self, part: float) -> float | None:
        """Return the delay that this part of all deliveries does not exceed; None without any."""
        last = len(self.seconds) - 1
        return None if last < 0 else self.seconds[min(last, int(part * len(self.seconds)))]


@attrs.frozen(kw_only=True)
class Measurement:
    """The results of a plan.

    Attributes:
        topology: the plan.
        forming: the time from the start of all daemons to their first view together.
        idle: the traffic with members in all groups and no message sent.
        load: all loads at once.
        messages: the number of messages sent while `load` was counted.
        deliveries: the deliveries of these messages to programs.
        delays: the delays, by group, level and sites.
        views: the number of view changes once there was a view; 0 unless the load was too much.
    """

    topology: Topology
    forming: TrafficPhase
    idle: TrafficPhase
    load: TrafficPhase
    messages: int
    deliveries: int
    delays: Sequence[MeasuredDelays]
    views: int


def measure(topology: Topology, seed: int = 1) -> Measurement:
    """Carry a plan out.

    Args:
        topology: the plan.
        seed: the seed of jitter, loss and the moments of sending.

    Raises:
        PlanFailed: the daemons do not come to one view.
    """
    views: set[str] = set()

    def record(event: TraceEvent) -> None:
        if isinstance(event, Conf) and event.kind == "R":
            views.add(event.view)

    settings = topology.settings(seed)
    cluster = Cluster(settings, record, start=False)
    meter = Meter(cluster.loop, cluster.daemons, [link.sites for link in topology.links])
    cluster.network.observers.append(meter.observe)
    forming = _form(cluster, meter)
    programs = [
        LoadPrograms(cluster, load, place, seed) for place, load in enumerate(topology.loads)
    ]
    cluster.run(JOIN_S)
    views.clear()
    meter.begin()
    cluster.run(IDLE_S)
    idle = meter.end()
    load = _load(cluster, meter, programs, topology.duration_s)
    return Measurement(
        topology=topology,
        forming=forming,
        idle=idle,
        load=load,
        messages=sum(each.sent for each in programs),
        deliveries=sum(len(some) for each in programs for some in each.delays_us.values()),
        delays=_delays(programs),
        views=len(views),
    )


def _form(cluster: Cluster, meter: Meter) -> TrafficPhase:
    cluster.start(form=False)
    hosts = range(len(cluster.daemons))
    while any(host.process is None for host in cluster.daemons) or not cluster.agree(hosts):
        if cluster.loop.now > microseconds(FORM_LIMIT_S):
            raise PlanFailed(
                f"the {len(cluster.daemons)} daemons did not agree on a view within"
                f" {FORM_LIMIT_S:g} s: give links more bandwidth or less loss"
            )
        cluster.run(LOOK_S)
    return meter.end()


def _load(
    cluster: Cluster, meter: Meter, programs: Sequence[LoadPrograms], duration_s: float
) -> TrafficPhase:
    """Run all loads at once until all messages have come; return the traffic."""
    for each in programs:
        each.start()
    cluster.run(WARM_S)
    meter.begin()
    for each in programs:
        each.counting = True
    cluster.run(duration_s)
    phase = meter.end()
    for each in programs:
        each.stop()
    until = cluster.loop.now + microseconds(DRAIN_LIMIT_S)
    while cluster.loop.now < until and _is_missing(programs):
        cluster.run(LOOK_S)
    return phase


def _is_missing(programs: Sequence[LoadPrograms]) -> bool:
    return any(each.missing(site) > 0 for each in programs for site in each.members)


def _delays(programs: Sequence[LoadPrograms]) -> list[MeasuredDelays]:
    """Return the delays of all loads, combined by group, level and sites.

    Groups stay apart, as one site may order a group alone.
    """
    found: dict[tuple[ServiceLevel, int, str, int], tuple[list[int], list[int]]] = {}
    for each in programs:
        for site, delays_us in each.delays_us.items():
            key = (each.load.level, each.load.sender, each.load.group, site)
            times, missing = found.setdefault(key, ([], []))
            times += delays_us
            missing.append(each.missing(site))
    return [
        MeasuredDelays(
            group=group,
            level=level,
            near=near,
            far=far,
            seconds=[time / SECOND for time in sorted(times)],
            missing=sum(missing),
        )
        for (level, near, group, far), (times, missing) in sorted(found.items())
    ]
