"""The report on a matrix, as a page and as lines of text."""

import statistics
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from groupcomm_tools.bench.figures import Figures
from groupcomm_tools.bench.matrix import Result, ratio
from groupcomm_tools.bench.plan import Plan
from groupcomm_tools.pages.bar_chart import Bar, Chart, Line, amount
from groupcomm_tools.pages.html_page import Page, Section, Table, TableRow, Tile

Values = Sequence[float]


@attrs.frozen(kw_only=True)
class Measure:
    """A figure by which rounds are drawn.

    Attributes:
        label: name of the figure, with its unit.
        values: returns the values of all rounds of a row.
        floors: returns the values of the bare relays; empty where there are none.
        is_own: whether no other figure beside it determines it, so that its spread is shown.
    """

    label: str
    values: Callable[[Result], Values]
    floors: Callable[[Result], Values] = lambda _: ()
    is_own: bool = True


@attrs.frozen(kw_only=True)
class Part:
    """A section of the page: rows that are compared with each other."""

    key: str
    title: str
    note: str
    measures: Sequence[Measure]
    series: Sequence[str] = ()


def _of_runs(value: Callable[[Figures], float | None]) -> Callable[[Result], Values]:
    return lambda result: [value(figures) or 0.0 for figures in result.runs.values()]


def _of_floors(part: float) -> Callable[[Result], Values]:
    return lambda result: [d[int(part * len(d))] / 1000 for d in result.floors.values()]


def _ms(value: float | None) -> float | None:
    return None if value is None else value / 1000


RATE: Final = Measure(label="messages/s", values=_of_runs(lambda f: f.msgs_per_s_each))
BYTES: Final = Measure(label="MB/s", values=_of_runs(lambda f: f.mb_per_s_each), is_own=False)
COST: Final = Measure(
    label="daemons, s for a million deliveries",
    values=_of_runs(lambda f: f.cpu_s_per_million),
    is_own=False,
)
P50: Final = Measure(
    label="delay p50, ms",
    values=_of_runs(lambda f: _ms(f.delay_p50_us)),
    floors=_of_floors(0.5),
)
P99: Final = Measure(
    label="delay p99, ms",
    values=_of_runs(lambda f: _ms(f.delay_p99_us)),
    floors=_of_floors(0.99),
)
VIEW: Final = Measure(
    label="new view without it, ms", values=lambda r: [e.view_ms for e in r.events.values()]
)
MERGED: Final = Measure(
    label="one view again, ms", values=lambda r: [e.merged_ms for e in r.events.values()]
)

PARTS: Final = (
    Part(
        key="three",
        title="Three daemons, a receiver at each",
        note="AGREED, encrypted, unix sockets, as many messages as possible; rates are those of the"
        " slowest receiver. One sender passes many messages at once, unless a row says otherwise.",
        measures=(RATE, BYTES),
    ),
    Part(
        key="one",
        title="One daemon, one receiver",
        note="The same without a network between daemons; programs use unix sockets or TCP.",
        measures=(RATE, BYTES),
        series=("unix sockets", "TCP"),
    ),
    Part(
        key="five",
        title="One daemon, five receivers",
        note="The rate of each of the five.",
        measures=(RATE, BYTES),
    ),
    Part(
        key="encryption",
        title="Encryption",
        note="Three daemons, large and small datagrams, with AES-GCM or a checksum only, in turn.",
        measures=(RATE,),
        series=("encrypted", "not encrypted"),
    ),
    Part(
        key="idle",
        title="Programs that do nothing",
        note="Three daemons, 200,000 messages of 100 B a second: alone, and with 1,000 sessions"
        " in 10,000 groups, in turn.",
        measures=(COST,),
        series=("nobody else", "1,000 idle sessions"),
    ),
    Part(
        key="delay",
        title="Delay of a lone message",
        note="One way, 200 messages of 100 B a second, in turn with bare relays: the same hops"
        " over unix sockets and UDP, trio, and no protocol at all.",
        measures=(P50, P99),
        series=("groupcomm", "bare relays"),
    ),
    Part(
        key="level",
        title="Levels",
        note="One-way delay of 200 messages of 100 B a second, three daemons.",
        measures=(P50, P99),
    ),
    Part(
        key="event",
        title="When a daemon goes and comes back",
        note="Three daemons, no other traffic: until the last program concerned is notified."
        " A restarted daemon is timed from the start of its process.",
        measures=(VIEW, MERGED),
        series=("timings of one host (local)", "timings of a network (lan)"),
    ),
)


def page_of(results: Sequence[Result], facts: Sequence[str]) -> Page:
    """Return the page of a matrix.

    Args:
        results: results of all rows that were run.
        facts: lines about where, when and how.
    """
    begun = [each for each in results if each.runs or each.events or each.failures]
    wrong = [each.row.name for each in begun if not each.is_right]
    lost = sum(figures.lost for each in begun for figures in each.runs.values())
    verdict = "All rows are right: every message came once, in order, unchanged."
    if wrong:
        verdict = f"Wrong: {', '.join(wrong)}"
    elif lost:
        verdict += f" {lost} UNRELIABLE messages were lost, as they may be."
    parts = [(part, [each for each in begun if each.row.section == part.key]) for part in PARTS]
    return Page(
        title="How fast groupcomm is",
        facts=facts,
        verdict=verdict,
        wrong=bool(wrong),
        tiles=_tiles(begun),
        sections=[_section(part, rows, begun) for part, rows in parts if rows],
    )


