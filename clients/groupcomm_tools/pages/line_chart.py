"""Line charts as SVG, in panels beside each other; and a page of HTML around them.

Pure: numbers in, text out.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from groupcomm_tools.pages.bar_chart import nice_step
from groupcomm_tools.pages.markup import escape

Point = tuple[float, float]

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")
"""The colours of Okabe and Ito, which can be told apart with any colour vision."""

WIDTH, HEIGHT = 380, 330
LEFT, RIGHT, TOP, BOTTOM = 62, 22, 64, 50
LEGEND_HEIGHT: Final = 30
TICKS: Final = 5


@attrs.frozen(kw_only=True)
class Axis:
    """One axis.

    Attributes:
        label: its quantity, with the unit.
        log: whether each decade takes the same room; values of 0 and below then have no place.
        least, most: ends of the axis; None to fit the points.
    """

    label: str
    log: bool = False
    least: float | None = None
    most: float | None = None


@attrs.frozen(kw_only=True)
class Panel:
    """One set of axes.

    Attributes:
        title: text above the axes.
        x, y: the axes.
        lines: points by the name of their line.
    """

    title: str
    x: Axis
    y: Axis
    lines: Mapping[str, Sequence[Point]]


@attrs.frozen
class Scale:
    """A map from the values of an axis to pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def __call__(self, value: float) -> float:
        """Return the place of a value, in pixels."""
        low, high, value = (
            (math.log10(v) for v in (self.low, self.high, value))
            if self.log
            else (self.low, self.high, value)
        )
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return values that are easy to read: decades, or steps of 1, 2 or 5."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            decades = [10.0**power for power in range(first, last + 1)]
            return [value for value in decades if self.low <= value <= self.high * 1.0001]
        step = nice_step(self.high - self.low, TICKS)
        first = math.ceil(self.low / step - 1e-9)
        count = math.floor(self.high / step + 1e-9) - first + 1
        return [round((first + index) * step, 12) for index in range(count)]


def scale_for(axis: Axis, values: Sequence[float], start: float, end: float) -> Scale:
    """Return the scale of an axis on which all these values have a place."""
    shown = [value for value in values if value > 0] if axis.log else list(values)
    low = min(shown, default=1.0) if axis.least is None else axis.least
    high = max(shown, default=1.0) if axis.most is None else axis.most
    if axis.log:
        low, high = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
        return Scale(low, high if high > low else low * 10, start, end, log=True)
    return Scale(low, high if high > low else low + 1, start, end, log=False)


def draw(title: str, panels: Sequence[Panel]) -> str:
    """Return a picture of all panels, side by side.

    A name has the same colour in all panels.
    """
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(names)}
    width = WIDTH * len(panels)
    rows = legend_rows(names, width)
    height = HEIGHT + LEGEND_HEIGHT * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" font-family="sans-serif" font-size="12"'
        f' role="img" aria-label="{escape(title)}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        text(width / 2, 20, title, size=_size_of(title, width), weight="bold"),
    ]
    for index, panel in enumerate(panels):
        parts.append(f'<g transform="translate({index * WIDTH} 0)">')
        parts += draw_panel(panel, colours)
        parts.append("</g>")
    for index, row in enumerate(rows):
        at = HEIGHT + LEGEND_HEIGHT * (index + 0.5)
        parts += draw_legend({name: colours[name] for name in row}, width, at)
    return "\n".join([*parts, "</svg>", ""])


def _size_of(title: str, width: float) -> int:
    """Return the size of a bold title that fits: 15, or less. A letter is 0.6 of it wide."""
    return min(15, int((width - 10) / (0.6 * max(1, len(title)))))


