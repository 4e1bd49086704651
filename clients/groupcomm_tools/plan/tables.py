"""The figures of plans as tables, for a page and as lines of text."""

from collections.abc import Sequence
from typing import Final

from groupcomm_tools.pages.bar_chart import amount
from groupcomm_tools.pages.html_page import Table, TableRow
from groupcomm_tools.plan.figures import PlanFigures

MOST_KINDS: Final = 3
"""Kinds of packets whose bytes on a link are shown; the sum shows the others."""


def text_of(value: float | None) -> str:
    """Return a figure as text."""
    return "-" if value is None else amount(value)


def delay_table(figures: PlanFigures) -> Table:
    """Return the delays from multicast to delivery, by group, level and sites."""
    return Table(
        columns=(
            "group",
            "level",
            "from",
            "to",
            "deliveries",
            "p50 ms",
            "p99 ms",
            "max ms",
            "missing",
        ),
        rows=[
            TableRow(
                cells=(
                    each.group,
                    each.level,
                    each.sender,
                    each.receiver,
                    f"{each.deliveries:,}",
                    text_of(each.p50_ms),
                    text_of(each.p99_ms),
                    text_of(each.max_ms),
                    f"{each.missing:,}",
                ),
                wrong=each.missing > 0 and each.level != "UNRELIABLE",
            )
            for each in figures.delays
        ],
    )


def link_table(figures: PlanFigures) -> Table:
    """Return the traffic of each direction of each link."""
    return Table(
        columns=(
            "link",
            "kbit/s",
            "of its bandwidth",
            "datagrams/s",
            "lost",
            "bodies kbit/s",
            "overhead",
            "idle kbit/s",
            "most of it",
        ),
        rows=[
            TableRow(
                cells=(
                    each.link,
                    text_of(each.kbit_per_s),
                    "-" if each.used is None else f"{each.used:.1%}",
                    text_of(each.datagrams_per_s),
                    f"{each.lost:,}",
                    text_of(each.bodies_kbit_per_s),
                    "-" if each.overhead is None else f"{each.overhead:.1f} x",
                    text_of(each.idle_kbit_per_s),
                    _kinds(each.kinds_kbit_per_s),
                )
            )
            for each in figures.links
        ],
    )


def _kinds(found: dict[str, float]) -> str:
    return ", ".join(f"{kind} {text_of(kbit)}" for kind, kbit in list(found.items())[:MOST_KINDS])


def daemon_table(figures: PlanFigures) -> Table:
    """Return the work of each daemon in a second."""
    return Table(
        columns=("daemon", "sends/s", "sends kbit/s", "receives/s", "receives kbit/s", "steps/s"),
        rows=[
            TableRow(
                cells=(
                    each.daemon,
                    text_of(each.sent_datagrams),
                    text_of(each.sent_kbit),
                    text_of(each.received_datagrams),
                    text_of(each.received_kbit),
                    text_of(each.steps),
                )
            )
            for each in figures.daemons
        ],
    )


def cost_table(series: Sequence[PlanFigures]) -> Table:
    """Return the cost of clusters of different sizes."""
    return Table(
        columns=(
            "sites",
            "daemons",
            "view after s",
            "received until then",
            "MB",
            "to nobody",
            "idle: each receives/s",
            "idle link kbit/s",
            "link kbit/s",
            "datagrams a message",
            "steps a message",
            "slowest p99 ms",
        ),
        rows=[
            TableRow(
                cells=(
                    f"{cost.sites}",
                    f"{cost.daemons}",
                    text_of(cost.forming_s),
                    f"{cost.forming_datagrams:,}",
                    text_of(cost.forming_mb),
                    f"{cost.forming_unheard:,}",
                    text_of(cost.idle_datagrams_per_s),
                    text_of(cost.idle_kbit_per_s),
                    text_of(cost.load_kbit_per_s),
                    text_of(cost.datagrams_per_message),
                    text_of(cost.steps_per_message),
                    text_of(slowest_ms(each)),
                ),
                wrong=bool(each.wrong),
            )
            for each, cost in ((each, each.cost) for each in series)
        ],
    )


def slowest_ms(figures: PlanFigures) -> float | None:
    """Return the longest p99 of all levels and sites, in milliseconds."""
    return max((d.p99_ms for d in figures.delays if d.p99_ms is not None), default=None)


def lines_of(table: Table) -> list[str]:
    """Return a table as text, in aligned columns; the first one is aligned left."""
    cells = [list(table.columns), *(list(row.cells) for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