def lines_of(results: Sequence[Result]) -> list[str]:
    """Return a line for each row."""
    parts = {part.key: part for part in PARTS}
    lines = []
    for result in results:
        told = [
            f"{measure.label} {_median_text(values)}"
            + (f" ({_spread(values)})" if measure.is_own and len(values) > 1 else "")
            for measure in parts[result.row.section].measures
            if (values := measure.values(result))
        ]
        for label, value in _ratios(result, results).items():
            told.append(f"{value} {label}")
        told += [] if result.is_right else [f"WRONG: {_went_wrong(result)}"]
        lines.append(f"{result.row.name:<24} {'; '.join(told)}")
    return lines


# ---- pieces of the page ----


def _tiles(results: Sequence[Result]) -> list[Tile]:
    wanted = (
        ("three-100", RATE, "messages/s of 100 B, three daemons"),
        ("three-1000", RATE, "messages/s of 1,000 B, three daemons"),
        ("delay-three-agreed", P50, "delay of a lone message, three daemons"),
        ("event-kill-local", VIEW, "from kill -9 of a daemon to the new view"),
    )
    known = {each.row.name: each for each in results}
    return [
        Tile(value=_median_text(values) + (" ms" if measure is not RATE else ""), label=label)
        for name, measure, label in wanted
        if name in known and (values := measure.values(known[name]))
    ]


def _section(part: Part, rows: Sequence[Result], results: Sequence[Result]) -> Section:
    lines = []
    for label in dict.fromkeys(each.row.line for each in rows):
        alike = [each for each in rows if each.row.line == label]
        cells = [
            [bar for each in alike for bar in _bars(each, measure)] for measure in part.measures
        ]
        lines.append(Line(label=label, cells=cells))
    labels = [measure.label for measure in part.measures]
    return Section(
        key=part.key,
        title=part.title,
        note=part.note,
        chart=Chart(title=part.title, panels=labels, lines=lines, series=part.series),
        table=_table(part, rows, results),
    )


def _bars(result: Result, measure: Measure) -> list[Bar]:
    wrong, series = not result.is_right, result.row.series
    found = [_bar(measure.values(result), series, wrong=wrong)]
    if floors := measure.floors(result):
        found.append(_bar(floors, 1, wrong=False))
    return found


def _bar(values: Values, series: int, *, wrong: bool) -> Bar:
    if not values:
        return Bar(value=0, low=0, high=0, text="failed", series=series, wrong=True)
    return Bar(
        value=statistics.median(values),
        low=min(values),
        high=max(values),
        text=_median_text(values) + (" wrong" if wrong else ""),
        series=series,
        wrong=wrong,
    )


def _table(part: Part, rows: Sequence[Result], results: Sequence[Result]) -> Table:
    """Return the table of a section, without the columns that no row fills."""
    found = [_cells(part, row, results) for row in rows]
    columns = [*dict.fromkeys(name for cells in found for name in cells), "wrong"]
    for cells, row in zip(found, rows, strict=True):
        cells["wrong"] = _went_wrong(row)
    return Table(
        columns=columns,
        rows=[
            TableRow(cells=[cells.get(name, "") for name in columns], wrong=not row.is_right)
            for cells, row in zip(found, rows, strict=True)
        ],
    )


def _cells(part: Part, result: Result, results: Sequence[Result]) -> dict[str, str]:
    series = part.series[result.row.series] if part.series and part.key != "delay" else ""
    cells = {"": f"{result.row.line}{', ' * bool(series)}{series}"}
    for measure in part.measures:
        values = measure.values(result)
        cells[measure.label] = _median_text(values) if values else "failed"
        if measure.is_own and len(values) > 1:
            cells[f"{measure.label}, least to most"] = _spread(values)
        if floors := measure.floors(result):
            cells[f"bare relays, {measure.label}"] = _median_text(floors)
    cells |= _ratios(result, results)
    if result.runs:
        cells |= _costs(result)
    return cells


def _ratios(result: Result, results: Sequence[Result]) -> dict[str, str]:
    cells = {}
    if result.floor_ratio is not None:
        cells["times the bare relays' p50"] = f"{result.floor_ratio:.2f}"
    beside = result.beside(results)
    if beside is None:
        return cells
    plan = result.row.what
    by_cost = isinstance(plan, Plan) and plan.rate is not None
    pair = (result.costs, beside.costs) if by_cost else (result.figures, beside.figures)
    found = ratio(*pair)
    if found is not None:
        what = "daemons' time" if by_cost else "rate"
        cells[f"{what}, to the row before"] = f"{found:.2f}"
    return cells


def _costs(result: Result) -> dict[str, str]:
    """Return the processor time, and other figures of runs."""
    plan = result.row.what
    assert isinstance(plan, Plan)
    middle = [
        statistics.median(getattr(figures, f"cpu_{kind}") for figures in result.runs.values())
        for kind in ("daemons", "senders", "receivers")
    ]
    cells = {"processors: daemons, senders, receivers": ", ".join(f"{cpu:.2f}" for cpu in middle)}
    if not plan.rate:
        cells["delay p50 in full queues, ms"] = _median_text(P50.values(result))
    if plan.senders > 1:
        fair = statistics.median(figures.jain for figures in result.runs.values())
        cells["fairness (Jain)"] = f"{fair:.4f}"
    return cells


def _went_wrong(result: Result) -> str:
    """Return the faults in a few words; "nothing" if there was none."""
    found = [*result.failures]
    for name in ("lost", "duplicated", "misordered", "wrong"):
        count = sum(getattr(figures, name) for figures in result.runs.values())
        if count:
            found.append(f"{count} {'changed' if name == 'wrong' else name}")
    return ", ".join(found) or "nothing"


def _median_text(values: Values) -> str:
    return amount(statistics.median(values))


def _spread(values: Values) -> str:
    return f"{amount(min(values))} to {amount(max(values))}"
