"""The report on a comparison of algorithms, as a table.

Pure: rows in, text out.
"""

from collections.abc import Sequence
from typing import Final

from groupcomm_lessons.algorithms.catalogue import Entry
from groupcomm_lessons.algorithms.process import Order
from groupcomm_lessons.comparison import ComparisonLoad, ComparisonRow

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
