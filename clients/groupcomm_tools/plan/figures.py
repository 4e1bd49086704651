"""The figures of a plan, which tables, pages and scripts show."""

from collections.abc import Sequence
from typing import Any, Final

import attrs

from groupcomm_tools.plan.measure import MeasuredDelays, Measurement
from groupcomm_tools.plan.traffic import TrafficPhase, bodies_per_s

KILOBIT_BYTES: Final = 125.0
MEGABYTE: Final = 1_000_000.0


@attrs.frozen(kw_only=True)
class DelayFigures:
    """Delays in a group, at a level, between two sites, in ms; None without a delivery."""

    group: str
    level: str
    sender: str
    receiver: str
    deliveries: int
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    missing: int


@attrs.frozen(kw_only=True)
class WayFigures:
    """Figures of one direction of a link under load.

    Attributes:
        link: names of the sites, from and to.
        kbit_per_s: traffic, with all headers of IP, UDP and encryption.
        datagrams_per_s: datagrams sent.
        lost: datagrams lost, by the link's loss or for lack of room.
        bodies_kbit_per_s: traffic that the bodies of the messages alone need.
        overhead: all bytes divided by the bytes of these bodies; None if there are none.
        idle_kbit_per_s: traffic while nothing is sent.
        used: share of the bandwidth; None if that is not limited.
        kinds_kbit_per_s: traffic by the kind of packets.
    """

    link: str
    kbit_per_s: float
    datagrams_per_s: float
    lost: int
    bodies_kbit_per_s: float
    overhead: float | None
    idle_kbit_per_s: float
    used: float | None
    kinds_kbit_per_s: dict[str, float]


@attrs.frozen(kw_only=True)
class DaemonFigures:
    """Figures of one daemon under load, for each second; bytes are those of its network card."""

    daemon: str
    sent_datagrams: float
    sent_kbit: float
    received_datagrams: float
    received_kbit: float
    steps: float


@attrs.frozen(kw_only=True)
class CostFigures:
    """The cost of a cluster of this size.

    Attributes:
        sites, daemons: numbers of sites and daemons.
        forming_s: the seconds from the start of all daemons to one view.
        forming_datagrams, forming_mb: the datagrams and megabytes received until then, at all
            daemons.
        forming_unheard: the datagrams sent until then to sites where nobody hears the sender.
        idle_datagrams_per_s: the datagrams that a daemon receives on average, while nothing is
            sent.
        idle_kbit_per_s: the rate on the busiest direction of a link, while nothing is sent.
        load_kbit_per_s: the same under load.
        datagrams_per_message: the datagrams received at all daemons, beyond those of an idle
            cluster.
        steps_per_message: steps of all daemons; one step handles everything that has come
            meanwhile.
        messages, deliveries: counted messages and deliveries.
        views: view changes because of the load; more than 0 means that it is too much.
    """

    sites: int
    daemons: int
    forming_s: float
    forming_datagrams: int
    forming_mb: float
    forming_unheard: int
    idle_datagrams_per_s: float
    idle_kbit_per_s: float
    load_kbit_per_s: float
    datagrams_per_message: float | None
    steps_per_message: float | None
    messages: int
    deliveries: int
    views: int


@attrs.frozen(kw_only=True)
class PlanFigures:
    """All figures of a plan."""

    cost: CostFigures
    delays: Sequence[DelayFigures]
    links: Sequence[WayFigures]
    daemons: Sequence[DaemonFigures]

    def as_json(self) -> dict[str, Any]:
        """Return the figures for JSON; numbers have at most four decimals."""
        rounded: dict[str, Any] = _rounded(attrs.asdict(self))
        return rounded

    @property
    def wrong(self) -> str:
        """Why the other figures mean little; empty if they are valid."""
        if self.cost.views:
            return f"the daemons changed their view {self.cost.views} times under this load"
        late = sum(each.missing for each in self.delays if each.level != "UNRELIABLE")
        return f"{late} deliveries did not come: the load is too much" if late else ""


def figures_of(measured: Measurement) -> PlanFigures:
    """Return the figures of a plan."""
    return PlanFigures(
        cost=_cost(measured),
        delays=[_delay(measured, delay) for delay in measured.delays],
        links=_links(measured),
        daemons=_daemons(measured),
    )


