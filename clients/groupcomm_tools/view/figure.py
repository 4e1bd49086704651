"""Small diagrams as static figures: SVG for a page of documentation.

Each moment with a drawn point has a column of its own, so idle time takes no room.
"""

from collections.abc import Container, Iterable, Iterator
from typing import Final

from groupcomm.errors import GroupCommError
from groupcomm_tools.pages.markup import escape
from groupcomm_tools.view.diagram import Arrival, Diagram, PointKind

MAX_COLUMNS: Final = 120
"""A longer trace is for the page, which can be zoomed."""

COLUMN: Final = 58
"""Width of a column with short names, in pixels; longer names need more."""

ROW: Final = 62
TOP: Final = 42
LETTER: Final = 6.5
RADIUS: Final = 5

_DRAWN: Final = frozenset(
    (PointKind.SEND, PointKind.RECEIVE, PointKind.DELIVER, PointKind.INSTALL, PointKind.END)
)
_WORDS: Final = {PointKind.INSTALL: "new view", PointKind.END: "ends"}
_ACTIONS: Final = {
    PointKind.SEND: "sends",
    PointKind.RECEIVE: "receives, and holds back,",
    PointKind.DELIVER: "delivers",
}

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1f2933; --pale: #9aa5b1; --wait: #f0b429;
  --wrong: #c81e4a; --paper: #fff }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --pale: #7b8794; --wait: #b07d0e;
  --wrong: #ff6f91; --paper: #15191e } }
