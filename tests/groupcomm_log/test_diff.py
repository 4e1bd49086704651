"""`compare` finds what two recorders may not differ in, and nothing else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groupcomm_log.diff import Comparison, compare
from groupcomm_log.schema import DAEMONS, GAP, MESSAGE, TRANSITION, VIEW, rows_of
from groupcomm_log.writer import LogWriter
from tests.groupcomm_log.make import QuickDisk

Row = dict[str, Any]

EVERYBODY = ["#a#a/1", "#b#b/1", "#z#a/1"]


def session(me: str) -> Row:
    return {"kind": GAP, "cause": "begin", "sender": me, "groups": ["g"], "data": b"{}"}


def daemons(view: str) -> Row:
    return {"kind": DAEMONS, "view": view, "members": ["a", "b"]}


def group_view(view: str, stamp: int, cause: str, *changed: str) -> Row:
    return {
        "kind": VIEW,
        **{"view": view, "stamp": stamp, "ring": 0, "bundle": 0, "message": 0},
        **{"groups": ["g"], "cause": cause, "changed": changed},
        **{"members": EVERYBODY, "vs_set": [name for name in EVERYBODY if name not in changed]},
    }


def message(view: str, stamp: int, level: str, **other: Any) -> Row:
    place = {"view": view, "stamp": stamp, "ring": 0, "bundle": 0, "message": 0}
    sender = {"sender": "#z#a/1", "number": stamp, "groups": ["g"], "type": 0, "data": b"x"}
    return {"kind": MESSAGE, **place, **sender, "level": level, **other}


def history(me: str) -> list[Row]:
    """Return the events of one of two recorders: both join in view 1, are in all of 2, end in 3."""
    return [
        session(me),
        daemons("1"),
        group_view("1", 1, "join", "#a#a/1"),
        message("1", 2, "FIFO"),
        group_view("1", 3, "join", "#b#b/1"),
        message("1", 4, "AGREED"),
        {"kind": TRANSITION, "view": "1"},
        message("1", 5, "SAFE"),
        daemons("2"),
        group_view("2", 0, "network"),
        message("2", 1, "RELIABLE"),
        message("2", 2, "CAUSAL"),
        message("2", 3, "AGREED"),
        message("2", 4, "SAFE"),
        message("2", 5, "AGREED", groups=["g", "other"]),
        daemons("3"),
        group_view("3", 0, "network"),
        message("3", 1, "FIFO"),
        message("3", 2, "AGREED"),
        message("3", 3, "AGREED"),
    ]


def of_b() -> list[Row]:
    """The other one's: it joins later, and has messages of its own."""
    rows = history("#b#b/1")
    del rows[2:4]
    rows[find(rows, cause="join")]["vs_set"] = ["#b#b/1"]
    rows.insert(-2, message("3", 0, "AGREED", groups=["#b#b"]))
    return rows


def write(folder: Path, rows: list[Row]) -> Path:
    writer = LogWriter(folder, disk=QuickDisk())
    for row in rows:
        writer.append(rows_of([row]))
    writer.close()
    return folder


Change = Callable[[list[Row]], None]


def compared(tmp_path: Path, change: Change) -> Comparison:
    rows = of_b()
    change(rows)
    left, right = write(tmp_path / "a", history("#a#a/1")), write(tmp_path / "b", rows)

    def on_damage(damage: object) -> None:
        raise AssertionError(damage)

    one, other = compare(left, right, on_damage), compare(right, left, on_damage)
    assert len(one.differences) == len(other.differences)
    return one


UNRELIABLE = {**message("", 0, "UNRELIABLE"), "view": None, "stamp": None, "ring": None}


def find(rows: list[Row], **wanted: Any) -> int:
    (at,) = [i for i, row in enumerate(rows) if wanted.items() <= row.items()]
    return at


def without(**wanted: Any) -> Change:
    def remove(rows: list[Row]) -> None:
        del rows[find(rows, **wanted)]

    return remove


def changed(new: Row, **wanted: Any) -> Change:
    return lambda rows: rows[find(rows, **wanted)].update(new)


