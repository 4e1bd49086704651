"""Charts of the figures as files: pictures with their own ground, for light and dark pages."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, product
from typing import Final

from groupcomm.level import LEVELS
from groupcomm_tools.pages.bar_chart import WIDTH, Bar, Chart, Line, draw
from tests.costs.first_views import FORMING
from tests.costs.idle import FAMILIES
from tests.verification.campaigns.performance import text
from tests.verification.campaigns.performance.parts import LONE_LOAD, OURS, SINGLY
from tests.verification.campaigns.performance.records import Cell, Data, Recorded
from tests.verification.campaigns.performance.virtual import (
    BEACONS,
    BETWEEN,
    FORMS,
    RATE,
    SHAPES,
    crowd_name,
)

STYLE: Final = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1f2933; --soft: #52606d; --line: #e1e5ea;
  --zero: #9aa5b1; --first: #2f6fbb; --second: #c07a2c }
@media (prefers-color-scheme: dark) { :root { --paper: #15191e; --ink: #e4e7eb; --soft: #a6b1bd;
  --line: #2d343c; --zero: #7b8794; --first: #5d9be6; --second: #d9a05b } }
text { font: 15px system-ui, sans-serif; fill: var(--ink) } .paper { fill: var(--paper) }
.axis { fill: var(--soft); font-weight: 600; font-size: 14px }
.tick { fill: var(--soft); font-size: 12px }
.grid { stroke: var(--line) } .zero { stroke: var(--zero) }
rect.series0 { fill: var(--first) } rect.series1 { fill: var(--second) }
.whisker { stroke: var(--ink); stroke-width: 1.3; fill: none; opacity: .75 }
"""
MARGIN: Final = 14
THOUSAND: Final = 1000.0


def picture(chart: Chart) -> str:
    """Return a chart as a file of its own."""
    head, _, rest = draw(chart).partition(">\n")
    height = int(head.rpartition('viewBox="0 0 ')[2].split('"')[0].split()[1])
    box = f"{-MARGIN} {-MARGIN} {WIDTH + 2 * MARGIN} {height + 2 * MARGIN}"
    head = head.replace(f"0 0 {WIDTH} {height}", box)
    size = f'width="{WIDTH + 2 * MARGIN}" height="{height + 2 * MARGIN}"'
    paper = f'<rect class="paper" x="{-MARGIN}" y="{-MARGIN}" {size} rx="8"/>'
    return f"{head} {size}>\n<style>{STYLE}</style>\n{paper}\n{rest}\n"


def _bar(cell: Cell | None, figure: str, series: int = 0, unit: float = 1.0) -> list[Bar]:
    value = None if cell is None else cell.median(figure)
    if cell is None or value is None:
        return []
    low, high = (each / unit for each in cell.range(figure))
    shown = text.amount(value / unit)
    return [Bar(value=value / unit, low=low, high=high, text=shown, series=series)]


def _chart(
    title: str,
    part: Recorded,
    labels: Mapping[str, str],
    panels: Sequence[tuple[str, str, str]],
    *,
    ours: Sequence[str] = (),
    unit: float = 1.0,
) -> Chart:
    """Return a chart of systems, below each other.

    Args:
        title: for readers who do not see it.
        part: the figures.
        labels: the systems, with their labels.
        panels: for each the label of its axis, a load and a figure.
        ours: the systems in the first colour, if there are two.
        unit: the number by which figures are divided.
    """
    lines = [
        Line(
            label=label,
            cells=[
                _bar(part.cell(load, system), figure, int(bool(ours) and system not in ours), unit)
                for _, load, figure in panels
            ],
        )
        for system, label in labels.items()
        if any(part.cell(load, system) for _, load, _ in panels)
    ]
    return Chart(title=title, panels=[label for label, _, _ in panels], lines=lines)


