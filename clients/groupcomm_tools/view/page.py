"""A diagram as a page for a browser."""

import base64
import hashlib
import json
from collections.abc import Iterable
from importlib.resources import files
from string import Template
from typing import Any, Final

from groupcomm.level import LEVELS
from groupcomm.visible import visible
from groupcomm_tools.pages.html_page import STYLE
from groupcomm_tools.pages.markup import escape
from groupcomm_tools.view.diagram import Arrival, Diagram, LineKind

SAFE_INTEGER: Final = 2**53
"""From here on JavaScript loses digits of a number; message numbers are then text."""


class _Table:
    """Texts and lists that occur often, each stored once."""

    def __init__(self) -> None:
        self._places: dict[Any, int] = {}

    def place(self, value: Any) -> int:
        return self._places.setdefault(value, len(self._places))

    @property
    def values(self) -> list[Any]:
        return list(self._places)


def columns(name: str, diagram: Diagram) -> dict[str, Any]:
    """Return a diagram as columns for JSON; -1 means none, and times count from the first point.

    Args:
        name: name of the trace.
        diagram: diagram of the trace.
    """
    texts, sets = _Table(), _Table()
    begin = 0 if diagram.counted else min((point.t for point in diagram.points), default=0)
    return {
        "name": name,
        "counted": diagram.counted,
        "levels": [level.name for level in LEVELS],
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


_SCRIPTS: Final = ("model.js", "words.js", "scene.js", "draw.js", "panel.js", "page.js")
_ORDERS: Final = ("fifo", "causal", "total")


def make_page(name: str, diagram: Diagram) -> str:
    """Return the page of a diagram.

    Args:
        name: name of the trace.
        diagram: diagram of the trace.
    """
    script = "\n".join(map(_resource, _SCRIPTS))
    style = STYLE + _resource("page.css")
    wrong, verdict = _verdict(diagram)
    return Template(_resource("page.html")).substitute(
        policy=escape(_policy(script, style)),
        title=escape(name),
        style=style,
        facts=escape(_count_lines(diagram)),
        judgement=wrong,
        verdict=escape(verdict),
        data=_data(columns(name, diagram)),
        script=script,
    )


def _policy(script: str, style: str) -> str:
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}';"
        " base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(value: dict[str, Any]) -> str:
    """Return JSON that cannot end the script, and in which every character of a name is visible."""
    text = json.dumps(_shown(value), separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c")


def _shown(value: Any) -> Any:
    match value:
        case str():
            return visible(value, kept="\n\t")
        case dict():
            return {key: _shown(each) for key, each in value.items()}
        case list() | tuple():
            return value if all(type(e) is int for e in value) else [_shown(e) for e in value]
        case _:
            return value


def _count_lines(diagram: Diagram) -> str:
    kinds = [line.kind for line in diagram.lines]
    counts = {
        "daemons": kinds.count(LineKind.DAEMON),
        "clients": kinds.count(LineKind.CLIENT),
        "processes": kinds.count(LineKind.PROCESS),
        "messages": len(diagram.messages),
        "deliveries": sum(each.delivered is not None for each in diagram.arrivals),
    }
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


def _verdict(diagram: Diagram) -> tuple[str, str]:
    """Return the CSS class of the verdict, and the verdict."""
    claimed = [found for found in diagram.violations if found.claimed]
    if claimed:
        names = ", ".join(sorted({found.name for found in claimed}))
        return "wrong", f"Does not hold: {names} ({len(claimed)} violations)"
    if diagram.unjudged:
        return "unkept", f"{diagram.unjudged[:1].upper()}{diagram.unjudged[1:]}"
    if any(line.kind is LineKind.PROCESS for line in diagram.lines):
        unkept = {found.name for found in diagram.violations}
        kept = ", ".join(order for order in _ORDERS if order not in unkept)
        told = ", ".join(order for order in _ORDERS if order in unkept)
        return (
            "unkept" if unkept else "",
            "; ".join([f"Order kept: {kept or 'none'}"] + ([f"not kept: {told}"] if told else [])),
        )
    if not diagram.complete:
        return (
            "",
            "Every property holds, as far as the trace goes: missing deliveries were not checked",
        )
    return "", "Every property holds"


def _resource(name: str) -> str:
    return (files("groupcomm_tools.view") / name).read_text(encoding="utf-8")
