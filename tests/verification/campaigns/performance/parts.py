"""The parts of the pages' figures: every run that `make performance` makes.

A part compares: its runs take turns within each round, so that other work on the machine affects
all of them. Parts in virtual time are exact, and run once.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import attrs
import trio

from groupcomm.errors import GroupCommError
from groupcomm.level import LEVELS
from groupcomm_tools.bench.events import Disturbance, Event, measure_event
from groupcomm_tools.bench.figures import Figures
from groupcomm_tools.bench.plan import Plan
from groupcomm_tools.bench.runs import measure, measure_programs, open_daemons
from groupcomm_tools.local_cluster import LocalCluster
from tests.groupcomm_client.end_to_end import bench_end_to_end
from tests.verification.campaigns.bounds import rows
from tests.verification.campaigns.peers import ours_asyncio, ours_blocking, replay
from tests.verification.campaigns.peers.bare_relays import BareRelays
from tests.verification.campaigns.peers.corosync import Corosync
from tests.verification.campaigns.peers.launching import Programs, not_installed, packages_of
from tests.verification.campaigns.peers.nats_server import Nats
from tests.verification.campaigns.peers.ours import Ours
from tests.verification.campaigns.peers.peer import Peer
from tests.verification.campaigns.peers.redis_server import Redis
from tests.verification.campaigns.peers.spread import Spread
from tests.verification.campaigns.peers.table import cpu_us
from tests.verification.campaigns.peers.zeromq import ZeroMq
from tests.verification.campaigns.performance import networks, virtual

Found = dict[str, float]
"""The figures of one run; rates a second, delays in ms, processor time in microseconds."""

FAR_NAMES: Final = ("RELIABLE", "CAUSAL", "AGREED", "SAFE")
"""The levels that are measured between sites: others take as long as RELIABLE."""

LONE: Final = 200
"""Messages a second, so few that each is alone."""

SITES, SITES_RATE, SITES_DELAY_MS = 3, 50, 40
FAR_LEVELS: Final = tuple(level for level in LEVELS if level.name in FAR_NAMES)
HISTORY_MESSAGES, HISTORY_SINGLE = 100_000, 50
OURS: Final = "groupcomm"
SINGLY: Final = "groupcomm, each message awaited"
_KEPT: Final = 0.95
"""The share of a rate that a system has to carry."""
LONE_LOAD: Final = f"100 bytes, {LONE} a second"


@attrs.frozen(kw_only=True)
class Run:
    """One measurement.

    Attributes:
        load, system: what is measured, as the pages name it.
        measure: runs it; raises GroupCommError, OSError or trio.TooSlowError if it cannot be.
        missing: returns what is not installed; empty if it can run.
    """

    load: str
    system: str
    measure: Callable[[], Awaitable[Found]]
    missing: Callable[[], str] = lambda: ""


@attrs.frozen(kw_only=True)
class Part:
    """Runs that are compared.

    Attributes:
        name: for `--only` and the file of figures.
        title: the question that it answers.
        base: the system by which the others are divided; empty for none.
        runs: one round.
        exact: in virtual time: one round is enough.
    """

    name: str
    title: str
    base: str = ""
    runs: Sequence[Run]
    exact: bool = False


class WrongMessages(GroupCommError):
    """Messages were lost, doubled, out of order or changed."""


class NothingArrived(GroupCommError):
    """No message arrived while the rate was measured, as the machine had other work."""


def parts_of(duration_s: float) -> list[Part]:
    """Return all parts, in the order in which they are run.

    Args:
        duration_s: the seconds of one measurement; the load lasts half as long before it.
    """
    plan = Plan(duration_s=duration_s, warm_up_s=duration_s / 2)
    return [
        *_virtual(),
        Part(name="ethernet", title="on an Ethernet", base=OURS, runs=list(_ethernet(plan))),
        Part(name="jumbo", title="on jumbo frames", base=OURS, runs=list(_jumbo(plan))),
        Part(name="queues", title="delay by rate", base=OURS, runs=list(_queues(plan))),
        Part(name="levels", title="delay by level", base="RELIABLE", runs=list(_levels(plan))),
        Part(name="total", title="systems with one order", base=OURS, runs=list(_total(plan))),
        Part(name="brokers", title="servers without one order", base=OURS, runs=list(_one(plan))),
        Part(name="sizes", title="large messages, several senders", runs=list(_sizes(plan))),
        Part(name="forms", title="forms of the API", base="trio", runs=list(_forms(plan))),
        Part(name="secrets", title="groups with a secret", base="open", runs=_secrets()),
        Part(name="many", title="many groups and programs", runs=list(_many())),
        Part(name="events", title="a daemon fails", runs=list(_events())),
        Part(name="sites", title="delay between sites", base="RELIABLE", runs=list(_sites(plan))),
        Part(name="history", title="stored messages", base=OURS, runs=_history()),
    ]


def size_name(size: int) -> str:
    """Return the name of a load of messages of one size, as many as pass."""
    return f"{size // 1_000_000} MB" if size >= 1_000_000 else f"{size:,} bytes"


# ---- one run of a kind ----


def found_of(figures: Figures) -> Found:
    """Return the figures of a run of the benchmark.

    Raises:
        WrongMessages: some were.
        NothingArrived: there is no rate.
    """
    if not figures.is_right:
        raise WrongMessages("messages were lost, doubled, out of order or changed")
    if figures.plan.is_timed:
        assert figures.delay_p50_us is not None
        assert figures.delay_p99_us is not None
        return {"p50_ms": figures.delay_p50_us / 1000, "p99_ms": figures.delay_p99_us / 1000}
    if not figures.msgs_per_s_each:
        raise NothingArrived("no message arrived while the rate was measured")
    return {
        "rate": figures.msgs_per_s_each,
        "mb_s": figures.mb_per_s_each,
        "cpu_us": cpu_us(figures) or 0.0,
        "jain": figures.jain,
    }


async def _peer(peer: Peer, plan: Plan) -> Found:
    adapted = peer.adapted(plan)
    assert adapted is not None
    async with peer.open(adapted) as servers:
        return found_of(await measure_programs(adapted, *servers.commands(adapted), servers.pids))


def _peer_runs(load: str, peers: dict[str, Peer], plan: Plan) -> Iterator[Run]:
    for system, peer in peers.items():
        if peer.adapted(plan) is not None:
            measured = partial(_peer, peer, plan)
            yield Run(load=load, system=system, measure=measured, missing=peer.missing)


async def _queue(peer: Peer, plan: Plan) -> Found:
    async with peer.open(plan) as servers:
        figures = await measure_programs(plan, *servers.commands(plan), servers.pids)
    if figures.is_right and figures.msgs_per_s_each < _KEPT * plan.rate:
        raise NothingArrived(f"it carries {figures.msgs_per_s_each:,.0f} a second only")
    assert figures.delay_p50_us is not None
    assert figures.delay_p99_us is not None
    delays = {"p50_ms": figures.delay_p50_us / 1000, "p99_ms": figures.delay_p99_us / 1000}
    return {**found_of(figures), **delays}


# ---- parts ----


def _ethernet(plan: Plan) -> Iterator[Run]:
    found = networks.peers(OURS, networks.ETHERNET)
    for size in networks.SIZES:
        yield from _peer_runs(size_name(size), found, attrs.evolve(plan, size=size))
    for size in networks.LARGE:
        large = attrs.evolve(plan, size=size)
        yield from _peer_runs(size_name(size), {OURS: found[OURS]}, large)
    yield from _peer_runs(LONE_LOAD, found, attrs.evolve(plan, rate=float(LONE)))


def _jumbo(plan: Plan) -> Iterator[Run]:
    found = networks.peers(OURS, networks.JUMBO)
    for size in networks.SIZES:
        yield from _peer_runs(size_name(size), found, attrs.evolve(plan, size=size))


def _queues(plan: Plan) -> Iterator[Run]:
    found = networks.peers(OURS, networks.ETHERNET)
    for load, each in networks.at_rates(plan):
        for system in (OURS, networks.IN_C, "Corosync"):
            peer = found[system]
            measured = partial(_queue, peer, each)
            yield Run(load=load, system=system, measure=measured, missing=peer.missing)


def _levels(plan: Plan) -> Iterator[Run]:
    lone = attrs.evolve(plan, rate=float(LONE))
    for level in LEVELS:
        ours = {level.name: Ours(OURS)}
        yield from _peer_runs(LONE_LOAD, dict(ours), attrs.evolve(lone, level=level))
    yield from _peer_runs(LONE_LOAD, {"bare relays": BareRelays()}, lone)


def _total(plan: Plan) -> Iterator[Run]:
    peers = {
        OURS: Ours(OURS),
        SINGLY: Ours(SINGLY, bundling=False),
        "Spread": Spread(),
        "Corosync": Corosync(),
        "Corosync, encrypted": Corosync(crypto=True),
        "bare relays": BareRelays(),
    }
    for size in (100, 8_000):
        yield from _peer_runs(size_name(size), peers, attrs.evolve(plan, size=size))
    yield from _peer_runs(LONE_LOAD, peers, attrs.evolve(plan, rate=float(LONE)))


def _one(plan: Plan) -> Iterator[Run]:
    peers = {
        OURS: Ours(OURS),
        "NATS": Nats(),
        "Redis": Redis(),
        "ZeroMQ": ZeroMq(),
        "bare relay": BareRelays(),
    }
    for size, receivers in ((100, 1), (100, 5), (1_000, 5)):
        several = f"{receivers} receiver{'s' * (receivers > 1)}"
        one = attrs.evolve(plan, daemons=1, receivers=receivers, size=size)
        yield from _peer_runs(f"{size_name(size)}, {several}", peers, one)
    lone = attrs.evolve(plan, daemons=1, receivers=1, rate=float(LONE))
    yield from _peer_runs(LONE_LOAD, peers, lone)


def _sizes(plan: Plan) -> Iterator[Run]:
    three = "three daemons, a receiver at each"
    for size in (1_000, 100_000, 4_000_000):
        yield from _peer_runs(size_name(size), {three: Ours(three)}, attrs.evolve(plan, size=size))
    senders = "three daemons, three senders"
    several = attrs.evolve(plan, senders=3)
    yield from _peer_runs(size_name(100), {senders: Ours(senders)}, several)
    for way, unix in (("unix socket", True), ("TCP", False)):
        one = f"one daemon, {way}"
        for size in (100, 1_000, 100_000) if unix else (100,):
            alone = attrs.evolve(plan, daemons=1, receivers=1, size=size, unix=unix)
            yield from _peer_runs(size_name(size), {one: Ours(one)}, alone)


async def _form(module: str, plan: Plan) -> Found:
    with TemporaryDirectory(prefix="groupcomm-") as folder:
        async with open_daemons(plan) as (addresses, pids):
            programs = Programs(module, addresses, Path(folder))
            return found_of(await measure_programs(plan, *programs(plan), pids))


def _forms(plan: Plan) -> Iterator[Run]:
    modules = {"asyncio": ours_asyncio.__name__, "threads": ours_blocking.__name__}
    singly = attrs.evolve(plan, bundling=False)
    for load, each in (
        ("awaited one by one", singly),
        (LONE_LOAD, attrs.evolve(singly, rate=float(LONE))),
    ):
        yield from _peer_runs(load, {"trio": Ours("trio", bundling=each.is_timed)}, each)
        for form, module in modules.items():
            yield Run(load=load, system=form, measure=partial(_form, module, each))


async def _secret(*, sealed: bool) -> Found:
    async with LocalCluster("ab", "timing = {token_timeout_s = 5.0}") as cluster:
        await cluster.settle("ab")
        return {"rate": await bench_end_to_end.send(cluster, sealed=sealed)}


def _secrets() -> list[Run]:
    load = f"{bench_end_to_end.BYTES} bytes"
    return [
        Run(load=load, system=name, measure=partial(_secret, sealed=sealed))
        for name, sealed in (("open", False), ("with a secret", True))
    ]


async def _event(kind: Disturbance, preset: str) -> Found:
    times = await measure_event(Event(kind=kind, preset=preset))
    return attrs.asdict(times)


_EVENTS: Final = {
    Disturbance.KILL: "killed (kill -9), started again",
    Disturbance.LEAVE: "stopped (SIGTERM), started again",
    Disturbance.PARTITION: "cut off, healed",
}


def _events() -> Iterator[Run]:
    for kind, load in _EVENTS.items():
        for preset in ("local", "lan"):
            yield Run(load=load, system=preset, measure=partial(_event, kind, preset))


MANY: Final = {
    "groups": ("groups", 100_000, (1_000, 10_000, 100_000)),
    "message": ("programs", 10_000, (100, 1_000, 10_000)),
    "crash": ("programs", 5_000, (100, 1_000, 10_000)),
}
"""By row of the campaign `bounds`: what it has many of, at full scale how many, and here."""


async def _row(name: str, scale: float) -> Found:
    found = await rows.measure(name, scale)
    bars = {bar: figure for bar, (figure, _) in found["bars"].items()}
    others = {figure: found[figure] for figure in ("joined_s", "last_s") if figure in found}
    return {**bars, **others, "silence_ms": found["load"]["silence"]}


def _many() -> Iterator[Run]:
    for name, (what, full, counts) in MANY.items():
        for count in counts:
            measured = partial(_row, name, count / full)
            yield Run(load=f"{count:,} {what}", system=name, measure=measured)


async def _far(plan: Plan) -> Found:
    async with open_daemons(plan) as (addresses, pids):
        figures = await measure(plan, addresses, pids)
    found_of(figures)
    home, *far = figures.by_site.values()
    delays = {"home_ms": home.delay_p50_us, "far_ms": max(s.delay_p50_us or 0 for s in far)}
    return {name: (us or 0.0) / 1000 for name, us in delays.items()}


def _sites(plan: Plan) -> Iterator[Run]:
    load = f"{SITES} sites, {SITES_DELAY_MS} ms apart, {SITES_RATE} a second"
    for level in FAR_LEVELS:
        far = attrs.evolve(
            plan, level=level, rate=float(SITES_RATE), sites=SITES, delay_ms=float(SITES_DELAY_MS)
        )
        yield Run(load=load, system=level.name, measure=partial(_far, far))


def _history() -> list[Run]:
    load = f"{HISTORY_MESSAGES:,} messages of {len(replay.DATA)} bytes"
    counts = HISTORY_MESSAGES, HISTORY_SINGLE

    async def ours() -> Found:
        try:
            return await trio.to_thread.run_sync(replay.measure_ours, *counts)
        except AssertionError as error:  # the archive of the tests says so that it does not start
            raise GroupCommError(str(error)) from error

    def nats_missing() -> str:
        return not_installed(packages_of(nats_server="nats-server"), ["nats"])

    def redis_missing() -> str:
        return not_installed(packages_of(redis_server="redis-server"), ["redis", "hiredis"])

    return [
        Run(load=load, system=OURS, measure=ours),
        Run(
            load=load,
            system="NATS JetStream",
            measure=partial(replay.measure_nats, *counts),
            missing=nats_missing,
        ),
        Run(
            load=load,
            system="Redis streams",
            measure=partial(replay.measure_redis, *counts),
            missing=redis_missing,
        ),
    ]


def _virtual() -> list[Part]:
    """Return the parts in virtual time: the real core, and a network that is simulated."""

    def runs(found: Iterator[tuple[str, str, Callable[[], Found]]]) -> list[Run]:
        return [
            Run(load=load, system=system, measure=partial(trio.to_thread.run_sync, measure))
            for load, system, measure in found
        ]

    return [
        Part(name="costs", title="the work of a message", runs=runs(virtual.costs()), exact=True),
        Part(
            name="between",
            title="delay between sites, in one-way delays",
            runs=runs(virtual.between()),
            exact=True,
        ),
        Part(name="groups", title="the number of groups", runs=runs(virtual.groups()), exact=True),
        Part(name="growth", title="daemons and sites", runs=runs(virtual.growth()), exact=True),
        Part(name="crowds", title="large idle clusters", runs=runs(virtual.crowds()), exact=True),
        Part(
            name="first-views",
            title="first views of large clusters",
            runs=runs(virtual.first_views()),
            exact=True,
        ),
    ]
