"""The figures of the pages: a file of parts, each with the day and the machine of its run.

A cell is one system under one load; its figures are those of all rounds. A part that is measured
again replaces its cells; those of a system that could not run this time stay, with their older day.
"""

import json
import statistics
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import cattrs

PATH: Final = Path("docs", "performance.json")
DIGITS: Final = 4


@attrs.frozen(kw_only=True)
class Cell:
    """One system under one load.

    Attributes:
        load, system: their names.
        measured: the day, as 2026-11-26.
        rounds: the figures of each round, by the name of the figure.
        base: for each figure the median over the rounds of that of the part's base divided by this
            one; empty without a base.
    """

    load: str
    system: str
    measured: str
    rounds: dict[str, list[float]]
    base: dict[str, float] = attrs.field(factory=dict)

    def median(self, figure: str) -> float | None:
        """Return the median of the rounds; None if the cell has no such figure."""
        values = self.rounds.get(figure)
        return statistics.median(values) if values else None

    def range(self, figure: str) -> tuple[float, float]:
        """Return the least and the greatest value of the rounds."""
        return min(self.rounds[figure]), max(self.rounds[figure])


@attrs.frozen(kw_only=True)
class Recorded:
    """A part as it was measured.

    Attributes:
        measured: the day of the run.
        commit: the commit that was measured.
        rounds: the number of rounds.
        duration_s: the seconds of one measurement.
        load_before: the load average of other work before the run, over a minute.
        machine: the machine, by the words of `machine.describe`.
        releases: the releases of other systems.
        cells: the figures.
    """

    measured: str
    commit: str
    rounds: int
    duration_s: float
    load_before: float
    machine: dict[str, str]
    releases: dict[str, str]
    cells: list[Cell]

    def cell(self, load: str, system: str) -> Cell | None:
        """Return the cell of a system under a load; None if it was never measured."""
        return next((c for c in self.cells if (c.load, c.system) == (load, system)), None)

    def median(self, load: str, system: str, figure: str) -> float | None:
        """Return the median of a figure; None if it was never measured."""
        cell = self.cell(load, system)
        return None if cell is None else cell.median(figure)

    @property
    def loads(self) -> list[str]:
        """Return the loads in their order."""
        return list(dict.fromkeys(cell.load for cell in self.cells))

    @property
    def systems(self) -> list[str]:
        """Return the systems in their order."""
        return list(dict.fromkeys(cell.system for cell in self.cells))

    @property
    def older(self) -> dict[str, str]:
        """Return the systems whose figures are of an earlier run, with its day."""
        return {c.system: c.measured for c in self.cells if c.measured != self.measured}


class NotMeasured(Exception):
    """A part of the figures was never measured; its text is the name."""


class Data(dict[str, Recorded]):
    """The parts by name; asking for one that was never measured raises NotMeasured."""

    def __missing__(self, name: str) -> Recorded:
        raise NotMeasured(name)


def read(path: Path = PATH) -> Data:
    """Return the parts of the file, by name."""
    return Data(cattrs.structure(json.loads(path.read_text()), dict[str, Recorded]))


def write(data: Mapping[str, Recorded], path: Path = PATH) -> None:
    """Write the file."""
    shape = cattrs.unstructure(dict(data))
    path.write_text(_lines(shape) + "\n")


def _lines(shape: dict[str, Any]) -> str:
    """Return JSON with one cell a line, so that a change shows as the lines that changed."""
    marked = {}
    for name, part in shape.items():
        cells = ",\n".join(f"   {json.dumps(cell)}" for cell in part.pop("cells"))
        head = json.dumps(part, indent=1)[1:-2].replace("\n", "\n ")
        marked[name] = f' "{name}": {{{head},\n  "cells": [\n{cells}\n  ]\n }}'
    return "{\n" + ",\n".join(marked.values()) + "\n}"


def rounded(value: float) -> float:
    """Return a figure with DIGITS significant digits."""
    return float(f"{value:.{DIGITS}g}")


def cells_of(
    measured: str, base: str, rounds: Mapping[tuple[str, str], Mapping[int, Mapping[str, float]]]
) -> list[Cell]:
    """Return the cells of a run.

    Args:
        measured: the day.
        base: the system to which the others are compared; empty for none.
        rounds: the figures by the number of the round, for each load and system.
    """
    cells = []
    for (load, system), by_round in rounds.items():
        ours = rounds.get((load, base), {})
        found = [by_round[number] for number in sorted(by_round)]
        names = found[0].keys()
        cells.append(
            Cell(
                load=load,
                system=system,
                measured=measured,
                rounds={name: [rounded(each[name]) for each in found] for name in names},
                base=_ratios(names, ours, by_round),
            )
        )
    return cells


def _ratios(
    names: Iterable[str],
    ours: Mapping[int, Mapping[str, float]],
    found: Mapping[int, Mapping[str, float]],
) -> dict[str, float]:
    """Return the medians of the ratios of single rounds, as a busy moment affects both."""
    ratios = {}
    for name in names:
        pairs = [(ours[number], found[number]) for number in sorted(ours.keys() & found.keys())]
        values = [mine[name] / its[name] for mine, its in pairs if its[name] and name in mine]
        if values:
            ratios[name] = rounded(statistics.median(values))
    return ratios


def merged(old: Recorded | None, new: Recorded, planned: Collection[tuple[str, str]]) -> Recorded:
    """Return a part with the cells of a new run, and older ones of systems that it has not.

    Args:
        old: the part as it was measured before; None if it never was.
        new: the new run.
        planned: the loads and systems of the part; older cells of others are dropped.
    """
    if old is None:
        return new
    systems = {cell.system for cell in new.cells}
    kept = [
        cell
        for cell in old.cells
        if (cell.load, cell.system) in planned and cell.system not in systems
    ]
    releases = {**old.releases, **new.releases}
    return attrs.evolve(new, cells=[*new.cells, *kept], releases=releases)
