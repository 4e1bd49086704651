"""Escapes for text in pages and pictures: no markup, and no invisible characters."""

import html

from groupcomm.visible import visible


def escape(text: str) -> str:
    """Return a text as HTML and SVG show it, with escapes for markup and invisible characters."""
    return html.escape(visible(text, kept="\n\t"))
