"""Small parts of Markdown that generated pages are made of."""

import re
from collections.abc import Iterable, Sequence

_PAGE = re.compile(r"(?<![\w/`])docs/((?:[\w-]+/)*)([\w-]+)\.md(?:#([\w-]+))?")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; each row has a cell for each head."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def cell(text: str) -> str:
    """Return a text as one line that ends no cell."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def code(text: str) -> str:
    """Return a text as code in a cell of a table."""
    return f"`{cell(text)}`"


def prose(text: str) -> str:
    """Return the text of a docstring as a cell: code in single backticks, and links to pages.

    ``docs/NAME.md#PART`` becomes a link from a page of docs/reference/.
    """
    return _PAGE.sub(_link, cell(text.replace("``", "`")))


def _link(found: re.Match[str]) -> str:
    folder, name, part = found[1], found[2], found[3]
    shown = (part or name).replace("-", " ")
    target = f"../{folder}{name}.md" + (f"#{part}" if part else "")
    return f"[{shown}]({target})"
