"""Logs held against each other: by hashes in the JVM, and row by row only where these differ."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from groupcomm_log.stays import KEY, ORDERED
from groupcomm_spark.verify.cells import WHOLE, Cell, in_cells
from groupcomm_spark.verify.stays import Stay, are_together
from groupcomm_spark.verify.verdict import (
    AGREED_SET,
    CONTENT,
    NOT_ADDRESSED,
    SAFE,
    VIEW_SET,
    Verdict,
    Violation,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CONTENTS: Final = (*KEY, "sender", "number", "type", "data")
"""What must be the same in two logs, beside level and groups."""

_LOW: Final = 2**32 - 1
_EXAMINED: Final = 2000
"""So many positions of all that differ are looked at one by one."""

Sums = tuple[int, int, int]
"""Of hashes: how many, of their lower halves, and bit by bit."""

_NOTHING: Final[Sums] = (0, 0, 0)


@dataclass(frozen=True)
class _Part:
    """What is compared as one: messages of one level to the same groups, in one cell of a view."""

    view: str | None
    cell: int
    level: str
    groups: tuple[str, ...]


@dataclass(frozen=True)
class _Suspect:
    """A part in which some logs differ.

    Attributes:
        part: which.
        having, needing: stays; what one of the first has, each of the second must have.
    """

    part: _Part
    having: tuple[int, ...]
    needing: tuple[int, ...]


def compare_cells(
    logs: "DataFrame", stays: Sequence[Stay], cells: Sequence[Cell], verdict: Verdict, most: int
) -> None:
    """Find what some log has and another one lacks, or has otherwise."""
    found = _sums(logs, cells, stays)
    suspects = list(_suspects(found, cells, stays, verdict))
    if suspects:
        _examine(logs, cells, stays, suspects, verdict, most)


def _hash() -> "Column":
    from pyspark.sql.functions import xxhash64  # noqa: PLC0415 - an extra

    return xxhash64(*CONTENTS)


def _sums(
    logs: "DataFrame", cells: Sequence[Cell], stays: Sequence[Stay]
) -> dict[_Part, dict[int, Sums]]:
    """What each stay has of each part."""
    from pyspark.sql.functions import bit_xor, col, count, lit, sum  # noqa: PLC0415 - an extra

    rows = in_cells(logs, cells).withColumn("hash", _hash())
    table = (
        rows.groupBy("stay", "cell", "level", "groups")
        .agg(
            count(lit(1)).alias("count"),
            sum(col("hash").bitwiseAND(_LOW)).alias("sum"),
            bit_xor("hash").alias("xor"),
        )
        .toArrow()
    )
    found: dict[_Part, dict[int, Sums]] = {}
    for row in table.to_pylist():
        view = stays[row["stay"]].view
        part = _Part(view, row["cell"], row["level"], tuple(row["groups"]))
        found.setdefault(part, {})[row["stay"]] = row["count"], row["sum"], row["xor"]
    return found


# ---- who must have the same ----


def _suspects(
    found: dict[_Part, dict[int, Sums]],
    cells: Sequence[Cell],
    stays: Sequence[Stay],
    verdict: Verdict,
) -> Iterator[_Suspect]:
    places: dict[tuple[str | None, int], list[Cell]] = {}
    for cell in cells:
        places.setdefault((cell.stay.view, cell.number), []).append(cell)
    for part, sums in found.items():
        concerned = [
            cell
            for cell in places[part.view, part.cell]
            if not cell.stay.joined.isdisjoint(part.groups)
        ]
        _check_addressed(part, sums, stays, verdict)
        compared: set[int] = set()
        for peers in _classes(concerned, part):
            if len(peers) > 1:
                compared.update(peers)
                if len({sums.get(peer, _NOTHING) for peer in peers}) > 1:
                    yield _Suspect(part, peers, peers)
        yield from _strays(concerned, part, sums)
        verdict.compared[part.level] += sum(sums.get(peer, _NOTHING)[0] for peer in compared)
        verdict.alone += sum(each[0] for peer, each in sums.items() if peer not in compared)


def _check_addressed(
    part: _Part, sums: dict[int, Sums], stays: Sequence[Stay], verdict: Verdict
) -> None:
    for number in sums:
        stay = stays[number]
        own = stay.member.rpartition("/")[0]
        if stay.joined.isdisjoint(part.groups) and own not in part.groups:
            evidence = (
                f"{sums[number][0]} {part.level} messages in view {part.view} are to"
                f" {' '.join(part.groups)}; {stay.member} is in {' '.join(sorted(stay.joined))}"
            )
            verdict.add(Violation(NOT_ADDRESSED, (stay.log,), stay.first, evidence))


def _classes(cells: Sequence[Cell], part: _Part) -> list[tuple[int, ...]]:
    """Stays of which all must have the same, as each must with one of the others at least."""
    classes: list[list[Cell]] = []
    for cell in cells:
        near = [each for each in classes if any(_are_alike(cell, one, part) for one in each)]
        classes = [each for each in classes if each not in near]
        classes.append([cell, *(one for each in near for one in each)])
    return [tuple(sorted(cell.stay.number for cell in each)) for each in classes]


def _are_alike(one: Cell, other: Cell, part: _Part) -> bool:
    """Whether two must have the same."""
    if are_together(one.stay, other.stay):
        return part.cell != WHOLE or (one.stay.is_throughout and other.stay.is_throughout)
    if part.cell == WHOLE:
        return False
    if one.is_regular and other.is_regular:
        return True
    # SAFE in one's regular part is everywhere; the agreed order before it is complete (O4, S1).
    first, second = (one, other) if one.is_regular else (other, one)
    return part.level == "SAFE" and first.is_regular and second.stay.next_view is not None


def _strays(cells: Sequence[Cell], part: _Part, sums: dict[int, Sums]) -> Iterator[_Suspect]:
    """What came in a transitional part, below the end of another's regular part, is there, too."""
    if part.cell == WHOLE:
        return
    regular = tuple(cell.stay.number for cell in cells if cell.is_regular)
    for cell in cells:
        if regular and not cell.is_regular and cell.stay.number in sums:
            yield _Suspect(part, (cell.stay.number,), regular)


