"""Figures follow the reader's choice of light or dark, not only that of the system.

A figure in an `img` knows what the system wants (`prefers-color-scheme`), not what was chosen on
the page. Those that have two forms get a class; static/site.css inverts them where the two differ.
"""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


def mark(app: Sphinx, doctree: nodes.document) -> None:
    """Give the class `two-forms` to each figure of a page that has a light and a dark form."""
    for image in doctree.findall(nodes.image):
        path = Path(app.srcdir, image["uri"])
        if path.suffix == ".svg" and "prefers-color-scheme" in path.read_text(encoding="utf-8"):
            image["classes"].append("two-forms")


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("doctree-read", mark, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
