"""The matrix of the benchmark: its rows, and how they are run.

Rounds go through all rows, so that a drift of the machine meets all rows alike.
"""

import fnmatch
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import attrs
import trio

from groupcomm.errors import ConfigError, GroupCommError
from groupcomm.level import AGREED_LEVELS, LEVELS
from groupcomm_tools.bench.bare import floor_us
from groupcomm_tools.bench.events import Disturbance, Event, EventTimes, measure_event
from groupcomm_tools.bench.figures import Figures, as_json, floor_json
from groupcomm_tools.bench.plan import Plan
from groupcomm_tools.bench.runs import measure, open_daemons

LONE_RATE: Final = 200.0
"""Messages a second, so few that each is alone."""

SIZES: Final = (100, 1_000, 8_000, 100_000)
LARGEST: Final = 4_000_000
SMALL_PACKET: Final = 1_400
IDLE_SESSIONS: Final = 1_000
IDLE_GROUPS: Final = 10_000
IDLE_RATE: Final = 200_000.0
"""Fixed, because at full rate the cost of a message depends on the number that come at once."""

LARGE_PACKET: Final = 60_000

_EVENTS: Final = {
    Disturbance.KILL: "kill -9, started again",
    Disturbance.LEAVE: "SIGTERM, started again",
    Disturbance.PARTITION: "cut off, healed",
}


@attrs.frozen(kw_only=True)
class Row:
    """One row of the matrix.

    Attributes:
        name: the row's name for `--rows` and scripts.
        section: the key of its part of the page.
        line: its label there; rows with one label are drawn below each other.
        series: the number of its colour there, 0 or 1.
        what: the run or the event.
        floor: whether bare relays are measured in turn with it.
        beside: name of the row that it is compared with; empty for none.
    """

    name: str
    section: str
    line: str
    series: int = 0
    what: Plan | Event
    floor: bool = False
    beside: str = ""


def rows_of(duration_s: float) -> list[Row]:
    """Return all rows, in the order in which they are run."""
    rows = [*_three(), *_one(), *_encryption(), *_idle(), *_delays(), *_levels(), *_events()]
    return [
        attrs.evolve(row, what=attrs.evolve(row.what, duration_s=duration_s))
        if isinstance(row.what, Plan)
        else row
        for row in rows
    ]


def chosen(rows: Sequence[Row], patterns: str) -> list[Row]:
    """Return the rows whose names match one of these patterns.

    Args:
        rows: the rows to choose from.
        patterns: patterns of the shell, separated by commas.

    Raises:
        ConfigError: a pattern matches none.
    """
    found: set[str] = set()
    for pattern in patterns.split(","):
        matching = fnmatch.filter([row.name for row in rows], pattern.strip())
        if not matching:
            names = ", ".join(row.name for row in rows)
            raise ConfigError(f"--rows: no row matches {pattern.strip()!r}; the rows are {names}")
        found.update(matching)
    return [row for row in rows if row.name in found]


def size_label(size: int) -> str:
    """Return a size as text."""
    return f"{size // 1_000_000} MB" if size >= 1_000_000 else f"{size:,} B"


def _three() -> Iterator[Row]:
    for size in (*SIZES, LARGEST):
        plan = Plan(size=size)
        yield Row(name=f"three-{size}", section="three", line=size_label(size), what=plan)
    yield Row(
        name="three-singly-100",
        section="three",
        line="100 B, awaited singly",
        what=Plan(bundling=False),
    )
    yield Row(
        name="three-senders-100", section="three", line="100 B, three senders", what=Plan(senders=3)
    )


def _one() -> Iterator[Row]:
    for size in SIZES:
        for series, way in enumerate(("unix", "tcp")):
            yield Row(
                name=f"one-{way}-{size}",
                section="one",
                line=size_label(size),
                series=series,
                what=Plan(daemons=1, receivers=1, size=size, unix=way == "unix"),
            )
    for size in SIZES[:3]:
        plan = Plan(daemons=1, receivers=5, size=size)
        yield Row(name=f"five-{size}", section="five", line=size_label(size), what=plan)