# ---- row by row ----


def _examine(
    logs: "DataFrame",
    cells: Sequence[Cell],
    stays: Sequence[Stay],
    suspects: Sequence[_Suspect],
    verdict: Verdict,
    most: int,
) -> None:
    classes = sorted({(suspect.having, suspect.needing) for suspect in suspects})
    table = [
        (stay, s.part.cell, s.part.level, list(s.part.groups), classes.index((s.having, s.needing)))
        for s in suspects
        for stay in {*s.having, *s.needing}
    ]
    told: Counter[tuple[str, tuple[str, ...]]] = Counter()
    done: set[tuple[Any, ...]] = set()
    places = _places(logs, cells, table, [len({*h, *n}) for h, n in classes])
    for place in places:
        having, needing = classes[place["class"]]
        for violation in _judge(place, having, needing, stays):
            key = (violation.name, violation.logs, place["view"], *(place[name] for name in KEY))
            if key in done:
                continue
            done.add(key)
            told[violation.name, violation.logs] += 1
            if told[violation.name, violation.logs] <= most:
                verdict.add(violation)
            else:
                verdict.counts[violation.name] += 1
    if len(places) == _EXAMINED:
        verdict.notes.append(
            f"only the first {_EXAMINED} positions that differ were looked at one by one"
        )


def _places(
    logs: "DataFrame",
    cells: Sequence[Cell],
    suspects: Sequence[tuple[Any, ...]],
    sizes: Sequence[int],
) -> list[dict[str, Any]]:
    """Positions at which not all of a class have the same, with who has what."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

    spark = logs.sparkSession
    schema = "stay int, cell int, level string, groups array<string>, class int"
    suspected = spark.createDataFrame(list(suspects), schema)
    wanted = {(stay, cell) for stay, cell, *_ in suspects}
    rows = in_cells(logs, [c for c in cells if (c.stay.number, c.number) in wanted])
    rows = rows.join(f.broadcast(suspected), ["stay", "cell", "level", "groups"])
    size = f.element_at(f.array(*map(f.lit, sizes)), f.col("class") + 1)
    shown = f.struct(
        *("stay", "row", "level", "groups", "sender", "number"),
        f.xxhash64("level", "groups", *CONTENTS).alias("hash"),
    )
    found = (
        rows.groupBy("view", "cell", *KEY, "class")
        .agg(f.collect_list(shown).alias("rows"))
        .filter(
            (f.size(f.array_distinct(f.col("rows.stay"))) < size)
            | (f.size(f.array_distinct(f.col("rows.hash"))) > 1)
        )
        .orderBy("view", *KEY, "class")
        .limit(_EXAMINED)
        .toArrow()
    )
    return found.to_pylist()  # type: ignore[no-any-return]


def _judge(
    place: dict[str, Any],
    having: tuple[int, ...],
    needing: tuple[int, ...],
    stays: Sequence[Stay],
) -> Iterator[Violation]:
    rows = {row["stay"]: row for row in place["rows"]}
    there = [stay for stay in having if stay in rows]
    where = f"{place['view']}/{'.'.join(str(place[name]) for name in KEY)}"
    hashes = {row["hash"] for row in place["rows"]}
    if len(hashes) > 1 and len({row["hash"] for row in rows.values()}) > 1:
        logs = tuple(sorted(stays[stay].log for stay in rows))
        texts = [f"{_told(row, stays)}" for _, row in sorted(rows.items())]
        first = min(rows.values(), key=lambda row: stays[row["stay"]].log)
        yield Violation(CONTENT, logs, first["row"], f"at {where}: {'; '.join(texts)}")
    if not there:
        return
    for stay in needing:
        if stay not in rows:
            one = rows[there[0]]
            name = _name(one, there, rows, stays)
            if stays[stay].next_view is None and name == SAFE:
                name = AGREED_SET  # it may have ended before
            holder = stays[there[0]]
            evidence = (
                f"{stays[stay].log} lacks what stands at {where} in {_told(one, stays)}"
                f" ({len(there)} of {len(having)} have it)"
            )
            yield Violation(name, (holder.log, stays[stay].log), one["row"], evidence)


def _name(
    one: dict[str, Any], there: list[int], rows: dict[int, dict[str, Any]], stays: Sequence[Stay]
) -> str:
    """Which promise is broken where one lacks it."""
    if one["level"] not in ORDERED:
        return VIEW_SET
    was_safe = any(rows[stay]["row"] < stays[stay].transition for stay in there)
    return SAFE if one["level"] == "SAFE" and was_safe else AGREED_SET


def _told(row: dict[str, Any], stays: Sequence[Stay]) -> str:
    log = stays[row["stay"]].log
    return (
        f"{log} row {row['row']}: {row['level']} {row['sender']} number {row['number']}"
        f" to {' '.join(row['groups'])}"
    )
