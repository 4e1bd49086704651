"""Pages with generated blocks: what stands between their marks is rendered from the figures.

::

    <!-- generated: NAME -->
    ...
    <!-- end -->

Everything else is written by hand. It has no figures: `figures_in_prose` finds those.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

DOCS: Final = Path("docs")
PAGES: Final = ("performance.md", "choosing.md", "comparison.md")
ONCE: Final = "## Measured once"
"""The heading of the list of figures that no command writes; each names its day and command."""

_BLOCK: Final = re.compile(
    r"^<!-- generated: ([a-z-]+) -->\n(.*?)^<!-- end -->$", re.DOTALL | re.MULTILINE
)
_CODE_LINES: Final = re.compile(r"^ {4,}.*$|`[^`\n]+`", re.MULTILINE)
_FENCED: Final = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK_TARGET: Final = re.compile(r"\]\([^)]*\)")
_UNITS: Final = (
    r"%|ms|µs|us|s|min|[kKMG]i?B|bytes|[kM]bit|/s|[kM]?B/s|[kM]bit/s|x|times|percent|seconds?|"
    r"microseconds?|milliseconds?|minutes?|hours?|days?|messages|datagrams|steps|calls|a second"
)
_FIGURE: Final = re.compile(rf"(?<![\w.])\d[\d,.]*\s*(?:{_UNITS})(?![\w])")


class UnknownBlock(Exception):
    """A page asks for a block that nobody renders."""


def fill(page: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    """Return a page with its generated blocks rendered anew.

    Args:
        page: the text.
        blocks: a function for each block, by its name.

    Raises:
        UnknownBlock: there is none of this name.
    """

    def rendered(match: re.Match[str]) -> str:
        name = match[1]
        if name not in blocks:
            raise UnknownBlock(f"no block is called {name}; there are {', '.join(sorted(blocks))}")
        return f"<!-- generated: {name} -->\n\n{blocks[name]().strip()}\n\n<!-- end -->"

    return _BLOCK.sub(rendered, page)


def blocks_of(page: str) -> list[str]:
    """Return the names of the blocks of a page, in their order."""
    return [match[1] for match in _BLOCK.finditer(page)]


def figures_in_prose(page: str) -> list[str]:
    """Return the numbers with a unit that stand in the text of a page by hand.

    Blocks that are generated, code, and the list of figures measured once do not count.
    """
    text = _BLOCK.sub("", page)
    before, _, once = text.partition(f"\n{ONCE}\n")
    after = once.partition("\n## ")[2]
    prose = _FENCED.sub("", f"{before}\n{after}")
    prose = _LINK_TARGET.sub("]", _CODE_LINES.sub("", prose))
    return [match[0] for match in _FIGURE.finditer(prose)]
