"""The page of a report: one file of HTML with its charts and tables; and the figures as JSON.

Pure: figures in, text out.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from groupcomm.level import LEVELS
from groupcomm_spark.report.figures import DelayKey, Figures, Slice
from groupcomm_spark.report.histogram import Counts, later_than, merge, percentile_ms
from groupcomm_tools.pages.line_chart import Axis, Panel, Point, draw
from groupcomm_tools.pages.markup import escape

BY: Final[dict[str, Callable[[DelayKey], str]]] = {
    "level": lambda key: key.level,
    "group": lambda key: key.groups,
    "sender": lambda key: key.sender,
    "site": lambda key: key.site,
}
"""The properties by which delays are grouped."""

SHARES: Final = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "max_ms": 1.0}

_RANK: Final = {level.name: rank for rank, level in enumerate(LEVELS)}


def as_json(found: Figures) -> dict[str, Any]:
    """Return all figures for JSON; docs/spark.md describes the fields."""
    return {
        "logs": found.logs,
        "seconds": round(found.seconds, 3),
        "messages": found.messages,
        "untimed": found.untimed,
        "delays": delay_tables(found),
        "backwards": found.backwards,
        "losses": [loss._asdict() for loss in found.losses],
        "views": [view.as_json for view in found.views],
    }


def grouped_delays(found: Figures, by: str) -> dict[str, Counter[int]]:
    """Return delays grouped by one of BY; levels in their order, others by their count."""
    groups: dict[str, list[Counts]] = {}
    for key, counts in found.delays.items():
        groups.setdefault(BY[by](key), []).append(counts)
    merged = {name: merge(parts) for name, parts in groups.items()}
    if by == "level":
        return dict(sorted(merged.items(), key=lambda item: _RANK[item[0]]))
    return dict(sorted(merged.items(), key=lambda item: (-item[1].total(), item[0])))


def delay_tables(found: Figures) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each of BY: name, count, and percentiles in milliseconds."""
    return {
        by: [
            {"name": name, "count": sum(counts.values()), **_percentiles(counts)}
            for name, counts in grouped_delays(found, by).items()
        ]
        for by in BY
    }


def _percentiles(counts: Counts) -> dict[str, float | None]:
    found = {name: percentile_ms(counts, share) for name, share in SHARES.items()}
    return {name: None if value is None else round(value, 3) for name, value in found.items()}


ROWS: Final = 50
"""The most rows of a table; a table says how many it leaves out."""

_TEXTS: Final = {"sender", "daemons", "came", "went", "part"}
"""The columns of tables that have no numbers, beside the first one."""

_STYLE: Final = """\
:root{color-scheme:light dark;--text:#222;--soft:#555;--line:#ddd;--faint:#eee;--bad:#b00020}
@media(prefers-color-scheme:dark){:root{--text:#eceff3;--soft:#a2abb8;--line:#2c323b;--faint:#22272f;--bad:#ff8d84}
body{background:#101317}svg{border-radius:.5em;margin:.25em 0}}
body{font-family:system-ui,sans-serif;margin:2em auto;max-width:76em;padding:0 1em;
color:var(--text)}
h1{margin-bottom:.2em}h2{margin-top:2em;border-bottom:1px solid var(--line);padding-bottom:.2em}
svg{max-width:100%;height:auto;vertical-align:top}.told{color:var(--soft)}
.none{color:var(--soft);font-style:italic}
.cards{display:flex;flex-wrap:wrap;gap:1em;margin:1em 0}
.card{border:1px solid var(--line);border-radius:.5em;padding:.6em 1em;min-width:8em}
.card b{display:block;font-size:1.5em}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.92em}
th,td{padding:.25em .8em;text-align:right;border-bottom:1px solid var(--faint);white-space:nowrap}
th:first-child,td:first-child,.text{text-align:left}td.text{white-space:normal}
details{margin:.6em 0}summary{cursor:pointer;font-weight:600}.warn{color:var(--bad)}
"""

_KINDS: Final = {
    "level": "level",
    "group": "group",
    "sender": "sender",
    "site": "site of the sender",
}


