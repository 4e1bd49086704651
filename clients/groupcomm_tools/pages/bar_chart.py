"""Bar charts as SVG: horizontal bars with whiskers, in panels that share their labels.

Pure: numbers in, text out. Colours come from the style sheet of the page around the chart.
"""

import math
from collections.abc import Sequence
from typing import Final

import attrs

from groupcomm_tools.pages.markup import escape

WIDTH: Final = 940
LABELS: Final = 216
"""Width of the column of labels, in pixels."""

BAR: Final = 15
GAP: Final = 3
LINE_GAP: Final = 11
TOP: Final = 34
BOTTOM: Final = 26
LEGEND: Final = 26
PANEL_GAP: Final = 34
VALUE_ROOM: Final = 84
"""Room to the right of the longest bar, in pixels, for its value."""

TICKS: Final = 4


@attrs.frozen(kw_only=True)
class Bar:
    """One bar.

    Attributes:
        value: length in units of the panel, 0 or more.
        low, high: the ends of the whisker; equal if there is none.
        text: the text beside the bar.
        series: the number of the colour, 0 or 1.
        wrong: the bar is red.
    """

    value: float
    low: float
    high: float
    text: str
    series: int = 0
    wrong: bool = False


@attrs.frozen(kw_only=True)
class Line:
    """One label, and its bars in each panel.

    Attributes:
        label: text to the left of the bars.
        cells: bars by panel; the bars of a cell are drawn below each other.
    """

    label: str
    cells: Sequence[Sequence[Bar]]


@attrs.frozen(kw_only=True)
class Chart:
    """A chart, which is drawn as one picture.

    Attributes:
        title: the text for readers who cannot see the picture.
        panels: the quantity on the axis of each panel, with its unit.
        lines: the lines, from top to bottom.
        series: the names of the colours; empty if there is only one.
    """

    title: str
    panels: Sequence[str]
    lines: Sequence[Line]
    series: Sequence[str] = ()


WIDE: Final = 1000
"""The ratio of values from which an axis is logarithmic."""


@attrs.frozen
class _Panel:
    """Place and scale of one panel.

    Attributes:
        left: left end of the axis, in pixels.
        room: length of the axis, in pixels.
        ticks: values of the ticks, the first and the last at the ends of the axis.
        log: each decade takes the same room.
    """

    left: float
    room: float
    ticks: Sequence[float]
    log: bool = False

    def x(self, value: float) -> float:
        """Return the place of a value, in pixels."""
        low, high = self.ticks[0], self.ticks[-1]
        if self.log:
            low, high, value = (math.log10(each) for each in (low, high, max(value, low)))
        return self.left + (value - low) / (high - low) * self.room


def nice_step(span: float, ticks: int) -> float:
    """Return the least step, 1, 2 or 5 times a power of ten, that needs at most `ticks` ticks."""
    power = 10.0 ** math.floor(math.log10(span / ticks))
    return next(f * power for f in (1, 2, 5, 10) if span / (f * power) <= ticks)


def draw(chart: Chart) -> str:
    """Return the picture of a chart, one `svg` element."""
    panels = [_panel(chart, index) for index in range(len(chart.panels))]
    heights = [_height(line) for line in chart.lines]
    bottom = TOP + sum(heights)
    height = bottom + BOTTOM + (LEGEND if chart.series else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="{escape(chart.title)}">'
    ]
    for label, panel in zip(chart.panels, panels, strict=True):
        parts += _draw_axis(label, panel, bottom)
    top = TOP
    for line, line_height in zip(chart.lines, heights, strict=True):
        middle = top + line_height / 2
        parts.append(text(LABELS - 12, middle + 4, line.label, "label", "end"))
        for panel, bars in zip(panels, line.cells, strict=True):
            parts += _draw_bars(line.label, bars, panel, middle)
        top += line_height
    parts += _draw_legend(chart.series, height - 10)
    return "\n".join([*parts, "</svg>"])


def _panel(chart: Chart, index: int) -> _Panel:
    width = (WIDTH - LABELS - PANEL_GAP * (len(chart.panels) - 1)) / len(chart.panels)
    left, room = LABELS + index * (width + PANEL_GAP), width - VALUE_ROOM
    bars = [bar for line in chart.lines for bar in line.cells[index]]
    longest = max((bar.high for bar in bars), default=0.0) or 1.0
    least = min((bar.value for bar in bars if bar.value > 0), default=longest)
    if longest > WIDE * least:  # the eye could not distinguish short bars
        first, last = math.floor(math.log10(least)), math.ceil(math.log10(longest) - 1e-9)
        return _Panel(left, room, [10.0**power for power in range(first, last + 1)], log=True)
    step = nice_step(longest, TICKS)
    return _Panel(left, room, [n * step for n in range(math.ceil(longest / step - 1e-9) + 1)])


def _height(line: Line) -> int:
    bars = max((len(cell) for cell in line.cells), default=1) or 1
    return bars * BAR + (bars - 1) * GAP + LINE_GAP


def _draw_axis(label: str, panel: _Panel, bottom: float) -> list[str]:
    """Return the ticks, with lines through all bars, and the label of the axis."""
    shown = f"{label} (each step is ten times more)" if panel.log else label
    parts = [text(panel.left, 14, shown, "axis", "start")]
    for number, value in enumerate(panel.ticks):
        x = panel.x(value)
        kind = "grid" if number else "zero"
        parts.append(
            f'<line class="{kind}" x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom}"/>'
        )
        parts.append(text(x, bottom + 15, tick(value), "tick", "middle"))
    return parts


def _draw_bars(label: str, bars: Sequence[Bar], panel: _Panel, middle: float) -> list[str]:
    parts = []
    y = middle - (len(bars) * BAR + (len(bars) - 1) * GAP) / 2
    for bar in bars:
        kind = "wrong" if bar.wrong else f"series{bar.series}"
        length = max(1.0, panel.x(bar.value) - panel.left)
        hover = escape(f"{label}: {bar.text}; {amount(bar.low)} to {amount(bar.high)}")
        parts.append(
            f'<rect class="{kind}" x="{panel.left:.1f}" y="{y:.1f}" width="{length:.1f}"'
            f' height="{BAR}" rx="2"><title>{hover}</title></rect>'
        )
        end = panel.left + length
        if bar.high > bar.low:
            parts.append(_whisker(panel.x(bar.low), panel.x(bar.high), y + BAR / 2))
            end = max(end, panel.x(bar.high))
        parts.append(text(end + 7, y + BAR - 3, bar.text, f"value {kind}", "start"))
        y += BAR + GAP
    return parts


def _whisker(low: float, high: float, y: float) -> str:
    return (
        f'<path class="whisker" d="M{low:.1f} {y:.1f}H{high:.1f}'
        f'M{low:.1f} {y - 4:.1f}v8M{high:.1f} {y - 4:.1f}v8"/>'
    )


def _draw_legend(names: Sequence[str], y: float) -> list[str]:
    parts, x = [], float(LABELS)
    for series, name in enumerate(names):
        parts.append(
            f'<rect class="series{series}" x="{x:.1f}" y="{y - 10}" width="12" height="12" rx="2"/>'
        )
        parts.append(text(x + 18, y, name, "label", "start"))
        x += 50 + 7 * len(name)
    return parts


def text(x: float, y: float, what: str, kind: str, anchor: str) -> str:
    """Return a text element."""
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(what)}</text>'
    )


def tick(value: float) -> str:
    """Return a value of an axis as text."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.6g}"


def amount(value: float) -> str:
    """Return a value as text: three significant digits, or all digits before the point."""
    if value == 0 or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"