def _delay(measured: Measurement, delay: MeasuredDelays) -> DelayFigures:
    def ms(part: float) -> float | None:
        seconds = delay.quantile(part)
        return None if seconds is None else 1000 * seconds

    names = measured.topology.names
    return DelayFigures(
        group=delay.group,
        level=delay.level.name,
        sender=names[delay.near],
        receiver=names[delay.far],
        deliveries=len(delay.seconds),
        p50_ms=ms(0.5),
        p99_ms=ms(0.99),
        max_ms=ms(1.0),
        missing=delay.missing,
    )


def _links(measured: Measurement) -> list[WayFigures]:
    plan, load = measured.topology, measured.load
    widths = {link.sites: link.bytes_per_s for link in plan.links}
    bodies = bodies_per_s(plan)
    found = []
    for (near, far), way in load.ways.items():
        bytes_per_s = way.sent.bytes / load.seconds
        width = widths[min(near, far), max(near, far)]
        body = bodies[near, far]
        found.append(
            WayFigures(
                link=plan.link_name(near, far),
                kbit_per_s=bytes_per_s / KILOBIT_BYTES,
                datagrams_per_s=way.sent.datagrams / load.seconds,
                lost=way.lost,
                bodies_kbit_per_s=body / KILOBIT_BYTES,
                overhead=bytes_per_s / body if body else None,
                idle_kbit_per_s=_busiest(measured.idle, (near, far)),
                used=bytes_per_s / width if width else None,
                kinds_kbit_per_s={
                    kind: size / load.seconds / KILOBIT_BYTES
                    for kind, size in way.kinds.most_common()
                },
            )
        )
    return found


def _daemons(measured: Measurement) -> list[DaemonFigures]:
    plan, load = measured.topology, measured.load
    places = [
        f"{name} {at + 1}"
        for name, size in zip(plan.names, plan.sizes, strict=True)
        for at in range(size)
    ]
    counts = zip(places, load.sent, load.received, load.steps, strict=True)
    return [
        DaemonFigures(
            daemon=place,
            sent_datagrams=sent.datagrams / load.seconds,
            sent_kbit=sent.bytes / load.seconds / KILOBIT_BYTES,
            received_datagrams=received.datagrams / load.seconds,
            received_kbit=received.bytes / load.seconds / KILOBIT_BYTES,
            steps=steps / load.seconds,
        )
        for place, sent, received, steps in counts
    ]


def _cost(measured: Measurement) -> CostFigures:
    plan, forming, idle, load = (
        measured.topology,
        measured.forming,
        measured.idle,
        measured.load,
    )
    idle_per_s = sum(count.datagrams for count in idle.received) / idle.seconds
    datagrams = sum(count.datagrams for count in load.received) - idle_per_s * load.seconds
    messages = measured.messages
    return CostFigures(
        sites=len(plan.names),
        daemons=sum(plan.sizes),
        forming_s=forming.seconds,
        forming_datagrams=sum(count.datagrams for count in forming.received),
        forming_mb=sum(count.bytes for count in forming.received) / MEGABYTE,
        forming_unheard=forming.unheard,
        idle_datagrams_per_s=idle_per_s / sum(plan.sizes),
        idle_kbit_per_s=max((_busiest(idle, way) for way in idle.ways), default=0.0),
        load_kbit_per_s=max((_busiest(load, way) for way in load.ways), default=0.0),
        datagrams_per_message=datagrams / messages if messages else None,
        steps_per_message=sum(load.steps) / messages if messages else None,
        messages=messages,
        deliveries=measured.deliveries,
        views=measured.views,
    )


def _busiest(phase: TrafficPhase, way: tuple[int, int]) -> float:
    """Return the kilobits a second on one direction of a link."""
    return phase.ways[way].sent.bytes / phase.seconds / KILOBIT_BYTES


def _rounded(found: Any) -> Any:
    match found:
        case float():
            return round(found, 4)
        case dict():
            return {key: _rounded(value) for key, value in found.items()}
        case list() | tuple():
            return [_rounded(value) for value in found]
        case _:
            return found