def _encryption() -> Iterator[Row]:
    for packet in (LARGE_PACKET, SMALL_PACKET):
        for size in SIZES[:2]:
            name = f"{packet}-{size}"
            for series, kind in enumerate(("encrypted", "plain")):
                yield Row(
                    name=f"{kind}-{name}",
                    section="encryption",
                    line=f"{size_label(size)}, datagrams of {packet:,} B",
                    series=series,
                    what=Plan(size=size, packet_bytes=packet, encryption=kind == "encrypted"),
                    beside="" if kind == "encrypted" else f"encrypted-{name}",
                )


def _idle() -> Iterator[Row]:
    for series, kind in enumerate(("without", "with")):
        many = kind == "with"
        yield Row(
            name=f"idle-{kind}",
            section="idle",
            line="100 B, 200,000/s",
            series=series,
            what=Plan(
                rate=IDLE_RATE,
                idle_sessions=IDLE_SESSIONS if many else 0,
                idle_groups=IDLE_GROUPS if many else 0,
            ),
            beside="idle-without" if many else "",
        )


def _delays() -> Iterator[Row]:
    ways = {"three": (3, True), "one-unix": (1, True), "one-tcp": (1, False)}
    labels = {"three": "three daemons", "one-unix": "one, unix", "one-tcp": "one, TCP"}
    for level in AGREED_LEVELS:
        for way, (daemons, unix) in ways.items():
            plan = Plan(daemons=daemons, receivers=daemons, level=level, rate=LONE_RATE, unix=unix)
            yield Row(
                name=f"delay-{way}-{level.name.lower()}",
                section="delay",
                line=f"{level.name}, {labels[way]}",
                what=plan,
                floor=True,
            )


def _levels() -> Iterator[Row]:
    for level in LEVELS:
        yield Row(
            name=f"level-{level.name.lower()}",
            section="level",
            line=level.name,
            what=Plan(level=level, rate=LONE_RATE),
        )


def _events() -> Iterator[Row]:
    for kind, label in _EVENTS.items():
        for series, preset in enumerate(("local", "lan")):
            yield Row(
                name=f"event-{kind.value}-{preset}",
                section="event",
                line=label,
                series=series,
                what=Event(kind=kind, preset=preset),
            )


Tell = Callable[[str], None]

_RUN_S = 4.0
_EVENT_S = 3.5
"""The seconds that a start and an end take, before any row has shown it."""


