"""A diagram as columns: few, long lists of numbers, which a browser reads fast."""

from collections.abc import Iterable
from typing import Any, Final

from groupcomm_tools.view.diagram import Arrival, Diagram

SAFE_INTEGER: Final = 2**53
"""From here on a number of JavaScript loses digits; a message's number is then told as text."""


class _Table:
    """Texts and lists that come often, each once."""

    def __init__(self) -> None:
        self._places: dict[Any, int] = {}

    def place(self, value: Any) -> int:
        return self._places.setdefault(value, len(self._places))

    @property
    def values(self) -> list[Any]:
        return list(self._places)


def columns(name: str, diagram: Diagram) -> dict[str, Any]:
    """All of a diagram as JSON can have it; -1 stands for none, times count from the first point.

    Args:
        name: of the trace.
        diagram: of it.
    """
    texts, sets = _Table(), _Table()
    begin = 0 if diagram.counted else min((point.t for point in diagram.points), default=0)
    return {
        "name": name,
        "counted": diagram.counted,
        "lines": [
            [line.label, line.identity, line.kind.value, _or_none(line.home)]
            for line in diagram.lines
        ],
        "points": {
            "line": [point.line for point in diagram.points],
            "t": [point.t - begin for point in diagram.points],
            "clock": [point.clock for point in diagram.points],
            "kind": [int(point.kind) for point in diagram.points],
            "message": [_or_none(point.message) for point in diagram.points],
        },
        "notes": {place: point.text for place, point in enumerate(diagram.points) if point.text},
        "messages": {
            "sender": [texts.place(each.sender) for each in diagram.messages],
            "number": [_number(each.number) for each in diagram.messages],
            "sent": [_or_none(each.sent) for each in diagram.messages],
            "level": [_or_none(each.level) for each in diagram.messages],
            "to": [sets.place(each.to) for each in diagram.messages],
            "stamp": [texts.place(each.stamp) for each in diagram.messages],
            "bytes": [each.stamp_bytes for each in diagram.messages],
        },
        "arrivals": _arrivals(diagram.arrivals, texts, sets),
        "bands": [
            [
                *(band.line, band.begins - begin, band.ends - begin, int(band.transitional)),
                *(texts.place(band.view), sets.place(band.daemons)),
            ]
            for band in diagram.bands
        ],
        "violations": [
            [
                each.name,
                each.claimed,
                each.text,
                [[e.t - begin, e.text, _or_none(e.point)] for e in each.evidence],
            ]
            for each in diagram.violations
        ],
        "texts": texts.values,
        "sets": sets.values,
    }


def _arrivals(arrivals: Iterable[Arrival], texts: _Table, sets: _Table) -> dict[str, list[int]]:
    arrivals = list(arrivals)
    return {
        "message": [each.message for each in arrivals],
        "line": [each.line for each in arrivals],
        "origin": [_or_none(each.origin) for each in arrivals],
        "received": [_or_none(each.received) for each in arrivals],
        "delivered": [_or_none(each.delivered) for each in arrivals],
        "waits": [sets.place(each.waits) for each in arrivals],
        "reason": [texts.place(each.reason) for each in arrivals],
    }


def _or_none(value: int | None) -> int:
    return -1 if value is None else value


def _number(number: int) -> int | str:
    return number if number < SAFE_INTEGER else str(number)