def make_page(found: Figures, title: str = "Group communication: what happened") -> str:
    """Return the whole page."""
    parts = [
        f"<h1>{escape(title)}</h1>",
        _begin(found),
        _cards(found),
        "<h2>Rates</h2>",
        _rates(found),
        "<h2>Delays</h2>",
        *_delays(found),
        "<h2>Losses of UNRELIABLE messages</h2>",
        _losses(found),
        "<h2>Views of daemons</h2>",
        _views(found),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


# ---- the head ----


def _begin(found: Figures) -> str:
    if found.begin_us is None:
        return '<p class="none">These logs have no rows.</p>'
    begin = datetime.fromtimestamp(found.begin_us / 1e6, UTC)
    logs = ", ".join(map(escape, found.logs))
    told = f'<p class="told">Logs {logs}, from {begin:%Y-%m-%d %H:%M:%S} UTC on</p>'
    if found.untimed:
        told += f'<p class="warn">{found.untimed:,} rows have no time of receipt: left out.</p>'
    return told


def _cards(found: Figures) -> str:
    size = sum(each.bytes for each in found.slices)
    rate = found.messages / found.seconds if found.seconds else 0
    lost = sum(loss.lost for loss in found.losses)
    cards = {
        "seconds": f"{found.seconds:,.1f}",
        "deliveries": f"{found.messages:,}",
        "deliveries a second": f"{rate:,.0f}",
        "megabytes": f"{size / 1e6:,.1f}",
        "UNRELIABLE lost": f"{lost:,}",
        "views of daemons": f"{len({view.view for view in found.views}):,}",
    }
    told = [f'<div class="card"><b>{value}</b>{name}</div>' for name, value in cards.items()]
    return f'<div class="cards">{"".join(told)}</div>'


# ---- rates ----


def _rates(found: Figures) -> str:
    if not found.slices:
        return '<p class="none">No messages.</p>'
    time = Axis(label="seconds since the beginning", least=0, most=found.seconds)
    names = [level.name for level in LEVELS]
    levels = _lines(found, lambda each: names.index(each.level), lambda each: each.messages)
    bytes_ = _lines(found, lambda each: found.logs.index(each.log), lambda each: each.bytes / 1e6)
    panels = {
        "Deliveries a second, by level": Panel(
            title="",
            x=time,
            y=Axis(label="deliveries/s", least=0),
            lines={names[at]: points for at, points in levels.items()},
        ),
        "Megabytes a second, by log": Panel(
            title="",
            x=time,
            y=Axis(label="MB/s", least=0),
            lines={found.logs[at]: points for at, points in bytes_.items()},
        ),
    }
    return "".join(draw(title, [panel]) for title, panel in panels.items())


def _lines(
    found: Figures, which: Callable[[Slice], int], value: Callable[[Slice], float]
) -> Mapping[int, list[Point]]:
    """Return a line for each value of `which`, in their order; it is at 0 where nothing came."""
    lines: dict[int, list[Point]] = {}
    slices = sorted(found.slices, key=lambda each: (which(each), each.at_s))
    count = int(found.seconds / found.step_s) + 1
    for name, group in groupby(slices, key=which):
        sums: dict[int, float] = {}
        for each in group:
            at = round(each.at_s / found.step_s)
            sums[at] = sums.get(at, 0) + value(each)
        lines[name] = [(at * found.step_s, sums.get(at, 0) / found.step_s) for at in range(count)]
    return lines


# ---- delays ----


def _delays(found: Figures) -> Iterable[str]:
    if not found.delays:
        yield '<p class="none">No message has a stamp, or a time at which it was sent.</p>'
        return
    yield (
        '<p class="told">From when a message was numbered (or sent, if the logs tell) until the'
        " recorder had it, by the clocks of their hosts. Percentiles are off by 2.2 % at most.</p>"
    )
    if found.backwards:
        yield (
            f'<p class="warn">{found.backwards:,} deliveries came before they were sent: clocks of'
            " hosts differ by more than the delay.</p>"
        )
    panels = {
        f"Deliveries that took longer, by {_KINDS[by]}": Panel(
            title="",
            x=Axis(label="delay (ms)", log=True),
            y=Axis(label="share", log=True),
            lines=_curves(found, by),
        )
        for by in ("level", "site")
    }
    yield "".join(draw(title, [panel]) for title, panel in panels.items())
    for by, rows in delay_tables(found).items():
        is_open = ' open="open"' if by == "level" else ""
        head = [_KINDS[by], "deliveries", *(name.replace("_ms", " (ms)") for name in SHARES)]
        body = [(row["name"], row["count"], *(row[name] for name in SHARES)) for row in rows]
        yield f"<details{is_open}><summary>By {_KINDS[by]}</summary>{_table(head, body)}</details>"


def _curves(found: Figures, by: str) -> Mapping[str, Sequence[Point]]:
    """Return the curves of the most frequent names: the eye could not distinguish more."""
    return {name: later_than(c) for name, c in [*grouped_delays(found, by).items()][:6]}


# ---- losses, views ----


def _losses(found: Figures) -> str:
    if not found.losses:
        return '<p class="none">No UNRELIABLE messages.</p>'
    told = (
        '<p class="told">Lost is what another log has, between the first and the last message that'
        " this one has of the sender. Missing numbers may have been for groups that are not"
        " recorded, or lost everywhere.</p>"
    )
    head = ["log", "sender", "got", "lost", "lost of all", "numbers missing"]
    body = [
        (*loss[:4], f"{loss.lost / (loss.got + loss.lost):.2%}", loss.missing)
        for loss in found.losses
    ]
    return told + _table(head, body)


def _views(found: Figures) -> str:
    if not found.views:
        return '<p class="none">No view was recorded.</p>'
    told = (
        '<p class="told">Transition: from the end of the old view\'s regular part to the new view.'
        " Silence: from the last message in the old view to the first one in the new.</p>"
    )
    head = ["log", "second", "daemons", "came", "went", "part", "transition (ms)", "silence (ms)"]
    begin = (found.begin_us or 0) / 1e6
    body = [
        (
            view.log,
            f"{view.at.timestamp() - begin:.3f}",
            *(" ".join(names) for names in (view.daemons, view.came, view.went)),
            view.majority,
            view.transition_ms,
            view.silence_ms,
        )
        for view in found.views
    ]
    return told + _table(head, body)


def _table(head: Sequence[str], body: Sequence[Sequence[Any]]) -> str:
    kinds = [' class="text"' if name in _TEXTS else "" for name in head]
    rows = [
        "".join(f"<td{kind}>{_cell(value)}</td>" for kind, value in zip(kinds, row, strict=True))
        for row in body[:ROWS]
    ]
    more = f'<p class="told">and {len(body) - ROWS} more</p>' if len(body) > ROWS else ""
    return (
        '<div class="scroll"><table><thead><tr>'
        + "".join(f"<th{kind}>{escape(name)}</th>" for kind, name in zip(kinds, head, strict=True))
        + "</tr></thead><tbody>"
        + "".join(f"<tr>{row}</tr>" for row in rows)
        + f"</tbody></table></div>{more}"
    )


def _cell(value: Any) -> str:
    match value:
        case None | "":
            return "&ndash;"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.3g}" if value < 100 else f"{value:,.0f}"
        case _:
            return escape(str(value))