@attrs.define(kw_only=True)
class Result:
    """Results of a row.

    Attributes:
        row: the row.
        runs: figures by round, if it is a run.
        events: times by round, if it is an event.
        floors: delays of the bare relays by round, sorted, microseconds.
        failures: why some rounds have no figures.
    """

    row: Row
    runs: dict[int, Figures] = attrs.field(factory=dict)
    events: dict[int, EventTimes] = attrs.field(factory=dict)
    floors: dict[int, list[float]] = attrs.field(factory=dict)
    failures: list[str] = attrs.field(factory=list)

    @property
    def is_right(self) -> bool:
        """Return whether every round has ended, with every message right."""
        return not self.failures and all(figures.is_right for figures in self.runs.values())

    @property
    def figures(self) -> dict[int, float]:
        """Return the figure by which each round is compared."""
        return {number: figure_of(figures) for number, figures in self.runs.items()}

    @property
    def floor_ratio(self) -> float | None:
        """Return the median, over the rounds, of the delay divided by that of the bare relays."""
        middles = {number: delays[len(delays) // 2] for number, delays in self.floors.items()}
        return ratio(self.figures, middles)

    @property
    def costs(self) -> dict[int, float]:
        """Return the daemons' processor seconds for a million deliveries, by round."""
        return {number: figures.cpu_s_per_million for number, figures in self.runs.items()}

    def as_json(self, others: Sequence["Result"]) -> dict[str, Any]:
        """Return everything about the row, for JSON."""
        found: dict[str, Any] = {"name": self.row.name}
        if isinstance(self.row.what, Event):
            found |= _event_json(self.row.what, list(self.events.values()))
        elif self.runs:
            floors = floor_json(list(self.floors.values()))
            found |= as_json(list(self.runs.values())) | floors
            if floors:
                found["floor_ratio"] = self.floor_ratio
            found["each_round"] = [round(value, 4) for value in self.figures.values()]
        beside = self.beside(others)
        if beside is not None:
            found |= {
                "beside": self.row.beside,
                "ratio": ratio(self.figures, beside.figures),
                "cost_ratio": ratio(self.costs, beside.costs),
            }
        return {**found, "is_right": self.is_right, "failures": self.failures}

    def beside(self, others: Sequence["Result"]) -> "Result | None":
        """Return the row to compare with, if it was run."""
        return next((each for each in others if each.row.name == self.row.beside), None)


def figure_of(figures: Figures) -> float:
    """Return the figure of a run: the median delay of lone messages, else messages a second."""
    if figures.plan.is_timed:
        return figures.delay_p50_us or 0.0
    return figures.msgs_per_s_each


def ratio(ours: dict[int, float], theirs: dict[int, float]) -> float | None:
    """Return the median of the ratios of the rounds that both have; None without such rounds."""
    found = [ours[number] / theirs[number] for number in ours if theirs.get(number)]
    return statistics.median(found) if found else None


def _event_json(event: Event, times: Sequence[EventTimes]) -> dict[str, Any]:
    found: dict[str, Any] = {"event": event.kind.value, "preset": event.preset}
    found["rounds"] = len(times)
    for name in ("view_ms", "merged_ms"):
        values = [getattr(each, name) for each in times]
        found[name] = round(statistics.median(values), 1) if values else None
        found[f"{name}_each_round"] = [round(value, 1) for value in values]
    return found


# ---- running ----


async def run_matrix(results: Sequence[Result], rounds: int, tell: Tell) -> None:
    """Run all rows in rounds; note failures, and continue.

    Args:
        results: results of the rows, filled in as rounds end.
        rounds: number of rounds.
        tell: is called with lines about the progress.
    """
    costs_s = {result.row.name: _guess_s(result.row) for result in results}
    total = rounds * len(results)
    for done, (number, result) in enumerate((n, r) for n in range(rounds) for r in results):
        name = result.row.name
        left_s = sum(costs_s.values()) * (rounds - 1 - number)
        left_s += sum(costs_s[each.row.name] for each in results[done % len(results) :])
        tell(
            f"{done + 1} of {total} (round {number + 1} of {rounds}): {name};"
            f" about {_spoken(left_s)} left"
        )
        began = time.monotonic()
        try:
            await _run_once(result, number)
        except* (GroupCommError, OSError, trio.TooSlowError) as group:
            why = "; ".join(str(each) or type(each).__name__ for each in _leaves(group))
            result.failures.append(f"round {number + 1}: {why}")
            tell(f"{name} failed: {why}")
        costs_s[name] = time.monotonic() - began


async def _run_once(result: Result, number: int) -> None:
    what = result.row.what
    if isinstance(what, Event):
        result.events[number] = await measure_event(what)
        return
    async with open_daemons(what) as (addresses, processes):
        if result.row.floor:
            result.floors[number] = await floor_us(what)
        result.runs[number] = await measure(what, addresses, processes)


def _guess_s(row: Row) -> float:
    if not isinstance(row.what, Plan):
        return _EVENT_S
    once = _RUN_S + row.what.warm_up_s + row.what.duration_s
    return once + (row.what.duration_s + 2 if row.floor else 0)


def _spoken(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each
