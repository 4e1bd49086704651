"""The page of a diagram: one file of HTML that draws it, and needs nothing else.

Pure: a diagram in, text out. What the trace says is data of the page, never code or markup; its
policy lets no other script run than the page's own, and nothing be fetched.
"""

import base64
import hashlib
import json
from importlib.resources import files
from string import Template
from typing import Any, Final

from groupcomm.visible import visible
from groupcomm_tools.bench.page import STYLE
from groupcomm_tools.markup import escape
from groupcomm_tools.view.columns import columns
from groupcomm_tools.view.diagram import Diagram, LineKind

_SCRIPTS: Final = ("model.js", "words.js", "scene.js", "draw.js", "panel.js", "page.js")
_ORDERS: Final = ("fifo", "causal", "total")


def make_page(name: str, diagram: Diagram) -> str:
    """The whole file.

    Args:
        name: of the trace.
        diagram: of it.
    """
    script = "\n".join(map(_resource, _SCRIPTS))
    style = STYLE + _resource("page.css")
    wrong, verdict = _verdict(diagram)
    return Template(_resource("page.html")).substitute(
        policy=escape(_policy(script, style)),
        title=escape(name),
        style=style,
        facts=escape(_facts(diagram)),
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
    """JSON that ends no script, and shows all that is in a name, whatever a group is called."""
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
    return value


def _facts(diagram: Diagram) -> str:
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
    """The class of the verdict, and the verdict."""
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
        return "", "Every property holds, as far as the trace goes: what is missing was not judged"
    return "", "Every property holds"


def _resource(name: str) -> str:
    return (files("groupcomm_tools.view") / name).read_text(encoding="utf-8")
