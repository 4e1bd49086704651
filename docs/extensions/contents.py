"""Tables of contents out of lists: a page that is named index.md or README.md lists its pages once.

A list of links reads well on GitHub, and has a line about each page. For Sphinx each such list
becomes a hidden toctree whose caption is the heading above it, so that no page is named twice.
"""

import re
from typing import Any

from sphinx.application import Sphinx

HEADING = re.compile(r"^###? (.+)$")
ENTRY = re.compile(r"^- \[([^]]+)\]\(([^)#\s]+\.md)\)")


def toctrees(text: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return each heading that has a list, as a caption, with the title and target of its pages."""
    found: list[tuple[str, list[tuple[str, str]]]] = [("", [])]
    for line in text.splitlines():
        if heading := HEADING.match(line):
            found.append((heading[1], []))
        elif entry := ENTRY.match(line):
            found[-1][1].append((entry[1], entry[2]))
    return [(caption, entries) for caption, entries in found if entries]


def directives(app: Sphinx, docname: str, text: str) -> str:
    """Return the toctrees of a page as MyST."""
    lines = [""]
    for caption, entries in toctrees(text):
        lines += ["", "```{toctree}", ":hidden:"]
        if caption:
            lines.append(f":caption: {caption}")
        lines.append("")
        for title, target in entries:
            path = app.env.relfn2path(target, docname)[1]
            lines.append(f"{title} </{app.env.path2doc(path)}>")
        lines.append("```")
    return "\n".join(lines) + "\n"


def add(app: Sphinx, docname: str, source: list[str]) -> None:
    """Append the toctrees to the source of a page that lists others."""
    if docname.rpartition("/")[2] == "index":
        source[0] += directives(app, docname, source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("source-read", add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
