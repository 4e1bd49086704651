"""The report on a comparison of algorithms, as a table and as a page.

Pure: rows in, text out.
"""

from collections.abc import Sequence
from typing import Final

from groupcomm_lessons.algorithms.catalogue import Entry
from groupcomm_lessons.algorithms.process import Order
from groupcomm_lessons.comparison import ComparisonLoad, ComparisonRow
from groupcomm_tools.pages.bar_chart import Bar, Chart, Line, amount
from groupcomm_tools.pages.html_page import Page, Section, Table, TableRow, Tile

COLUMNS: Final = (
    *("algorithm", "fifo", "causal", "total", "packets", "bytes", "stamp", "delay ms", "most ms"),
    *("held back", "how it was run"),
)

LEGEND: Final = (
    "kept: claimed, and it held; luck: not claimed, but it held; no: not claimed, and it did not"
    " hold; BROKEN: claimed, and it did not hold",
    "packets and bytes: per message, on the wire, retransmissions included; stamp: bytes of it"
    " where a packet carries a message, on average",
    "delay: from sending to delivery at another process, on average and at most; held back:"
    " messages at one process at once, at most",
)


MARKS: Final = {
    "kept": ("\u2713", "good"),
    "luck": ("~", "lucky"),
    "no": ("\u2013", "none"),
    "BROKEN": ("\u2717", "bad"),
}
"""The sign and the colour of each verdict on the page."""


def verdict_of(row: ComparisonRow, order: Order) -> str:
    """Return in a word whether an order was kept."""
    if order in row.entry.type.claims:
        return "kept" if order in row.held else "BROKEN"
    return "luck" if order in row.held else "no"


def cells_of(row: ComparisonRow) -> list[str]:
    """Return the cells of a row of the table."""
    return [
        row.entry.name,
        *(verdict_of(row, order) for order in Order),
        f"{row.packets / row.messages:.1f}",
        f"{row.bytes / row.messages:,.0f}",
        f"{row.stamp_bytes:,.0f}",
        f"{row.delay_ms:.1f}",
        f"{row.most_delay_ms:.1f}",
        str(row.most_waiting),
        _how(row),
    ]


def _how(row: ComparisonRow) -> str:
    word = "missing" if row.entry.loses else "MISSING"
    missing = f"{row.missing} deliveries are {word}" if row.missing else ""
    return "; ".join(filter(None, (missing, row.entry.note)))


def load_lines(load: ComparisonLoad) -> tuple[str, ...]:
    """Return lines about the load of all algorithms."""
    return (
        f"{load.processes} processes, {load.messages} messages of 100 bytes to all, one each"
        f" {load.gap_us / 1000:g} ms on average; seed {load.seed}",
        f"packets take {load.wires.least_us / 1000:g} to {load.wires.most_us / 1000:g} ms;"
        f" {load.loss:.1%} of them are lost, and sent again; virtual time",
    )


