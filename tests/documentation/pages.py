"""The pages of the documentation whose blocks are run, and how many of their blocks are.

``python -m tests.documentation.pages`` prints the numbers.
"""

import sys
from collections import Counter
from pathlib import Path
from typing import Final

from tests.documentation.blocks import Act, read_blocks

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]

LONG: Final = frozenset(
    {
        *(
            f"docs/{name}.md"
            for name in (
                *(
                    "backup",
                    "chat",
                    "coordination",
                    "direct",
                    "end-to-end",
                    "filters",
                    "history",
                    "ordering",
                ),
                *("recorder", "simulator", "sites", "spread-api", "view", "work"),
            )
        ),
        *(
            f"docs/tutorials/{name}.md"
            for name in (
                *("lock", "operating", "ordering", "sites", "spark", "spread", "store", "work"),
            )
        ),
        *(
            f"examples/{name}/README.md"
            for name in (
                *("chat", "fencing", "filters", "key_value", "leader", "mutex", "order_book"),
                *("ordering", "plain_client", "requests", "secret_group", "worker_pool"),
            )
        ),
    }
)
"""The pages whose blocks take many seconds. What they describe has shorter tests beside it; the
front page, the one on clients, the tour and the first tutorial are run with these.

Tutorials with several daemons are among them for another reason, too: on a busy host their daemons
may part for a moment, and a page then prints views that a reader of a quiet host does not see.
"""


def name_of(page: Path) -> str:
    """Return the path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


def main() -> int:
    """Print how many shell and Python blocks of each page are run, and why others are not."""
    total: Counter[Act] = Counter()
    print(f"{'page':<40}{'run':>5}{'saved':>7}{'not run':>9}")
    for page in PAGES:
        name = name_of(page)
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
        f"{total[Act.RUN] + total[Act.FILE]} of {total.total()} blocks are run, or used by those"
        " that are"
    )
    return 0


def _numbers(found: Counter[Act]) -> str:
    return f"{found[Act.RUN]:>5}{found[Act.FILE]:>7}{found[Act.NOT_RUN]:>9}"


if __name__ == "__main__":
    sys.exit(main())