.paper { fill: var(--paper) } text { font: 13px sans-serif; fill: var(--ink) }
.line { stroke: var(--pale); stroke-width: 1.5 } .arrow { stroke: var(--ink); fill: none }
.tip { fill: var(--ink) } .point { fill: var(--ink); stroke: var(--ink); stroke-width: 1.5 }
.hollow { fill: var(--paper) }
.came { stroke: var(--ink); stroke-width: 2.5 }
.wait { stroke: var(--wait); stroke-width: 7; opacity: .75 }
.tick { stroke: var(--pale); stroke-dasharray: 3 4; fill: none } .small { font-size: 11px }
.wrong { stroke: var(--wrong); stroke-width: 2.5; fill: none }
"""


class TooLong(GroupCommError):
    """A diagram has too many moments for a figure."""


def figure_of(
    diagram: Diagram,
    *,
    title: str,
    logical: bool = False,
    ticks: bool = False,
    marks: Container[str] | None = None,
    since: int = 0,
) -> str:
    """Return a diagram as SVG, with a text for readers who cannot see it.

    Args:
        diagram: the diagram to draw: sendings (filled), receipts of messages that have to wait
            (bars), deliveries (hollow), views and ends. A delivery of a process to itself as it
            sends has no point of its own.
        title: title of the figure.
        logical: draw it along Lamport's clocks instead of the trace's time.
        ticks: whether to draw the lines between equal clocks.
        marks: the names of violations whose proof is marked; None for all.
        since: the time of the trace before which events are left out.

    Raises:
        TooLong: it has more than MAX_COLUMNS moments.
    """
    return _Figure(diagram, logical=logical, since=since).draw(title, ticks=ticks, marks=marks)


class _Figure:
    def __init__(self, diagram: Diagram, *, logical: bool, since: int) -> None:
        self._diagram = diagram
        self._sendings = dict(self._own_deliveries())
        drawn = [
            at
            for at, point in enumerate(diagram.points)
            if point.kind in _DRAWN and at not in self._sendings and point.t >= since
        ]
        if logical:
            drawn.sort(key=lambda at: diagram.points[at].clock)
        self._logical = logical
        self._drawn = drawn
        used = sorted({diagram.points[at].line for at in drawn})
        self._rows = {line: row for row, line in enumerate(used)}
        self._columns = dict(self._place(drawn))
        if len(set(self._columns.values())) > MAX_COLUMNS:
            raise TooLong(
                f"the trace has more than {MAX_COLUMNS} moments, too many for a figure;"
                " write a page: -o page.html"
            )
        longest = max((len(self._label(at)) for at in drawn), default=1)
        self._column = max(COLUMN, round(LETTER * longest) + 12)
        self._left = 24 + 8 * max((len(diagram.lines[line].label) for line in used), default=1)

    def _own_deliveries(self) -> Iterator[tuple[int, int]]:
        """Yield the deliveries at the moment and process of their sending."""
        points = self._diagram.points
        for arrival in self._diagram.arrivals:
            sent, delivered = arrival.origin, arrival.delivered
            if sent is not None and delivered is not None:
                one, other = points[sent], points[delivered]
                if (one.line, one.t, one.kind) == (other.line, other.t, PointKind.SEND):
                    yield delivered, sent

    def _place(self, drawn: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield the column of each point: a new one for each time, and for two points of one
        line.
        """
        column, taken, before = -1, set[int](), None
        for at in drawn:
            point = self._diagram.points[at]
            now = point.clock if self._logical else point.t
            if now != before or point.line in taken:
                column, taken, before = column + 1, set(), now
            taken.add(point.line)
            yield at, column

    # ---- places ----

    def _x(self, point: int) -> int:
        return self._left + self._column // 2 + self._column * self._columns[point]

    def _y(self, line: int) -> int:
        return TOP + ROW // 2 + ROW * self._rows[line]

    def _at(self, point: int) -> tuple[int, int]:
        return self._x(point), self._y(self._diagram.points[point].line)

    # ---- drawing ----

    def draw(self, title: str, *, ticks: bool, marks: Container[str] | None) -> str:
        columns = max(self._columns.values(), default=0) + 1
        width = self._left + self._column * columns + self._column // 2
        width = max(width, round(1.15 * LETTER * len(title)) + 24)
        height = TOP + ROW * len(self._rows) + 12
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(self._in_words())}</desc>",
            f"<style>{_STYLE}</style>",
            f'<rect class="paper" width="{width}" height="{height}"/>',
            f'<text x="12" y="22">{escape(title)}</text>',
            *self._lines(width),
            *(self._ticks() if ticks else ()),
            *(part for arrival in self._diagram.arrivals for part in self._arrival(arrival)),
            *(self._point(at) for at in self._drawn),
            *self._wrong(marks),
            "</svg>\n",
        ]
        return "\n".join(parts)

    def _lines(self, width: int) -> Iterator[str]:
        for line in self._rows:
            y, label = self._y(line), escape(self._diagram.lines[line].label)
            yield f'<text x="12" y="{y + 5}">{label}</text>'
            yield f'<path class="line" d="M{self._left} {y}H{width - 12}"/>'

    def _arrival(self, arrival: Arrival) -> Iterator[str]:
        origin, came, end = map(
            self._if_drawn, (arrival.origin, arrival.received, arrival.delivered)
        )
        waits = came if came is not None else origin
        if end is not None and waits is not None and self._is_one_line(waits, end):
            x, y = self._at(waits)
            yield f'<path class="wait" d="M{x} {y}H{self._x(end)}"/>'
        first = came if came is not None else end
        if origin is not None and first is not None and not self._is_one_line(origin, first):
            yield _arrow(self._at(origin), self._at(first))

    def _if_drawn(self, point: int | None) -> int | None:
        return point if point in self._columns else None

    def _is_one_line(self, one: int, other: int) -> bool:
        return self._diagram.points[one].line == self._diagram.points[other].line

    def _point(self, at: int) -> str:
        point, (x, y) = self._diagram.points[at], self._at(at)
        label = self._label(at)
        above = point.kind is PointKind.SEND
        place = f'x="{x + 7}" y="{y - 9 if above else y + 19}"'
        text = f'<text class="small" {place}>{escape(label)}</text>'
        sign = f'<circle class="point" cx="{x}" cy="{y}" r="{RADIUS}"/>'
        if point.kind is PointKind.DELIVER:
            sign = f'<circle class="point hollow" cx="{x}" cy="{y}" r="{RADIUS}"/>'
        elif point.kind is PointKind.RECEIVE:
            sign = f'<path class="came" d="M{x} {y - RADIUS}V{y + RADIUS}"/>'
        return sign + (text if label else "")

    def _label(self, at: int) -> str:
        point = self._diagram.points[at]
        if point.message is not None:
            return self._name(point.message)
        return _WORDS.get(point.kind, "")

    def _name(self, message: int) -> str:
        found = self._diagram.messages[message]
        labels = (line.label for line in self._diagram.lines if line.identity == found.sender)
        return f"{next(labels, found.sender)}{found.number}"

    def _wrong(self, marks: Container[str] | None) -> Iterator[str]:
        proofs = {
            evidence.point
            for violation in self._diagram.violations
            if marks is None or violation.name in marks
            for evidence in violation.evidence
            if evidence.point is not None
        }
        for at in sorted(self._sendings.get(point, point) for point in proofs):
            if at not in self._columns:
                continue
            x, y = self._at(at)
            yield f'<circle class="wrong" cx="{x}" cy="{y}" r="{RADIUS + 5}"/>'

    def _ticks(self) -> Iterator[str]:
        """Yield a line for each clock value, on each process before its first point with this
        value.
        """
        clocks = sorted({self._diagram.points[at].clock for at in self._drawn})
        rows = sorted(self._rows, key=self._rows.__getitem__)
        for clock in clocks[1:]:
            places = [f"{self._before(line, clock):.0f} {self._y(line)}" for line in rows]
            yield f'<path class="tick" d="M{"L".join(places)}"/>'

    def _before(self, line: int, clock: int) -> float:
        """Return the place where the clock of a process has a value; between two points it rises
        steadily.
        """
        if self._logical:
            same = [at for at in self._drawn if self._diagram.points[at].clock == clock]
            return min(map(self._x, same)) - self._column / 2
        clock_before, x_before = 0, float(self._left)
        for at in self._drawn:
            point, x = self._diagram.points[at], float(self._x(at))
            if point.line != line:
                continue
            if point.clock >= clock:
                share = (clock - clock_before - 0.5) / (point.clock - clock_before)
                return x_before + share * (x - x_before)
            clock_before, x_before = point.clock, x
        return x_before + self._column / 3 * (clock - clock_before)

    def _in_words(self) -> str:
        """Return the diagram in words."""
        told = []
        for at in self._drawn:
            point = self._diagram.points[at]
            verb = _ACTIONS.get(point.kind, "")
            line = self._diagram.lines[point.line].label
            name = "" if point.message is None else self._name(point.message)
            told.append(" ".join(filter(None, (line, verb, name, point.text))))
        return "; ".join(told) + "."


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return an arrow that ends shortly before its target."""
    (x1, y1), (x2, y2) = start, end
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5 or 1.0
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    x1, y1 = round(x1 + dx * (RADIUS + 1)), round(y1 + dy * (RADIUS + 1))
    tip_x, tip_y = x2 - dx * (RADIUS + 2), y2 - dy * (RADIUS + 2)
    back_x, back_y = tip_x - 9 * dx, tip_y - 9 * dy
    corners = (
        (tip_x, tip_y),
        (back_x - 3.5 * dy, back_y + 3.5 * dx),
        (back_x + 3.5 * dy, back_y - 3.5 * dx),
    )
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return (
        f'<path class="arrow" d="M{x1} {y1}L{back_x:.1f} {back_y:.1f}"/>'
        f'<polygon class="tip" points="{points}"/>'
    )