def lines_of(rows: Sequence[ComparisonRow], load: ComparisonLoad) -> list[str]:
    """Return the table as text."""
    table = [list(COLUMNS), *map(cells_of, rows)]
    widths = [max(len(cells[at]) for cells in table) for at in range(len(COLUMNS))]
    lines = []
    for cells in table:
        left = [cell.ljust(width) for cell, width in zip(cells[:4], widths[:4], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(cells[4:-1], widths[4:-1], strict=True)]
        lines.append("  ".join([*left, *right, cells[-1]]).rstrip())
    return [*load_lines(load), "", *lines, "", *LEGEND]


def list_of(entries: Sequence[Entry]) -> list[str]:
    """Return the names of algorithms, their claims, and the way they are run."""
    width = max(len(entry.name) for entry in entries)
    return [
        f"{entry.name:<{width}}  {claims_of(entry):<19}  {entry.note}".rstrip() for entry in entries
    ]


def claims_of(entry: Entry) -> str:
    """Return the orders that an algorithm claims."""
    claims = [order.value for order in Order if order in entry.type.claims]
    return ", ".join(claims) or "nothing"


# ---- the page ----


def page_of(rows: Sequence[ComparisonRow], load: ComparisonLoad) -> Page:
    """Return the page."""
    wrong = [row.entry.name for row in rows if row.is_wrong]
    verdict = (
        "Each algorithm has kept its claims, and none has lost a message that its rule delivers."
    )
    if wrong:
        verdict = f"Wrong: {', '.join(wrong)}"
    return Page(
        title="Ordering algorithms on the same load",
        facts=load_lines(load),
        verdict=verdict,
        wrong=bool(wrong),
        tiles=_tiles(rows),
        sections=[_orders(rows), *_charts(rows), *_ways(rows)],
    )


def _tiles(rows: Sequence[ComparisonRow]) -> list[Tile]:
    """Return the cheapest and the fastest algorithm for each order, of those with the same load."""
    found: list[Tile] = []
    for order in Order:
        keeping = [
            row
            for row in rows
            if order in row.entry.type.claims and not (row.is_wrong or row.entry.in_turn)
        ]
        if keeping:
            cheapest = min(keeping, key=lambda row: row.bytes)
            quickest = min(keeping, key=lambda row: (row.delay_ms, row.bytes))
            best = {"fewest bytes": cheapest.entry.name, "least delay": quickest.entry.name}
            for name in dict.fromkeys(best.values()):
                at = " and ".join(what for what, other in best.items() if other == name)
                found.append(Tile(value=name, label=f"keeps {order.value} order, {at}"))
    return found


def _orders(rows: Sequence[ComparisonRow]) -> Section:
    return Section(
        key="orders",
        title="What was kept",
        note=". ".join(LEGEND) + ".",
        chart=None,
        table=Table(
            columns=COLUMNS[:-1],
            rows=[
                TableRow(cells=cells_of(row)[:-1], wrong=row.is_wrong, marks=MARKS) for row in rows
            ],
        ),
    )


def _ways(rows: Sequence[ComparisonRow]) -> list[Section]:
    """Return the special ways in which some algorithms are run, and the missing ones."""
    told = [
        TableRow(cells=[row.entry.name, _how(row)], wrong=row.is_wrong) for row in rows if _how(row)
    ]
    table = Table(columns=["", COLUMNS[-1]], rows=told)
    note = "All others: each message goes to all processes, when its turn in the load comes."
    title = "How they were run"
    return [Section(key="ways", title=title, note=note, chart=None, table=table)] if told else []


def _charts(rows: Sequence[ComparisonRow]) -> list[Section]:
    return [
        _section(
            rows,
            ("wire", "What it costs on the wire", "Per message, retransmissions included."),
            {
                "packets per message": [row.packets / row.messages for row in rows],
                "bytes per message": [row.bytes / row.messages for row in rows],
            },
        ),
        _section(
            rows,
            ("stamps", "How large stamps are", "In packets with a message."),
            {
                "bytes on average": [row.stamp_bytes for row in rows],
                "bytes at most": [float(row.most_stamp_bytes) for row in rows],
            },
        ),
        _section(
            rows,
            ("delay", "How long it takes", "From sending to delivery at another process."),
            {
                "ms on average": [row.delay_ms for row in rows],
                "ms at most": [row.most_delay_ms for row in rows],
            },
        ),
        _section(
            rows,
            ("buffers", "What is held back", "Messages that wait at one process, at most."),
            {"messages": [float(row.most_waiting) for row in rows]},
        ),
    ]


def _section(
    rows: Sequence[ComparisonRow], words: tuple[str, str, str], panels: dict[str, list[float]]
) -> Section:
    """Return bars for each row; `words` are the key, the title and the note of the section."""
    key, title, note = words
    lines = [
        Line(
            label=row.entry.name,
            cells=[[_bar(values[at], wrong=row.is_wrong)] for values in panels.values()],
        )
        for at, row in enumerate(rows)
    ]
    table = [
        TableRow(
            cells=[row.entry.name, *(amount(values[at]) for values in panels.values())],
            wrong=row.is_wrong,
        )
        for at, row in enumerate(rows)
    ]
    return Section(
        key=key,
        title=title,
        note=note,
        chart=Chart(title=title, panels=list(panels), lines=lines),
        table=Table(columns=["", *panels], rows=table),
    )


def _bar(value: float, *, wrong: bool) -> Bar:
    return Bar(value=value, low=value, high=value, text=amount(value), wrong=wrong)
