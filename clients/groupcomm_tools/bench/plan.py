"""The parameters of one run of the benchmark."""

from typing import Final

import attrs

from groupcomm.errors import ConfigError
from groupcomm.level import ServiceLevel
from groupcomm.wire.messages import MAX_MESSAGE_BYTES
from groupcomm_tools.topology import Topology, make_line

GROUP: Final = "bench"
DAEMONS: Final = ("alfa", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel")

LEAST_BYTES: Final = 16
"""A message holds the time and a number."""

PROBES_PER_S: Final = 200
"""Messages a second, of one sender, that carry the time, for delays under load."""

TIMED_RATE: Final = 5_000
"""Up to this rate, in messages a second of one sender, each message carries the time."""


@attrs.frozen(kw_only=True)
class Plan:
    """Parameters of a run; they appear in its figures by these names.

    Attributes:
        daemons: number of daemons to start on this host; 0 to use running daemons.
        senders, receivers: programs, dealt out to the daemons in turn.
        size: the bytes of a message.
        level: the level of all messages.
        rate: the messages a second of all senders together; 0 for as many as pass.
        duration_s: length of the measurement.
        warm_up_s: length of the load before the measurement.
        bundling: senders pass many messages at once; else they await each one.
        unix: programs use unix sockets, else TCP.
        tls: programs use TLS, unless they use unix sockets.
        encryption: daemons encrypt datagrams; else datagrams carry a checksum.
        packet_bytes: size of a datagram between daemons.
        spin: daemons never sleep.
        idle_sessions: number of other connected programs, which do nothing.
        idle_groups: number of groups of these programs, with one member each.
        sites: the number of sites among which the daemons are shared.
        shape: the sites that have a link: mesh, chain, ring or star.
        delay_ms, jitter_ms: the delay and the jitter of each link, one way.
        loss: the probability that a datagram is lost on a link.
        mbit: bandwidth of each link, megabits a second; None for any.
        members_in: number of sites with programs, from the first one on; 0 for all.
    """

    daemons: int = 3
    senders: int = 1
    receivers: int = 3
    size: int = 100
    level: ServiceLevel = ServiceLevel.AGREED
    rate: float = 0.0
    duration_s: float = 5.0
    warm_up_s: float = 1.0
    bundling: bool = True
    unix: bool = True
    tls: bool = False
    encryption: bool = True
    packet_bytes: int = 60_000
    spin: bool = False
    idle_sessions: int = 0
    idle_groups: int = 0
    sites: int = 1
    shape: str = "mesh"
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0
    mbit: float | None = None
    members_in: int = 0

    def __attrs_post_init__(self) -> None:
        least = {"senders": 1, "receivers": 1, "size": LEAST_BYTES, "rate": 0}
        for name, value in least.items():
            if getattr(self, name) < value:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least {value}")
        if self.size > MAX_MESSAGE_BYTES:
            raise ConfigError(f"size is {self.size}; a message has at most {MAX_MESSAGE_BYTES}")
        if not self.duration_s > 0:
            raise ConfigError(f"duration_s is {self.duration_s}; it must be above 0")

    @property
    def way(self) -> str:
        """Return the way in which programs connect, as text."""
        return "unix" if self.unix else "TLS" if self.tls else "TCP"

    @property
    def is_timed(self) -> bool:
        """Return whether every message carries the time."""
        return 0 < self.rate / self.senders <= TIMED_RATE


def topology_of(plan: Plan) -> Topology:
    """Return the sites of a plan's daemons, and the links between them."""
    line = make_line(
        delay_ms=plan.delay_ms, jitter_ms=plan.jitter_ms, mbit=plan.mbit, loss=plan.loss
    )
    return Topology.of(DAEMONS[: plan.daemons], plan.sites, line, plan.shape)


def members_of(plan: Plan) -> list[str]:
    """Return the daemons that programs connect to, in turn."""
    chosen = list(topology_of(plan).sites.values())[: plan.members_in or plan.sites]
    return [name for names in chosen for name in names]
