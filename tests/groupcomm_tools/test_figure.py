"""Small diagrams as SVG: every point, arrow, wait and mark is there, and nothing else."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence

import pytest

from groupcomm.trace.steps import AlgorithmStep, Buffered, Given, StampedReceived, StampedSent
from groupcomm_lessons.algorithms.fan_out import FanOut
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.vector import Vector
from groupcomm_tools.view.build import make_diagram
from groupcomm_tools.view.diagram import Diagram
from groupcomm_tools.view.figure import MAX_COLUMNS, TooLong, figure_of
from tests.groupcomm_lessons.algorithms.schedules import Make, late_cause

NAMES = ("p", "q", "r")
SVG = "{http://www.w3.org/2000/svg}"


def diagram_of(make: Make, names: Sequence[str] = NAMES) -> Diagram:
    return make_diagram("late", late_cause(make, names))


def classes(figure: str) -> list[str]:
    return [found for each in ET.fromstring(figure).iter() if (found := each.get("class"))]


def test_everything_is_drawn_once() -> None:
    """A delivery of a process to itself as it sends has no point of its own."""
    drawn = classes(figure_of(diagram_of(Vector), title="late"))
    assert drawn.count("line") == 3
    assert drawn.count("arrow") == drawn.count("tip") == 4
    assert (drawn.count("point"), drawn.count("point hollow")) == (2, 4)
    assert drawn.count("came") == drawn.count("wait") == 1
    assert "wrong" not in drawn
    assert "tick" not in drawn


def test_what_proves_a_violation_is_marked_if_it_is_asked_for() -> None:
    diagram = diagram_of(FanOut)
    assert classes(figure_of(diagram, title="late", marks={"causal"})).count("wrong") == 2
    assert classes(figure_of(diagram, title="late")).count("wrong") > 2  # in total order, too
    assert "wrong" not in classes(figure_of(diagram, title="late", marks=()))


def test_logical_time_has_a_column_for_each_clock_and_straight_ticks() -> None:
    diagram = diagram_of(FanOut)
    figure = figure_of(diagram, title="late", logical=True, ticks=True, marks=())
    root = ET.fromstring(figure)
    columns = {each.get("cx") for each in root.iter(f"{SVG}circle")}
    ticks = [each.get("d") or "" for each in root.iter(f"{SVG}path") if each.get("class") == "tick"]
    assert len(ticks) == len(columns) - 1
    for tick in ticks:
        assert len({place.split()[0].lstrip("M") for place in tick.split("L")}) == 1


def test_it_is_reported_in_words_too() -> None:
    root = ET.fromstring(figure_of(diagram_of(Vector), title="late"))
    told = root.findtext(f"{SVG}desc")
    assert told is not None
    assert "r receives, and holds back, q1; r delivers p1; r delivers q1" in told


def test_names_are_text_whatever_is_in_them() -> None:
    figure = figure_of(diagram_of(Vector, ("<p>&", "q", '"r"')), title="</svg><script>")
    texts = [each.text for each in ET.fromstring(figure).iter(f"{SVG}text")]
    assert {"<p>&", '"r"', "</svg><script>"} <= set(texts)


def test_a_long_trace_is_refused() -> None:
    steps: list[AlgorithmStep] = []
    network = Network([FanOut(name, "pq") for name in "pq"], steps.append)
    for _ in range(MAX_COLUMNS):
        network.send("p", b"")
        network.bring_all()
    with pytest.raises(TooLong, match="write a page"):
        figure_of(make_diagram("long", steps), title="long")


def test_what_is_delivered_between_a_receipt_and_its_delivery_stands_between_them() -> None:
    """p1 comes to r and lets q1 go; q1 is delivered first."""
    steps: list[AlgorithmStep] = [
        StampedSent(1, "p", "p", 1, ("r",), "", 0),
        StampedSent(2, "q", "q", 1, ("r",), "", 0),
        StampedReceived(3, "r", "q", 1, "q"),
        Buffered(3, "r", "q", 1, ()),
        StampedReceived(4, "r", "p", 1, "p"),
        Given(4, "r", "q", 1),
        Given(4, "r", "p", 1),
    ]
    told = ET.fromstring(figure_of(make_diagram("one", steps), title="one")).findtext(f"{SVG}desc")
    assert told is not None
    assert told.endswith("r receives, and holds back, p1; r delivers q1; r delivers p1.")