def swapped(one: Row, other: Row) -> Change:
    def swap(rows: list[Row]) -> None:
        i, j = find(rows, **one), find(rows, **other)
        rows[i], rows[j] = rows[j], rows[i]

    return swap


def nothing(rows: list[Row]) -> None:
    pass


def test_two_that_agree(tmp_path: Path) -> None:
    found = compared(tmp_path, nothing)
    assert found.differences == []
    assert (found.views, found.changes) == (3, 3)
    assert found.compared == {"RELIABLE": 1, "CAUSAL": 1, "AGREED": 5, "SAFE": 2}
    assert found.left_out == 1


@pytest.mark.parametrize(
    "change",
    [
        without(view="1", stamp=4),
        without(view="1", stamp=5),
        without(view="2", stamp=1),
        without(view="2", stamp=2),
        without(view="2", stamp=3),
        without(view="2", stamp=5),
        without(view="3", stamp=2),
        without(view="2", kind=VIEW),
        changed({"data": b"y"}, view="2", stamp=1),
        changed({"data": b"y"}, view="2", stamp=3),
        changed({"sender": "#y#a/1"}, view="2", stamp=3),
        changed({"number": 77}, view="2", stamp=3),
        changed({"type": 1}, view="2", stamp=3),
        changed({"level": "SAFE"}, view="2", stamp=3),
        changed({"groups": ["g", "h"]}, view="2", stamp=3),
        changed({"members": ["#a#a/1"]}, view="2", kind=VIEW),
        changed({"vs_set": ["#a#a/1"]}, view="2", kind=VIEW),
        changed({"vs_set": ["#b#b/1"]}, view="2", kind=VIEW),
        changed({"vs_set": ["#a#a/1", "#b#b/1"]}, view="2", kind=VIEW),
        changed({"cause": "leave"}, view="3", kind=VIEW),
        swapped({"view": "2", "stamp": 3}, {"view": "2", "stamp": 4}),
    ],
)
def test_a_difference_is_found(tmp_path: Path, change: Change) -> None:
    assert compared(tmp_path, change).differences


@pytest.mark.parametrize(
    "change",
    [
        swapped({"view": "2", "stamp": 1}, {"view": "2", "stamp": 2}),  # RELIABLE has no order
        without(view="3", stamp=1),  # a FIFO message, and neither log saw the end of the view
        lambda rows: rows.pop() and None,  # one log ended earlier
        lambda rows: rows.append(message("3", 9, "SAFE")),  # one log ended later
        lambda rows: rows.insert(-1, UNRELIABLE),
        lambda rows: rows.insert(-1, message("3", 2, "AGREED", groups=["other"])),
    ],
)
def test_what_is_promised_to_nobody_is_no_difference(tmp_path: Path, change: Change) -> None:
    assert compared(tmp_path, change).differences == []


def test_who_parts_may_differ_in_what_is_transitional(tmp_path: Path) -> None:
    def part(rows: list[Row]) -> None:
        at = find(rows, view="1", stamp=5)
        rows[at:] = [daemons("2b"), group_view("2b", 0, "network")]

    found = compared(tmp_path, part)
    assert (found.differences, found.compared) == ([], {"AGREED": 1})


def test_who_comes_from_elsewhere_comes_along_with_others(tmp_path: Path) -> None:
    left, right = history("#a#a/1"), of_b()
    left[find(left, view="3", kind=VIEW)]["vs_set"] = ["#a#a/1", "#z#a/1"]
    right[find(right, view="3", kind=VIEW)]["vs_set"] = ["#b#b/1"]
    logs = write(tmp_path / "a", left), write(tmp_path / "b", right)
    assert compare(*logs, print).differences == []


def test_behind_a_gap_comparing_begins_anew(tmp_path: Path) -> None:
    def overrun(rows: list[Row]) -> None:
        at = find(rows, view="2", stamp=3)
        rows[at] = {"kind": GAP, "cause": "overrun", "data": b"{}"}

    found = compared(tmp_path, overrun)
    assert found.differences == []
    assert found.compared == {"AGREED": 4, "SAFE": 1}, "behind the first that it has again"
