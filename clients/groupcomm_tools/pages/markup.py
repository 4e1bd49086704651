"""Text in pages and pictures: never markup, and nothing in it that nobody sees."""

import html

from groupcomm.visible import visible


def escape(text: str) -> str:
    """Return a text as HTML and SVG show it, with escapes for what is not to be seen."""
    return html.escape(visible(text, kept="\n\t"))
