"""The pages of the documentation whose blocks are run, and how many of their blocks are.

``python -m tests.documentation.pages`` prints the numbers.
"""

import sys
from collections import Counter
from pathlib import Path
from typing import Final

from tests.documentation.blocks import Act, read_blocks

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

LONG: Final[frozenset[str]] = frozenset()
"""The pages whose blocks take many seconds, or need Spark."""

NOT_MARKED: Final = frozenset(
    f"docs/{name}.md"
    for name in """
        algorithms chaos chat client commands control coordination direct end-to-end exercises
        exploration filters fuzzing history http moving-from-spread mutants mutation-testing
        operating ordering recorder security simulator sites spark spread-api
        spread-example testing tour view work
    """.split()  # noqa: SIM905 - words read better than quoted lines
)
"""The pages of whose blocks nobody has said yet whether they are run: none is. A page leaves this
list once each of its blocks is run, or marked."""


def name_of(page: Path) -> str:
    """Return the path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


def main() -> int:
    """Print how many shell and Python blocks of each page are run, and why others are not."""
    total: Counter[Act] = Counter()
    unread = 0
    print(f"{'page':<40}{'run':>5}{'saved':>7}{'not run':>9}")
    for page in PAGES:
        name = name_of(page)
        if name in NOT_MARKED:
            unread += 1
            continue
        blocks = [block for block in read_blocks(name, page.read_text()) if block.is_program]
        found: Counter[Act] = Counter()
        found.update(Act.RUN if block.act is Act.BACKGROUND else block.act for block in blocks)
        total += found
        if found:
            print(f"{name:<40}" + _numbers(found))
        for block in blocks:
            if block.reason:
                print(f"  line {block.line}: {block.reason}")
    print(f"{'all':<40}" + _numbers(total))
    print(
        f"{total[Act.RUN] + total[Act.FILE]} of {total.total()} blocks are run or used by those"
        f" that are; {unread} pages have blocks that nobody has marked"
    )
    return 0


def _numbers(found: Counter[Act]) -> str:
    return f"{found[Act.RUN]:>5}{found[Act.FILE]:>7}{found[Act.NOT_RUN]:>9}"


if __name__ == "__main__":
    sys.exit(main())