def levels(data: Data) -> Chart:
    """Return the delays of levels, on one machine and between sites."""
    real, far = data["levels"], data["between"]
    lines = [
        Line(
            label=level.name,
            cells=[
                _bar(real.cell(LONE_LOAD, level.name), "p50_ms"),
                _bar(far.cell(BETWEEN, level.name), "p50"),
            ],
        )
        for level in LEVELS
    ]
    panels = ["one site: median delay, ms", "between sites: delays of a datagram"]
    return Chart(title="Delay by level, in one site and between sites", panels=panels, lines=lines)


def work(data: Data) -> Chart:
    """Return the work of one message, by level."""
    load = f"{RATE} a second"
    panels = [
        ("datagrams a message", load, "datagrams"),
        ("bytes a message", load, "bytes"),
        ("Python calls a message", load, "calls"),
    ]
    names = {level.name: level.name for level in LEVELS}
    return _chart("The work of a message by level", data["costs"], names, panels)


def total(data: Data) -> Chart:
    """Return the rates of systems with one order."""
    panels = [
        ("100 bytes: thousands/s", "100 bytes", "rate"),
        ("8,000 bytes: thousands/s", "8,000 bytes", "rate"),
    ]
    title = "Messages a second of systems that give all receivers one order"
    part = data["total"]
    return _chart(title, part, _labels(part), panels, ours=(OURS, SINGLY), unit=THOUSAND)


def brokers(data: Data) -> Chart:
    """Return the rates of servers without one order."""
    panels = [
        ("1 receiver: thousands/s", "100 bytes, 1 receiver", "rate"),
        ("5 receivers: thousands/s each", "100 bytes, 5 receivers", "rate"),
    ]
    title = "Messages a second through one daemon or server"
    part = data["brokers"]
    return _chart(title, part, _labels(part), panels, ours=(OURS,), unit=THOUSAND)


def _labels(part: Recorded) -> dict[str, str]:
    return {system: system.replace(SINGLY, "groupcomm, awaited") for system in part.systems}


def growth(data: Data) -> Chart:
    """Return what a message and an idle daemon cost, by the number of daemons and sites."""
    part = data["growth"]
    lines = []
    for sites, daemons in SHAPES:
        cell = part.cell(f"{daemons} daemons", f"{sites} site{'s' * (sites > 1)}")
        label = f"{sites} site{'s' * (sites > 1)}, {daemons} daemons"
        cells = [_bar(cell, name) for name in ("datagrams", "idle")]
        lines.append(Line(label=label, cells=cells))
    panels = ["datagrams a message", "idle: a daemon receives/s"]
    return Chart(title="Cost by the number of sites and daemons", panels=panels, lines=lines)


def crowds(data: Data) -> Chart:
    """Return what an idle daemon of a large cluster receives, before and now."""
    panels = ["idle: a daemon receives datagrams/s", "kB/s"]
    lines = _of_large(data["crowds"], chain(*FAMILIES.values()), BEACONS)
    return Chart(title="Idle traffic of large clusters", panels=panels, lines=lines)


def first_views(data: Data) -> Chart:
    """Return what a daemon of a large cluster receives for a first view, before and now."""
    panels = ["datagrams that a daemon receives", "kB"]
    lines = _of_large(data["first-views"], chain(*FORMING.values()), FORMS)
    return Chart(title="First views of large clusters", panels=panels, lines=lines)


def _of_large(
    part: Recorded, shapes: Iterable[tuple[int, int]], systems: Iterable[str]
) -> list[Line]:
    """Return what daemons of large clusters receive, with each of two ways to tell others."""
    lines = []
    for shape, (series, system) in product(shapes, enumerate(systems)):
        cell = part.cell(crowd_name(*shape), system)
        cells = [_bar(cell, name, 1 - series) for name in ("datagrams", "kbytes")]
        lines.append(Line(label=f"{crowd_name(*shape)}, {system}", cells=cells))
    return lines


FIGURES: Final[dict[str, Callable[[Data], Chart]]] = {
    "levels": levels,
    "work": work,
    "total": total,
    "brokers": brokers,
    "growth": growth,
    "crowds": crowds,
    "first-views": first_views,
}
"""The charts, by the names of their files in docs/figures."""