def draw_panel(panel: Panel, colours: Mapping[str, str]) -> list[str]:
    """Return the axes and lines of one panel, at the origin."""
    points = [point for line in panel.lines.values() for point in line]
    x = scale_for(panel.x, [point[0] for point in points], LEFT, WIDTH - RIGHT)
    y = scale_for(panel.y, [point[1] for point in points], HEIGHT - BOTTOM, TOP)
    parts = [text(WIDTH / 2 + 20, TOP - 16, panel.title, size=13)]
    for value in x.ticks():
        at = x(value)
        parts.append(stroke(at, TOP, at, HEIGHT - BOTTOM, "#e4e4e4"))
        parts.append(text(at, HEIGHT - BOTTOM + 16, f"{value:g}"))
    for value in y.ticks():
        at = y(value)
        parts.append(stroke(LEFT, at, WIDTH - RIGHT, at, "#e4e4e4"))
        parts.append(text(LEFT - 6, at + 4, f"{value:g}", anchor="end"))
    parts.append(stroke(LEFT, TOP, LEFT, HEIGHT - BOTTOM, "#333333"))
    parts.append(stroke(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "#333333"))
    parts.append(text(WIDTH / 2 + 20, HEIGHT - 16, panel.x.label))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<g transform="rotate(-90 14 {middle})">{text(14, middle, panel.y.label)}</g>')
    for name, line in panel.lines.items():
        parts += draw_line(name, line, x, y, colours[name])
    return parts


def draw_line(name: str, line: Sequence[Point], x: Scale, y: Scale, colour: str) -> list[str]:
    """Return one line; if it has few points, each has a mark that shows its values under the
    pointer.
    """
    shown = [p for p in line if (p[0] > 0 or not x.log) and (p[1] > 0 or not y.log)]
    path = " ".join(f"{x(px):.1f},{min(max(y(py), TOP), HEIGHT):.1f}" for px, py in shown)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>']
    if len(shown) > 40:
        return parts
    for px, py in shown:
        told = escape(f"{name}: {px:g}, {py:g}")
        parts.append(
            f'<circle cx="{x(px):.1f}" cy="{max(y(py), TOP):.1f}" r="3.2" fill="{colour}">'
            f"<title>{told}</title></circle>"
        )
    return parts


def legend_rows(names: Sequence[str], width: float) -> list[list[str]]:
    """Return the names that fit beside each other, row by row."""
    rows: list[list[str]] = [[]]
    left = float(width)
    for name in names:
        left -= legend_width(name)
        if left < 0 and rows[-1]:
            rows.append([])
            left = width - legend_width(name)
        rows[-1].append(name)
    return rows


def legend_width(name: str) -> float:
    """Return the approximate width of a name in the legend, in pixels."""
    return 36 + 7.3 * len(name)


def draw_legend(colours: Mapping[str, str], width: float, at: float) -> list[str]:
    """Return the names and colours of some lines, spread over a row."""
    widths = [legend_width(name) for name in colours]
    spare = max(0.0, width - sum(widths)) / max(1, len(widths))
    left, parts = 10.0, []
    for (name, colour), room in zip(colours.items(), widths, strict=True):
        parts.append(
            f'<line x1="{left:.1f}" y1="{at}" x2="{left + 18:.1f}" y2="{at}"'
            f' stroke="{colour}" stroke-width="3"/>'
        )
        parts.append(text(left + 24, at + 4, name, anchor="start"))
        left += room + spare
    return parts


def text(
    x: float, y: float, what: str, *, size: int = 12, anchor: str = "middle", weight: str = "normal"
) -> str:
    """Return a text element, centred at a place unless `anchor` says otherwise."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
        f' font-weight="{weight}" fill="#222222">{escape(what)}</text>'
    )


def stroke(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    """Return a thin straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def page(title: str, svg: str, report: str) -> str:
    """Return a page of HTML with a picture, and a table of text below it."""
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>\n"
        "<style>body{font-family:sans-serif;margin:2em}svg{max-width:100%;height:auto}</style>"
        f"</head>\n<body>\n{svg}<pre>{escape(report)}</pre>\n</body>\n</html>\n"
    )
