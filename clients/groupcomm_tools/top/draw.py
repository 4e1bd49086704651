"""Frames as pictures in a terminal; the only module that imports rich."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from groupcomm.visible import visible
from groupcomm_tools.terminal import below
from groupcomm_tools.top.frame import Frame, amount, shown, size

FIXED_LINES = 17
"""Lines of a picture, besides daemons, groups, sessions and figures."""

PICTURE_COLUMNS = 90
PICTURE_LINES = 40


@contextmanager
def screen() -> Iterator[Callable[[Frame], None]]:
    """Yield a function that draws a frame in place of the one before."""
    console = Console(file=below(sys.stdout))  # a console with colours; foreign texts are escaped
    with Live(console=console, auto_refresh=False) as live:
        yield lambda frame: live.update(picture(frame, console.height), refresh=True)


def save_svg(frame: Frame, path: Path) -> None:
    """Write a picture of a frame.

    Raises:
        OSError: it cannot be written.
    """
    with Path("/dev/null").open("w") as nowhere:
        console = Console(record=True, width=PICTURE_COLUMNS, file=nowhere)
        console.print(picture(frame, PICTURE_LINES))
        path.write_text(console.export_svg(title="groupcomm top"))


def picture(frame: Frame, height: int) -> RenderableType:
    """Return the lines of a frame that fit; the rest is counted."""
    daemons = 1 + len(frame.peers)
    rows = max(3, (height - FIXED_LINES - daemons) // 3)
    limited = (table(frame, rows) for table in (_sessions, _groups, _figures))
    tables = (_daemons(frame), _rates(frame), *limited)
    return Group(_head(frame), *(part for table in tables for part in ("", table)))


def _head(frame: Frame) -> Text:
    colour = "green" if frame.state == "operational" else "yellow"
    minority = "" if frame.majority is not False else "  no majority"
    stops = "" if frame.stops_in_s is None else f"  stops within {frame.stops_in_s:.0f} s"
    return Text.assemble(
        (visible(frame.daemon), "bold"),
        "  ",
        (visible(frame.state), colour),
        (minority, "bold red"),
        (stops, "bold yellow"),
        f"  view {visible(str(frame.view))}  up {frame.uptime_s:.0f} s",
    )


def _table(*columns: str) -> Table:
    """Return a table with text aligned left in the first column, and numbers right in the
    others.
    """
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    for number, column in enumerate(columns):
        table.add_column(
            column,
            justify="right" if number else "left",
            ratio=3 if number == 0 else 2,
            no_wrap=True,
        )
    return table


def _daemons(frame: Frame) -> Table:
    table = _table("daemon", "in the view", "last heard, s")
    for peer in frame.peers:
        heard = "never" if peer.heard_s is None else f"{peer.heard_s:.1f}"
        there = Text("yes") if peer.in_view else Text("MISSING", style="bold red")
        table.add_row(Text(visible(peer.name)), there, heard)
    table.add_row(Text(visible(frame.daemon)), "yes", "itself")
    return table


def _rates(frame: Frame) -> Table:
    rates = frame.rates
    rejected = Text(f"{frame.rejected} rejected", style="bold red" if frame.rejected else "dim")
    table = _table("per second", "messages", "bytes", "", "datagrams")
    table.add_row(
        "taken", amount(rates["taken"]), size(rates["taken_bytes"]), "sent", amount(rates["sent"])
    )
    delivered = (amount(rates["delivered"]), size(rates["delivered_bytes"]))
    table.add_row("delivered", *delivered, "received", amount(rates["received"]))
    table.add_row("", "", "", "", rejected)
    return table


def _sessions(frame: Frame, rows: int) -> Table:
    table = _table("session (slow first)", "to read", "to send", "dropped", "now")
    for session in frame.sessions[:rows]:
        table.add_row(
            Text(visible(session.user)),
            size(session.output_bytes),
            size(session.backlog_bytes),
            str(session.dropped),
            str(session.dropped_now),
            style="yellow" if session.output_bytes or session.dropped_now else "",
        )
    _count_rest(table, len(frame.sessions) - rows)
    return table


def _groups(frame: Frame, rows: int) -> Table:
    table = _table("group", "members")
    for name, count in list(frame.groups.items())[:rows]:
        table.add_row(Text(visible(name)), str(count))
    _count_rest(table, len(frame.groups) - rows)
    return table


def _figures(frame: Frame, rows: int) -> Table:
    table = _table("figure that is not 0", "now")
    table.add_column("meaning", ratio=5, no_wrap=True)
    for figure in frame.figures[:rows]:
        table.add_row(Text(visible(figure.name)), shown(figure), Text(figure.help, style="dim"))
    _count_rest(table, len(frame.figures) - rows)
    return table


def _count_rest(table: Table, more: int) -> None:
    if more > 0:
        table.add_row(Text(f"and {more} more", style="dim"))
