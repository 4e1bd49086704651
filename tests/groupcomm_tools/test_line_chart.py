"""Line charts: points stand where their values say, and the picture is valid XML."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm_tools.pages.bar_chart import nice_step
from groupcomm_tools.pages.line_chart import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TICKS,
    TOP,
    WIDTH,
    Axis,
    Panel,
    Scale,
    draw,
    page,
)

SVG = "{http://www.w3.org/2000/svg}"


def panel(lines: dict[str, list[tuple[float, float]]], *, log: bool = False) -> Panel:
    return Panel(title="a & b", x=Axis(label="x"), y=Axis(label="y < z", log=log), lines=lines)


def test_every_panel_has_its_lines_and_every_point_its_value() -> None:
    lines = {"one": [(0.0, 1.0), (20.0, 3.0)], "two": [(0.0, 2.0), (20.0, 2.0)]}
    root = ET.fromstring(draw("title", [panel(lines), panel(lines)]))
    assert len(root.findall(f"{SVG}g")) == 2
    assert len(root.findall(f".//{SVG}polyline")) == 4
    titles = [each.text for each in root.iter(f"{SVG}title")]
    assert titles[:2] == ["one: 0, 1", "one: 20, 3"]
    written = [each.text for each in root.iter(f"{SVG}text")]
    assert {"title", "a & b", "x", "y < z", "one", "two"} <= set(written)


def test_the_ends_of_the_axes_are_the_ends_of_the_panel() -> None:
    root = ET.fromstring(draw("t", [panel({"one": [(0.0, 1.0), (20.0, 3.0)]})]))
    line = root.find(f".//{SVG}polyline")
    assert line is not None
    assert line.get("points") == f"{LEFT}.0,{HEIGHT - BOTTOM}.0 {WIDTH - RIGHT}.0,{TOP}.0"


def test_a_logarithmic_axis_has_decades_and_leaves_out_what_it_cannot_show() -> None:
    root = ET.fromstring(
        draw("t", [panel({"one": [(0.0, 0.0), (1.0, 1.0), (2.0, 100.0)]}, log=True)])
    )
    written = [each.text for each in root.iter(f"{SVG}text")]
    assert {"1", "10", "100"} <= set(written)
    assert len(root.findall(f".//{SVG}circle")) == 2


def test_a_page_holds_the_picture_and_the_words() -> None:
    found = page("t < u", draw("t", [panel({"one": [(0.0, 1.0)]})]), "1 < 2")
    assert "<title>t &lt; u</title>" in found
    assert "<pre>1 &lt; 2</pre>" in found
    assert "<svg" in found
    assert "http://" not in found.replace("http://www.w3.org/2000/svg", "")


@given(span=st.floats(1e-6, 1e9))
def test_steps_are_few_and_read_well(span: float) -> None:
    step = nice_step(span, TICKS)
    assert span / step <= 5.000001
    assert f"{step:.0e}"[0] in "125"


@given(low=st.floats(-1e6, 1e6), span=st.floats(1e-3, 1e6))
def test_ticks_lie_within_the_axis(low: float, span: float) -> None:
    scale = Scale(low, low + span, 0.0, 100.0, False)
    ticks = scale.ticks()
    assert ticks == sorted(ticks)
    assert all(low - span * 1e-6 <= tick <= low + span * (1 + 1e-6) for tick in ticks)


@pytest.mark.parametrize(("value", "place"), [(1.0, 0.0), (10.0, 50.0), (100.0, 100.0)])
def test_each_decade_takes_the_same_room(value: float, place: float) -> None:
    assert Scale(1.0, 100.0, 0.0, 100.0, True)(value) == pytest.approx(place)


def test_a_long_title_is_smaller_so_that_it_fits() -> None:
    long = "Deliveries that took longer, by site of the sender"
    for title, size in (("short", "15"), (long, "12")):
        root = ET.fromstring(draw(title, [panel({"one": [(0.0, 1.0)]})]))
        (written,) = [each for each in root.findall(f"{SVG}text") if each.text == title]
        assert written.get("font-size") == size
