"""A page of HTML with figures: charts and tables, in one file without references to others.

Pure: it knows nothing about the measurements.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from groupcomm_tools.pages.bar_chart import Chart, draw
from groupcomm_tools.pages.markup import escape


@attrs.frozen(kw_only=True)
class Tile:
    """A figure for the head of the page.

    Attributes:
        value: the figure, with its unit.
        label: the meaning of the figure.
    """

    value: str
    label: str


@attrs.frozen(kw_only=True)
class TableRow:
    """A row of a table; its first cell is its name.

    Attributes:
        cells: texts, from left to right.
        wrong: whether the row is red.
    """

    cells: Sequence[str]
    wrong: bool = False


@attrs.frozen(kw_only=True)
class Table:
    """A table; the first column is aligned left, the others right."""

    columns: Sequence[str]
    rows: Sequence[TableRow]


@attrs.frozen(kw_only=True)
class Section:
    """A section: one question and its answer.

    Attributes:
        key: anchor within the page; one word.
        title: heading.
        note: explains how to read the section.
        chart: None for a section with a table alone.
        table: exact figures.
    """

    key: str
    title: str
    note: str
    chart: Chart | None
    table: Table


@attrs.frozen(kw_only=True)
class Page:
    """A page.

    Attributes:
        title: heading of the page.
        facts: lines about where, when and how the figures were measured.
        verdict: the most important result.
        wrong: the verdict is bad.
        tiles: figures for the head.
        sections: the sections, from top to bottom.
    """

    title: str
    facts: Sequence[str]
    verdict: str
    wrong: bool
    tiles: Sequence[Tile]
    sections: Sequence[Section]


STYLE: Final = """
:root { color-scheme: light dark; --ground: #fbfbfa; --card: #fff; --ink: #1c1f23; --soft: #5d646d;
  --line: #e3e5e8; --zero: #9aa1a9; --first: #2f6fbb; --second: #d08a3c; --bad: #c62f2f;
  --good: #2c7a4b; --whisker: #1c1f23; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --card: #1c2024; --ink: #e8eaed;
  --soft: #a0a8b1; --line: #31363c; --zero: #6b737c; --first: #5d9be6; --second: #d9a05b;
  --bad: #ff7a70; --good: #6fc792; --whisker: #f4f5f6; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1020px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 28px; margin: 0 0 8px; }
h2 { font-size: 20px; margin: 0 0 4px; }
p { margin: 0 0 4px; }
.facts, .note { color: var(--soft); font-size: 14px; }
.verdict { margin: 16px 0; font-weight: 600; color: var(--good); }
.verdict.wrong { color: var(--bad); }
nav { margin: 0 0 20px; font-size: 14px; }
nav a { color: var(--first); margin-right: 14px; text-decoration: none; white-space: nowrap; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 12px;
  margin: 0 0 20px; }
.tile, section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tile { padding: 14px 16px; }
.tile b { display: block; font-size: 24px; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
section { padding: 20px; margin: 0 0 20px; }
.wide { overflow-x: auto; }
.hint { display: none; color: var(--soft); font-size: 13px; }
@media (max-width: 760px) { .hint { display: block; } section { padding: 14px; }
  main { padding: 20px 10px 40px; } }
td.bad { color: var(--bad); font-weight: 600; }
svg { display: block; width: 100%; min-width: 720px; height: auto; margin: 14px 0 10px;
  font: 12.5px system-ui, sans-serif; }
svg text { fill: var(--ink); }
svg .axis { fill: var(--soft); font-weight: 600; }
svg .tick { fill: var(--soft); font-size: 11px; }
svg .value { font-variant-numeric: tabular-nums; }
svg .grid { stroke: var(--line); }
svg .zero { stroke: var(--zero); }
svg rect.series0 { fill: var(--first); }
svg rect.series1 { fill: var(--second); }
svg rect.wrong, svg text.wrong { fill: var(--bad); }
svg .whisker { stroke: var(--whisker); stroke-width: 1.3; fill: none; opacity: 0.75; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px;
  font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
th, td { padding: 5px 10px; text-align: right; border-bottom: 1px solid var(--line); }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tr:last-child td { border-bottom: 0; }
tr.wrong td { color: var(--bad); font-weight: 600; }
"""


def html(page: Page) -> str:
    """Return the whole file; except for its first line it is well-formed XML, too."""
    links = [f'<a href="#{each.key}">{escape(each.title)}</a>' for each in page.sections]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"/>',
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
        f"<title>{escape(page.title)}</title><style>{STYLE}</style></head><body><main>",
        f"<header><h1>{escape(page.title)}</h1>",
        *(f'<p class="facts">{escape(fact)}</p>' for fact in page.facts),
        f'<p class="verdict{" wrong" if page.wrong else ""}">{escape(page.verdict)}</p></header>',
        '<div class="tiles">',
        *(_tile(tile) for tile in page.tiles),
        "</div>",
        f"<nav>{' '.join(links)}</nav>",
        *(_section(each) for each in page.sections),
        "</main></body></html>",
    ]
    return "\n".join([*parts, ""])


def _tile(tile: Tile) -> str:
    return f'<div class="tile"><b>{escape(tile.value)}</b><span>{escape(tile.label)}</span></div>'


_HINT: Final = '<p class="hint">wider than this screen: scroll sideways \u2192</p>'


def _section(section: Section) -> str:
    parts = [
        f'<section id="{escape(section.key)}"><h2>{escape(section.title)}</h2>',
        f'<p class="note">{escape(section.note)}</p>',
    ]
    if section.chart is not None:
        parts.append(f'{_HINT}<div class="wide">{draw(section.chart)}</div>')
    hint = _HINT if section.chart is None else ""  # one hint for both charts
    parts.append(f'{hint}<div class="wide">{_table(section.table)}</div></section>')
    return "\n".join(parts)


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    parts = [f"<table><thead><tr>{head}</tr></thead><tbody>"]
    for row in table.rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row.cells)
        parts.append(f'<tr class="wrong">{cells}</tr>' if row.wrong else f"<tr>{cells}</tr>")
    return "\n".join([*parts, "</tbody></table>"])
