"""The generated blocks of pages, in Markdown: tables and pictures of the figures. Pure."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final

from groupcomm.level import LEVELS
from tests.costs.first_views import FORMING
from tests.costs.idle import FAMILIES
from tests.verification.campaigns.peers.bare_relays import BareClient
from tests.verification.campaigns.peers.peer import Client
from tests.verification.campaigns.peers.spread import SpreadClient
from tests.verification.campaigns.performance import networks
from tests.verification.campaigns.performance.parts import (
    LONE_LOAD,
    MANY,
    OURS,
    SINGLY,
    parts_of,
    size_name,
)
from tests.verification.campaigns.performance.records import Cell, Data, NotMeasured, Recorded
from tests.verification.campaigns.performance.text import NONE, amount, ratio, sentence, table
from tests.verification.campaigns.performance.virtual import (
    BEACONS,
    BETWEEN,
    FORMS,
    RATE,
    RATES,
    SHAPES,
    crowd_name,
    growth_of,
)

Block = Callable[[], str]

BUSY: Final = 0.5
"""The load average from which other work is said to have disturbed a run."""

VIRTUAL: Final = "in virtual time"
_MIB: Final = 1 << 20
_SHAPE: Final = (
    "three daemons, one sender, a receiver at each; messages a second that each receives."
)
_DELAYS: Final = (LONE_LOAD, "p50, ms", "ours to it", "p99, ms", "ours to it")
_SIZES: Final = ("100 bytes", "1,000 bytes", "8,000 bytes", "100,000 bytes", "4 MB")


def blocks(data: Data) -> Mapping[str, Block]:
    """Return all blocks, by name; each renders when it is called."""
    found: dict[str, Block] = {
        "when": partial(when, data),
        "ethernet": partial(ethernet, data),
        "jumbo": partial(jumbo, data),
        "queues": partial(queues, data),
        "levels": partial(levels, data),
        "sizes": partial(sizes, data),
        "total": partial(total, data),
        "total-delays": partial(total_delays, data),
        "brokers": partial(brokers, data),
        "events": partial(events, data),
        "sites": partial(sites, data),
        "history": partial(history, data),
        "fairness": fairness,
        "work": partial(work, data),
        "work-rates": partial(work_rates, data),
        "groups": partial(groups, data),
        "growth": partial(growth, data),
        "crowds": partial(crowds, data),
        "first-views": partial(first_views, data),
        "many-groups": partial(many_groups, data),
        "many-programs": partial(many_programs, data),
        "forms": partial(forms, data),
        "secrets": partial(secrets, data),
        "measured-here": partial(measured_here, data),
        **{f"picture-{name}": partial(picture, name) for name in PICTURES},
    }
    return {name: partial(_or_not, block) for name, block in found.items()}


def _or_not(block: Block) -> str:
    try:
        return block()
    except NotMeasured as part:
        return f"The part `{part}` is not measured yet."


PICTURES: Final = {
    "levels": "Median delay of each level: in one site in milliseconds, between sites in delays of"
    " one datagram",
    "work": "Datagrams, bytes and Python calls of one message at each level, over three daemons",
    "total": "Messages a second at each of three receivers: groupcomm, Spread, Corosync, bare"
    " relays; 100 and 8,000 bytes",
    "brokers": "Messages a second through one daemon or server: groupcomm, NATS, Redis, ZeroMQ",
    "growth": "Datagrams a message, and those an idle daemon receives a second, by sites and"
    " daemons",
    "crowds": "Datagrams and bytes that an idle daemon of a large cluster receives a second, with"
    " beacons to all and to partners",
    "first-views": "Datagrams and bytes that a daemon of a large cluster receives until the first"
    " view, if each tells each other one and if relays pass it on",
}
"""The texts of the pictures, for readers who do not see them."""


def picture(name: str) -> str:
    """Return a link to a picture."""
    return f"![{PICTURES[name]}](figures/{name}.svg)"


# ---- when and where ----


def when(data: Data) -> str:
    """Return the machines, and when each part was measured."""
    machines = dict.fromkeys(_machine(part) for part in data.values())
    titles = {part.name: (part.title, part.exact) for part in parts_of(1.0)}
    rows = []
    for name, (title, exact) in titles.items():
        if name not in data:
            rows.append([title, f"`{name}`", "not yet", NONE, NONE, NONE])
            continue
        part = data[name]
        rounds = VIRTUAL if exact else f"{part.rounds} of {part.duration_s:g} s"
        load = NONE if exact else _load(part)
        rows.append([title, f"`{name}`", part.measured, f"`{part.commit}`", rounds, load])
    columns = ("part", "`--only`", "measured", "commit", "rounds", "load before")
    lines = [f"Machine: {'; '.join(machines)}.", "", table(columns, rows)]
    releases: dict[str, str] = {}
    for part in data.values():
        releases.update(part.releases)
    others = sentence([f"{name} {release}" for name, release in releases.items()])
    return "\n".join([*lines, "", f"Measured with {others}."])


def _machine(part: Recorded) -> str:
    its = part.machine
    return (
        f"{its['processors']} processors ({its['model']}), {its['memory']} of memory,"
        f" {its['kernel']}, {its['python']}"
    )


def _load(part: Recorded) -> str:
    busy = " (busy)" if part.load_before > BUSY * int(part.machine["processors"]) else ""
    return f"{part.load_before:g}{busy}"


def _notes(part: Recorded, *, exact: bool = False) -> str:
    """Return when a table was measured, and what in it is older or was disturbed."""
    if exact:
        return f"\n\nMeasured {VIRTUAL} on {part.measured}: exact, and the same again."
    told = f"Measured on {part.measured}, medians of {part.rounds} round{'s' * (part.rounds > 1)}"
    if part.load_before > BUSY * int(part.machine["processors"]):
        told += (
            f", **on a busy machine** (load average {part.load_before:g}): compare within the"
            " table only"
        )
    older = [f"{system} (on {day})" for system, day in part.older.items()]
    if older:
        told += f". Not measured again then: {sentence(older)}, in turn with groupcomm on that day"
    return f"\n\n{told}."


# ---- the tables ----


def levels(data: Data) -> str:
    """Return the delays of lone messages of each level."""
    real, far = data["levels"], data["between"]
    least, rows = real.median(LONE_LOAD, "RELIABLE", "p50_ms"), []
    for system in real.systems:
        cell = real.cell(LONE_LOAD, system)
        assert cell is not None
        p50 = cell.median("p50_ms")
        rows.append(
            [
                system,
                amount(p50),
                amount(cell.median("p99_ms")),
                ratio(p50 / least) if p50 and least else NONE,
                ratio(far.median(BETWEEN, system, "p50")),
            ]
        )
    columns = (
        "level",
        "one site: p50, ms",
        "p99, ms",
        "this p50 to RELIABLE's",
        "three sites: p50, in delays of one datagram",
    )
    head = f"Three daemons, a receiver at each, {LONE_LOAD}.\n\n"
    return head + table(columns, rows) + _notes(real)


def _inverse(value: float | None) -> str:
    return NONE if not value else ratio(1 / value)


def sizes(data: Data) -> str:
    """Return our rates by the size of messages."""
    total, own, one = data["total"], data["sizes"], data["brokers"]
    three = "three daemons, a receiver at each"
    rows = []

    def row(where: str, load: str, part: Recorded, part_load: str, system: str) -> None:
        found = [part.median(part_load, system, name) for name in ("rate", "mb_s")]
        if found[0] is not None:
            rows.append([where, load, *map(amount, found)])

    for load in _SIZES:
        row(three, load, total, load, OURS)
        row(three, load, own, load, three)
    row("the same, each message awaited", "100 bytes", total, "100 bytes", SINGLY)
    senders = "three daemons, three senders"
    row("the same, three senders", "100 bytes", own, "100 bytes", senders)
    for system in own.systems:
        for load in sorted(own.loads, key=_SIZES.index):
            if system.startswith("one"):
                row(f"{system}, one receiver", load, own, load, system)
    for load in ("100 bytes", "1,000 bytes"):
        row("one daemon, five receivers", load, one, f"{load}, 5 receivers", OURS)
    columns = ("daemons and programs", "message", "messages/s each", "MB/s each")
    jain = own.median("100 bytes", senders, "jain")
    fair = f"\n\nJain's index of the shares of the three senders: {jain:.3f}." if jain else ""
    return table(columns, rows) + fair + _notes(own)


def total(data: Data) -> str:
    """Return the rates of systems with one order for all."""
    part = data["total"]
    loads = ("100 bytes", "8,000 bytes")
    head = f"Loopback, `packet_bytes = 60000`; {_SHAPE}"
    return f"{head}\n\n{_rates(part, loads)}{_notes(part)}"


def _rates(part: Recorded, loads: Sequence[str]) -> str:
    """Return a table of rates and ratios, and one of processor time."""
    columns = ["system"]
    for load in loads:
        columns += [f"{load}: messages/s", "ours to it"]
    rows, times = [], []
    for system in part.systems:
        row = [system]
        for load in loads:
            cell = part.cell(load, system)
            row += [NONE] * 2 if cell is None else _rate(cell)
        rows.append(row)
        times.append([system, *(amount(part.median(load, system, "cpu_us")) for load in loads)])
    processor = table(("processor time of all programs for a message, µs", *loads), times)
    return f"{table(columns, rows)}\n\n{processor}"


def _rate(cell: Cell) -> list[str]:
    return [amount(cell.median("rate")), ratio(cell.base.get("rate"))]


def ethernet(data: Data) -> str:
    """Return the rates and lone messages of systems on an Ethernet."""
    part = data["ethernet"]
    alone = [
        [load, amount(part.median(load, OURS, "rate")), amount(part.median(load, OURS, "mb_s"))]
        for load in map(size_name, networks.LARGE)
    ]
    lone = [[system, *_delays(part, system)] for system in part.systems]
    return "\n\n".join(
        [
            f"MTU {networks.ETHERNET:,}, default settings, encrypted; {_SHAPE}",
            _rates(part, [size_name(size) for size in networks.SIZES]),
            table(("groupcomm alone", "messages/s", "MB/s"), alone),
            table(_DELAYS, lone),
        ]
    ) + _notes(part)


def jumbo(data: Data) -> str:
    """Return the rates of systems on a network of jumbo frames."""
    part = data["jumbo"]
    head = f"MTU {networks.JUMBO:,}, default settings, encrypted; {_SHAPE}"
    return f"{head}\n\n{_rates(part, part.loads)}{_notes(part)}"


def queues(data: Data) -> str:
    """Return the delays by rate."""
    part = data["queues"]
    columns = [f"MTU {networks.ETHERNET:,}"]
    for system in part.systems:
        columns += [f"{system}: p50, ms", "p99, ms"]
    return table(columns, _by_system(part, ("p50_ms", "p99_ms"))) + _notes(part)


def _by_system(part: Recorded, figures: Sequence[str]) -> list[list[str]]:
    """Return a row for each load, with these figures of each system."""
    return [
        [load, *(amount(part.median(load, one, name)) for one in part.systems for name in figures)]
        for load in part.loads
    ]


def _delays(part: Recorded, system: str) -> list[str]:
    cell = part.cell(LONE_LOAD, system)
    if cell is None:
        return [NONE] * 4
    found = (
        [amount(cell.median(name)), ratio(cell.base.get(name))] for name in ("p50_ms", "p99_ms")
    )
    return [*chain(*found)]


def total_delays(data: Data) -> str:
    """Return the delays of lone messages through all systems."""
    rows = []
    for name, where in (("total", "three daemons"), ("brokers", "one daemon or server")):
        part = data[name]
        rows += [
            [f"{where}: {system}", *_delays(part, system)]
            for system in part.systems
            if part.cell(LONE_LOAD, system)
        ]
    return table(_DELAYS, rows) + _notes(data["total"])


def brokers(data: Data) -> str:
    """Return the rates of servers without one order."""
    part = data["brokers"]
    head = "One daemon or server, one sender; messages a second that each receiver gets."
    return f"{head}\n\n{_rates(part, part.loads[:3])}{_notes(part)}"


def events(data: Data) -> str:
    """Return the times until programs know of a daemon that has gone, or is back."""
    part = data["events"]
    columns = ["one of three daemons is"]
    for preset in part.systems:
        columns += [f"preset `{preset}`: new view, ms", "one view again, ms"]
    return table(columns, _by_system(part, ("view_ms", "merged_ms"))) + _notes(part)


def sites(data: Data) -> str:
    """Return the delays of levels between sites, real daemons and a relay."""
    part = data["sites"]
    (load,) = part.loads
    rows = [
        [
            level,
            amount(part.median(load, level, "home_ms")),
            amount(part.median(load, level, "far_ms")),
            ratio(data["between"].median(BETWEEN, level, "p50")),
        ]
        for level in part.systems
    ]
    columns = (
        "level",
        "in the sender's site: p50, ms",
        "in the farthest: p50, ms",
        "in virtual time, delays of one datagram",
    )
    return f"{load[0].upper()}{load[1:]}.\n\n{table(columns, rows)}{_notes(part)}"


def history(data: Data) -> str:
    """Return how fast stored messages come."""
    part = data["history"]
    (load,) = part.loads
    rows = [
        [
            system,
            amount(part.median(load, system, "replay")),
            amount(part.median(load, system, "durable_ms")),
            amount(part.median(load, system, "restart_ms")),
        ]
        for system in part.systems
    ]
    columns = (
        load,
        "replay, messages/s",
        "from publishing until it is kept, ms",
        "from connecting until the first missed message, ms",
    )
    return table(columns, rows) + _notes(part)


def fairness() -> str:
    """Return the settings of the comparison, from the code."""
    windows = (
        ("other systems", Client.window_bytes),
        ("Spread", SpreadClient.window_bytes),
        ("bare relays", BareClient.window_bytes),
    )
    told = sentence([f"{name} {size // _MIB} MiB" for name, size in windows])
    return f"The most by which a sender is ahead of the slowest receiver: {told}."


def work(data: Data) -> str:
    """Return the work of a message by level."""
    part = data["costs"]
    load = f"{RATE} a second"
    names = ("steps", "datagrams", "bytes", "calls")
    rows = [
        [level.name, *(amount(part.median(load, level.name, name)) for name in names)]
        for level in LEVELS
    ]
    head = f"Three daemons, a member at each, one sender of {load}; for each message, over all"
    head += " daemons."
    columns = ("level", "steps", "datagrams", "bytes", "Python calls")
    return f"{head}\n\n{table(columns, rows)}{_notes(part, exact=True)}"


def work_rates(data: Data) -> str:
    """Return the datagrams of a message by rate."""
    part = data["costs"]
    loads = [*(f"{rate:,} a second" for rate in RATES), f"{RATE} a second, three senders in turn"]
    rows = [
        [load, *(amount(part.median(load, level.name, "datagrams")) for level in LEVELS)]
        for load in loads
    ]
    columns = ("datagrams a message", *(level.name for level in LEVELS))
    return table(columns, rows) + _notes(part, exact=True)


def groups(data: Data) -> str:
    """Return the work of a message by the number of groups."""
    part = data["groups"]
    names = ("steps", "datagrams", "bytes", "calls")
    rows = [
        [f"{cell.load}, {cell.system}", *(amount(cell.median(name)) for name in names)]
        for cell in part.cells
    ]
    columns = ("each of three members is in", "steps", "datagrams", "bytes", "Python calls")
    return table(columns, rows) + _notes(part, exact=True)


def many_groups(data: Data) -> str:
    """Return what the number of groups costs real daemons."""
    head = (
        "Three daemons, and programs that are in 1,000 groups each at most. A daemon is killed, its"
    )
    head += " programs connect to the others and join again, and it comes back."
    columns = {
        "until all are joined, s": ("groups", "joined_s"),
        "bytes a group and daemon": ("groups", "bytes_a_group"),
        "longest silence of others, ms": ("groups", "silence_ms"),
        "views lost": ("groups", "views_lost"),
    }
    return _table_of_many(data, head, "groups", columns)


def many_programs(data: Data) -> str:
    """Return what the number of programs costs real daemons."""
    head = "Programs of one daemon get one message. Programs of three daemons, ten in each group:"
    head += " a daemon is killed, and its programs connect to the others at once."
    columns = {
        "a message: the last has it after, s": ("message", "last_s"),
        "a crash: longest silence of others, ms": ("crash", "silence_ms"),
        "until all are served again, s": ("crash", "served_s"),
        "views lost": ("crash", "views_lost"),
    }
    return _table_of_many(data, head, "message", columns)


def _table_of_many(
    data: Data, head: str, first: str, columns: Mapping[str, tuple[str, str]]
) -> str:
    part, (what, _, counts) = data["many"], MANY[first]
    loads = [f"{count:,} {what}" for count in counts]
    rows = [
        [load, *(amount(part.median(load, system, name)) for system, name in columns.values())]
        for load in loads
    ]
    return f"{head}\n\n{table((what, *columns), rows)}{_notes(part)}"


def growth(data: Data) -> str:
    """Return the costs of clusters by the number of sites and daemons."""
    part = data["growth"]
    names = ("p50_ms", "datagrams", "idle", "forming")
    rows = []
    for site_count, daemons in SHAPES:
        load, system = f"{daemons} daemons", f"{site_count} site{'s' * (site_count > 1)}"
        rows.append([f"{system}, {load}", *(amount(part.median(load, system, n)) for n in names)])
    columns = (
        "cluster",
        "AGREED at the farthest: p50, ms",
        "datagrams a message",
        "idle: a daemon receives/s",
        "datagrams until one view",
    )
    head = "Sites 20 ms apart, each linked to each; a member at each daemon, one sender of 50"
    head += " AGREED messages of 200 bytes a second."
    return f"{head}\n\n{table(columns, rows)}{_notes(part, exact=True)}"


def crowds(data: Data) -> str:
    """Return what an idle daemon of a large cluster receives, and how that grows."""
    part = data["crowds"]
    rows = []
    for shapes in FAMILIES.values():
        fits = []
        for beacons in BEACONS:
            found = [part.median(crowd_name(*shape), beacons, "datagrams") for shape in shapes]
            known = [value for value in found if value is not None]
            fits.append(amount(growth_of(shapes, known) if len(known) == len(found) else None))
        for shape in shapes:
            name = crowd_name(*shape)
            row = [part.median(name, beacons, "datagrams") for beacons in BEACONS]
            row += [part.median(name, beacons, "kbytes") for beacons in BEACONS]
            row.append(part.median(name, "to partners", "most"))
            rows.append([name, *map(amount, row), *fits])
    columns = (
        "cluster",
        "datagrams/s, beacons to all",
        "to partners",
        "kB/s, beacons to all",
        "to partners",
        "datagrams/s of the busiest",
        "exponent, beacons to all",
        "to partners",
    )
    head = "What a daemon receives while nothing happens, on average; sites 20 ms apart, each"
    head += " linked to each. The exponents are those of the number of daemons, fitted to the"
    head += " datagrams of all clusters that grow alike."
    return f"{head}\n\n{table(columns, rows)}{_notes(part, exact=True)}"


def first_views(data: Data) -> str:
    """Return what a daemon of a large cluster receives for a first view, and how that grows."""
    part = data["first-views"]
    rows = []
    for shapes in FORMING.values():
        fits = []
        for form in FORMS:
            found = [part.median(crowd_name(*shape), form, "datagrams") for shape in shapes]
            known = [value for value in found if value is not None]
            fits.append(amount(growth_of(shapes, known) if len(known) == len(found) else None))
        for shape in shapes:
            name = crowd_name(*shape)
            row = [part.median(name, form, "datagrams") for form in FORMS]
            row += [part.median(name, form, "kbytes") for form in FORMS]
            rows.append([name, *map(amount, row), *fits])
    names = ("datagrams", "", "kB", "", "exponent", "")
    columns = ["cluster", *(f"{name}, each to each" if name else "relays" for name in names)]
    head = "What a daemon receives until the first view, on average; sites 20 ms apart, each linked"
    head += " to each. Relays are used from 129 daemons on; here smaller clusters use them, too."
    return f"{head}\n\n{table(columns, rows)}{_notes(part, exact=True)}"


def forms(data: Data) -> str:
    """Return what the forms of the API cost."""
    part, many = data["forms"], data["total"]
    rows = [["`multicast_many`, trio", amount(many.median("100 bytes", OURS, "rate")), NONE, NONE]]
    names = {
        "trio": "`multicast` awaited one by one, trio",
        "asyncio": "`multicast` awaited one by one, asyncio",
        "threads": "`multicast`, one call after the other, threads",
    }
    for system, name in names.items():
        row = [name, amount(part.median("awaited one by one", system, "rate"))]
        row += [amount(part.median(LONE_LOAD, system, figure)) for figure in ("p50_ms", "p99_ms")]
        rows.append(row)
    columns = (
        "three daemons, 100 bytes, AGREED",
        "messages/s at each receiver",
        "lone messages: p50, ms",
        "p99, ms",
    )
    return table(columns, rows) + _notes(part)


def secrets(data: Data) -> str:
    """Return what a secret costs."""
    part = data["secrets"]
    (load,) = part.loads
    rows = [
        [
            f"a group {system}" if system != "open" else "an open group",
            amount(part.median(load, system, "rate")),
            _inverse(_base(part, load, system)),
        ]
        for system in part.systems
    ]
    columns = (f"two daemons, {load}, AGREED", "messages/s", "to the open group's")
    return table(columns, rows) + _notes(part)


def _base(part: Recorded, load: str, system: str) -> float | None:
    cell = part.cell(load, system)
    return None if cell is None else cell.base.get("rate")


def measured_here(data: Data) -> str:
    """Return ratios to the systems that were measured beside ours."""
    rows = []
    for name, loads in (
        ("ethernet", ("100 bytes", "8,000 bytes", LONE_LOAD)),
        ("brokers", ("100 bytes, 5 receivers", "1,000 bytes, 5 receivers", LONE_LOAD)),
    ):
        part = data[name]
        for system in part.systems:
            if system in (OURS, SINGLY) or system.startswith("bare"):
                continue
            small, large, lone = (part.cell(load, system) for load in loads)
            rates = [cell.base.get("rate") if cell else None for cell in (small, large)]
            delay = lone.base.get("p50_ms") if lone else None
            rows.append(
                [
                    system,
                    f"{ratio(rates[0])} ({loads[0]})",
                    f"{ratio(rates[1])} ({loads[1]})",
                    ratio(delay),
                ]
            )
    columns = ("groupcomm divided by", "messages/s, small", "messages/s, larger", "delay, p50")
    return table(columns, rows) + _notes(data["ethernet"])
