"""Faults, made in the log of one receiver, each by its name."""

from collections.abc import Callable
from typing import Any, Final

from groupcomm_log.schema import DAEMONS, GAP, TRANSITION, VIEW
from tests.groupcomm_spark.histories import LAG, PLACE

Row = dict[str, Any]
Rows = list[Row]

FIFO_UP: Final = ("FIFO", "CAUSAL", "AGREED", "SAFE")


def places(rows: Rows, **wanted: Any) -> list[int]:
    """Rows in the regular part of the second view that are so."""
    begin = second_view(rows)
    end = next(
        (at for at, row in enumerate(rows) if row["kind"] == TRANSITION and at > begin), len(rows)
    )
    found = [at for at in range(begin, end) if wanted.items() <= rows[at].items()]
    return found[len(found) // 4 :]


def second_view(rows: Rows) -> int:
    """The place at which it begins; earlier members are members throughout."""
    return [at for at, row in enumerate(rows) if row["kind"] == DAEMONS][1]


def place(rows: Rows, **wanted: Any) -> int:
    return places(rows, **wanted)[0]


def crosses(rows: Rows, at: int, to: int) -> bool:
    """Return whether a moved row passes one of its sender's that it may not pass."""
    passed = rows[min(at, to) + 1 : max(at, to)]
    return any(row["sender"] == rows[at]["sender"] and row["level"] in FIFO_UP for row in passed)


def drop(**wanted: Any) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        del rows[place(rows, **wanted)]

    return change


def put(new: Row, **wanted: Any) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        rows[place(rows, **wanted)].update(new)

    return change


def double(behind: int, **wanted: Any) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        at = place(rows, **wanted)
        rows.insert(at + behind, dict(rows[at]))

    return change


def insert(**new: Any) -> Callable[[Rows], None]:
    """A message that nobody else has, behind one with a place of its own."""

    def change(rows: Rows) -> None:
        at = place(rows, level="AGREED")
        row = {**rows[at], "bundle": 1, "sender": "#x#a/99", "number": 1, **new}
        rows.insert(at + 1, row)

    return change


def swap_of_one_sender(rows: Rows) -> None:
    for at in places(rows, level="FIFO"):
        for to in range(at + 1, at + LAG // 2):
            same = rows[to]["sender"] == rows[at]["sender"] and rows[to]["level"] == "FIFO"
            if same and not crosses(rows, at, to):
                rows[at], rows[to] = rows[to], rows[at]
                return
    raise AssertionError("no two of one sender are near")


def swap_agreed(rows: Rows) -> None:
    for at in places(rows, level="AGREED"):
        to = at + 1
        if rows[to]["level"] == "AGREED" and rows[to]["sender"] != rows[at]["sender"]:
            rows[at], rows[to] = rows[to], rows[at]
            return
    raise AssertionError("no two are neighbours")


def cause_behind_effect(rows: Rows) -> None:
    """A RELIABLE message comes behind a CAUSAL one that depends on it."""
    at = place(rows, level="RELIABLE")
    behind = next(i for i in places(rows, level="CAUSAL") if i > at + LAG + 4)
    rows.insert(behind, rows.pop(at))


def effect_before_cause(rows: Rows) -> None:
    """A CAUSAL message comes before an AGREED one that its sender had been delivered."""
    for at in places(rows, level="CAUSAL"):
        _, stamp, *_ = rows[at]["causal_context"]
        (to,) = [i for i, row in enumerate(rows) if row["stamp"] == stamp and row["level"]]
        if not crosses(rows, at, to):
            rows.insert(to, rows.pop(at))
            return
    raise AssertionError("no sender is silent for so long")


def part(rows: Rows) -> None:
    """It goes elsewhere from the first view, whose regular part ends early for it."""
    at = next(i for i, row in enumerate(rows) if row["kind"] == TRANSITION)
    rows.insert(at - 60, rows.pop(at))
    first = rows[at - 60]["view"]
    end = second_view(rows)
    view = f"11.b.{first.rpartition('.')[2]}"
    change = {"cause": "network", "changed": [], "members": ["#r1#b/1"], "vs_set": ["#r1#b/1"]}
    rows[end:] = [
        {**rows[end], "view": view, "members": ["b"]},
        *(
            {**blank(rows), "kind": VIEW, "view": view, **dict.fromkeys(PLACE, 0), **change, **of}
            for of in ({"groups": ["g"]}, {"groups": ["h"]})
        ),
    ]


def blank(rows: Rows) -> Row:
    return dict.fromkeys(rows[0])


def between(rows: Rows, level: str) -> int:
    """In its transitional part, and below the end of the others' regular part."""
    begin = next(i for i, row in enumerate(rows) if row["kind"] == TRANSITION)
    return next(i for i in range(begin + 8, len(rows)) if rows[i]["level"] == level)


def part_with(change: Callable[[Rows, int], None], level: str) -> Callable[[Rows], None]:
    def both(rows: Rows) -> None:
        part(rows)
        change(rows, between(rows, level))

    return both


def remove(rows: Rows, at: int) -> None:
    del rows[at]


def add(rows: Rows, at: int) -> None:
    rows.insert(at + 1, {**rows[at], "bundle": 1, "sender": "#x#a/99", "number": 1})


def end_early(rows: Rows) -> None:
    at = place(rows, level="AGREED")
    del rows[at:]


def overrun(rows: Rows) -> None:
    """The disk did not keep up for some rows."""
    at = place(rows, level="AGREED")
    rows[at : at + 30] = [{**blank(rows), "kind": GAP, "cause": "overrun", "data": b"{}"}]


def damaged(rows: Rows) -> None:
    """A gap stands in place of rows, among them those with which a view begins."""
    at = second_view(rows) - 10
    told = f'{{"rows": [{rows[at]["row"]}, {rows[at + 29]["row"]}]}}'.encode()
    gap = {**blank(rows), "kind": GAP, "cause": "damage", "data": told, "row": rows[at]["row"]}
    rows[at : at + 30] = [gap]


def view_falls(rows: Rows) -> None:
    last = next(row for row in reversed(rows) if row["kind"] == DAEMONS)
    rows.append({**last, "view": "5." + last["view"].partition(".")[2]})


FAULTS: Final[dict[str, tuple[Callable[[Rows], None], set[str]]]] = {
    "AGREED missing": (drop(level="AGREED"), {"agreed-set"}),
    "AGREED twice": (double(1, level="AGREED"), {"duplicate"}),
    "AGREED twice, far apart": (double(40, level="AGREED"), {"duplicate"}),
    "FIFO twice": (double(40, level="FIFO"), {"duplicate"}),
    "RELIABLE twice": (double(40, level="RELIABLE"), {"duplicate"}),
    "UNRELIABLE twice": (double(40, level="UNRELIABLE"), {"duplicate"}),
    "two of one sender swapped": (swap_of_one_sender, {"fifo"}),
    "a cause behind its effect": (cause_behind_effect, {"causal"}),
    "an effect before its cause": (effect_before_cause, {"causal"}),
    "two AGREED swapped": (swap_agreed, {"agreed-order"}),
    "other data of AGREED": (put({"data": b"other"}, level="AGREED"), {"content"}),
    "other data of CAUSAL": (put({"data": b"other"}, level="CAUSAL"), {"content"}),
    "another type": (put({"type": 77}, level="SAFE"), {"content"}),
    "other groups": (put({"groups": ["g", "x"]}, level="AGREED"), {"content"}),
    "another level": (put({"level": "SAFE"}, level="AGREED"), {"content"}),
    "AGREED as CAUSAL": (put({"level": "CAUSAL"}, level="AGREED"), {"agreed-set", "view-set"}),
    "RELIABLE missing": (drop(level="RELIABLE"), {"view-set"}),
    "FIFO missing": (drop(level="FIFO"), {"view-set"}),
    "CAUSAL missing": (drop(level="CAUSAL"), {"view-set"}),
    "SAFE missing": (drop(level="SAFE"), {"safe"}),
    "SAFE missing at one that parts": (part_with(remove, "SAFE"), {"safe"}),
    "AGREED of nobody else at one that parts": (part_with(add, "AGREED"), {"agreed-set"}),
    "AGREED of nobody else": (insert(), {"agreed-set"}),
    "RELIABLE of nobody else": (insert(level="RELIABLE"), {"view-set"}),
    "in another view": (put({"view": "10.a.0"}, level="AGREED"), {"wrong-view", "agreed-set"}),
    "from another daemon": (put({"sender": "#s#z/1"}, level="UNRELIABLE"), {"foreign-sender"}),
    "to others": (insert(level="RELIABLE", groups=["x"]), {"not-addressed"}),
    "other members": (
        put({"members": ["#r0#a/1", "#r1#b/1", "#x#c/9"]}, kind=VIEW),
        {"group-view"},
    ),
    "another cause": (put({"cause": "leave"}, kind=VIEW), {"group-view"}),
    "another vs_set": (put({"vs_set": ["#r1#b/1"]}, kind=VIEW), {"vs-set"}),
    "group view missing": (drop(kind=VIEW), {"group-view"}),
    "other daemons": (put({"members": ["a", "b", "c", "d"]}, kind=DAEMONS), {"daemons-view"}),
    "a lower view": (view_falls, {"daemons-view"}),
    "a row missing": (drop(level="UNRELIABLE"), {"row-numbers"}),
}
"""The faults, and the names of exactly the violations that they cause."""

KEEPS_NUMBERS: Final = {"a row missing", "damaged"}
"""Faults after which the rows are not numbered again."""

ALLOWED: Final[dict[str, Callable[[Rows], None]]] = {
    "nothing": lambda rows: None,
    "parted": part,
    "parted, AGREED missing": part_with(remove, "AGREED"),
    "parted, FIFO missing": part_with(remove, "FIFO"),
    "ended early": end_early,
    "UNRELIABLE missing": drop(level="UNRELIABLE"),
    "UNRELIABLE of nobody else": insert(
        level="UNRELIABLE", causal_context=None, view=None, **dict.fromkeys(PLACE)
    ),
    "overrun": overrun,
    "damaged": damaged,
    "private": insert(groups=["#r1#b"], level="RELIABLE"),
}
"""Changes that are no violation."""
