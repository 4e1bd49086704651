"""The rows of the matrix: runs and events that people compare such systems by."""

import fnmatch
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from groupcomm.errors import ConfigError
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm_tools.bench.events import Event, Kind
from groupcomm_tools.bench.plan import Plan

LONE_RATE: Final = 200.0
"""Messages a second, far apart enough that each is alone."""

SIZES: Final = (100, 1_000, 8_000, 100_000)
LARGEST: Final = 4_000_000
SMALL_PACKET: Final = 1_400
IDLE_SESSIONS: Final = 1_000
IDLE_GROUPS: Final = 10_000
IDLE_RATE: Final = 200_000.0
"""At full rate a message's cost follows from how many happen to come at once."""

LARGE_PACKET: Final = 60_000

_EVENTS: Final = {
    Kind.KILL: "kill -9, started again",
    Kind.LEAVE: "SIGTERM, started again",
    Kind.PARTITION: "cut off, healed",
}


@attrs.frozen(kw_only=True)
class Row:
    """One row.

    Attributes:
        name: what `--rows` and scripts call it.
        section: key of the part of the page where it stands.
        line: its label there; rows of one label stand below each other.
        series: which colour it has there, 0 or 1.
        what: is run.
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
    """The whole table, in the order in which it is run."""
    rows = [*_three(), *_one(), *_encryption(), *_idle(), *_delays(), *_levels(), *_events()]
    return [
        attrs.evolve(row, what=attrs.evolve(row.what, duration_s=duration_s))
        if isinstance(row.what, Plan)
        else row
        for row in rows
    ]


def chosen(rows: Sequence[Row], patterns: str) -> list[Row]:
    """Those whose names match one of these patterns.

    Args:
        rows: to choose from.
        patterns: as the shell has them for files, with commas between.

    Raises:
        ConfigError: a pattern matches none.
    """
    found: set[str] = set()
    for pattern in patterns.split(","):
        matching = fnmatch.filter([row.name for row in rows], pattern.strip())
        if not matching:
            names = ", ".join(row.name for row in rows)
            raise ConfigError(f"--rows: no row is called {pattern.strip()!r}; there are {names}")
        found.update(matching)
    return [row for row in rows if row.name in found]


def size_label(size: int) -> str:
    """A size as it is written."""
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
    for level in (ServiceLevel.AGREED, ServiceLevel.SAFE):
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
