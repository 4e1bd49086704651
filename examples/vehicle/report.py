"""The results of runs, as text, JSON and a chart.

Pure: results in, text out.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from examples.vehicle.runs import OTHER, SAME, Result, Row
from examples.vehicle.table import SOURCE_ROWS
from groupcomm_tools.pages.line_chart import Axis, Panel, Point, draw, page

_HEAD: Final = (
    f"{'kind':<15}{'level':<11}{'wanted/s':>9}{'sent/s':>8}{'MB/s':>7}{'to':>4}{'lost':>8}"
    f"{'runs':>7}{'longest':>8}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}"
)
_POINTS: Final = 60


def as_text(result: Result) -> str:
    """Return a table for people; the two lines below a kind are its receivers near and far."""
    setup = result.setup
    network = setup.network
    lines = [
        f"{setup.daemons} daemon(s), {setup.seconds:g} s, datagrams of {network.packet_bytes}"
        f" bytes; between daemons {network.loss:.0%} lost, {network.delay_s * 1000:g} ms more",
        "",
        _HEAD,
    ]
    for row in result.rows:
        lines.append(_line(row, setup.seconds))
        both = all(row.parts[where].expected for where in (SAME, OTHER))
        for where in (SAME, OTHER) if both else ():
            part = row.parts[where]
            lines.append(
                f"  {where:<52}{part.loss:>8.2%}{'':>15}"
                + "".join(_ms(part.delay_ms(share)) for share in (0.5, 0.99, 1.0))
            )
    cpu = ", ".join(f"{name} {share:.0%}" for name, share in result.daemon_cpu.items())
    lines += ["", f"of one processor the daemons used: {cpu}"]
    if result.maps_equal is not None:
        verdict = "all equal to it" if result.maps_equal else "NOT ALL EQUAL TO IT"
        lines.append(f"copies of the map that are whole: {result.maps_whole}, {verdict}")
    if result.late_whole_ms is not None:
        lines.append(f"a newcomer had the whole map {result.late_whole_ms:g} ms after it joined")
    if not result.drained:
        lines.append("not all came in time: this is more than these daemons carry")
    return "\n".join([*lines, ""])


def _line(row: Row, seconds: float) -> str:
    kind, found = row.kind, row.all
    wanted = kind.rate_hz * len(kind.senders)
    return (
        f"{kind.name:<15}{kind.level.name:<11}{wanted:>9.4g}{row.sent / seconds:>8.4g}"
        f"{row.bytes / seconds / 1e6:>7.3f}{len(kind.receivers):>4}{found.loss:>8.2%}"
        f"{found.mean_run:>7.2f}{max(found.runs, default=0):>8}"
        + "".join(_ms(found.delay_ms(share)) for share in (0.5, 0.99, 1.0))
    )


def _ms(value: float | None) -> str:
    return f"{'-':>9}" if value is None else f"{value:>9.2f}"


def source_table() -> list[str]:
    """Return the source's table as Markdown, with its own doubts."""
    heads = ("message", "size and rate", "receivers", "remark")
    rows = [(kind.name, *kind.source) for kind in SOURCE_ROWS]
    return [f"| {' | '.join(row)} |" for row in (heads, ("---",) * len(heads), *rows)]


def as_json(result: Result) -> dict[str, Any]:
    """Return all figures; loss and processors as shares, delays in milliseconds."""
    setup = result.setup
    return {
        "daemons": setup.daemons,
        "seconds": setup.seconds,
        "loss": setup.network.loss,
        "delay_ms": setup.network.delay_s * 1000,
        "packet_bytes": setup.network.packet_bytes,
        "load": dict(setup.load),
        "kinds": {row.kind.name: _row_as_json(row, setup.seconds) for row in result.rows},
        "daemon_cpu": {name: round(share, 3) for name, share in result.daemon_cpu.items()},
        "maps_equal": result.maps_equal,
        "maps_whole": result.maps_whole,
        "late_whole_ms": result.late_whole_ms,
        "drained": result.drained,
    }


def _row_as_json(row: Row, seconds: float) -> dict[str, Any]:
    kind = row.kind
    return {
        "type": kind.type,
        "level": kind.level.name,
        "receivers": len(kind.receivers),
        "wanted_per_s": kind.rate_hz * len(kind.senders),
        "sent_per_s": round(row.sent / seconds, 2),
        "mb_per_s": round(row.bytes / seconds / 1e6, 4),
        "skipped": row.skipped,
        **row.all.summary(),
        "same_daemon": row.parts[SAME].summary(),
        "other_daemon": row.parts[OTHER].summary(),
    }


def as_page(result: Result) -> str:
    """Return a page of HTML with two charts and the table."""
    title = "The vehicle: delays and losses"
    delays = {row.kind.name: later_than(row.all.delays_us) for row in result.rows}
    runs = {row.kind.name: run_counts(row.all.runs) for row in result.rows}
    panels = [
        Panel(
            title="Messages that take longer than a given time",
            x=Axis(label="one-way delay (ms)", log=True),
            y=Axis(label="share of messages", log=True),
            lines={name: points for name, points in delays.items() if points},
        ),
        Panel(
            title="Losses beside each other",
            x=Axis(label="length of the run (messages)", least=0),
            y=Axis(label="runs", least=0),
            lines={name: points for name, points in runs.items() if points},
        ),
    ]
    return page(title, draw(title, panels), as_text(result))


def later_than(delays_us: Sequence[int]) -> list[Point]:
    """Return for some delays (ms) the share of messages that took at least as long."""
    count = len(delays_us)
    places = {count - math.ceil(count ** (1 - step / _POINTS)) for step in range(_POINTS + 1)}
    return [
        (max(delays_us[place], 1) / 1000, (count - place) / count)
        for place in sorted(places)
        if place < count
    ]


def run_counts(runs: Mapping[int, int]) -> list[Point]:
    """Return the number of runs of each length."""
    return [(float(length), float(count)) for length, count in sorted(runs.items())]
