"""Time the tutorials: what the machine takes for their blocks, and what a reader takes.

``python -m tests.documentation.timed`` runs all of them, and prints a line for each.

The reader's time is an estimate: 200 words a minute for all text, programs and outputs included;
200 characters a minute for what is typed into terminals; a file is pasted in 15 s, or typed, too.
"""

import re
import sys
import time
from pathlib import Path
from typing import Final

import attrs

from tests.documentation.blocks import Act, Block, read_blocks
from tests.documentation.pages import PAGES, ROOT, name_of
from tests.documentation.run import run_page

WORDS_A_MINUTE: Final = 200
CHARACTERS_A_MINUTE: Final = 200
PASTE_MINUTES: Final = 0.25
LONGEST_MINUTES: Final = 15.0
BLOCK_S: Final = 900

TUTORIALS: Final = [
    page for page in PAGES if page.parent == ROOT / "docs" / "tutorials" and page.name != "index.md"
]

_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_TYPED: Final = frozenset({Act.RUN, Act.BACKGROUND, Act.INPUT})


@attrs.frozen
class Reading:
    """The minutes that a reader takes for a page.

    Attributes:
        read: to read everything.
        type: to type the commands.
        paste: to paste the files.
        type_files: to type the files instead.
    """

    read: float
    type: float
    paste: float
    type_files: float

    @property
    def minutes(self) -> float:
        """Return the minutes of somebody who types commands and pastes files."""
        return self.read + self.type + self.paste


def reading_of(text: str, blocks: list[Block]) -> Reading:
    """Estimate the reader's time for a page.

    Args:
        text: the page.
        blocks: its blocks.
    """
    words = len(_COMMENT.sub("", text).split())
    typed = sum(len(block.text) for block in blocks if block.act in _TYPED)
    files = [block for block in blocks if block.act is Act.FILE]
    return Reading(
        read=words / WORDS_A_MINUTE,
        type=typed / CHARACTERS_A_MINUTE,
        paste=PASTE_MINUTES * len(files),
        type_files=sum(len(block.text) for block in files) / CHARACTERS_A_MINUTE,
    )


def main() -> int:
    """Run and time all tutorials; return 1 if one fails or takes longer than LONGEST_MINUTES."""
    failed = 0
    print(f"{'tutorial':<28}{'machine':>9}{'reading':>9}{'typing':>8}{'files':>7}{'in all':>9}")
    for page in TUTORIALS:
        text = page.read_text()
        reading = reading_of(text, read_blocks(name_of(page), text))
        began = time.monotonic()
        done = run_page(page, Path(sys.prefix), "--block-s", str(BLOCK_S))
        took_s = time.monotonic() - began
        minutes = reading.minutes + took_s / 60
        print(
            f"{page.stem:<28}{took_s:>7.0f} s{reading.read:>7.1f} m{reading.type:>6.1f} m"
            f"{reading.paste:>5.1f} m{minutes:>7.1f} m   ({reading.type_files:.1f} m more if the"
            " files are typed)",
            flush=True,
        )
        if done.returncode:
            print(done.stdout)
        failed |= done.returncode or minutes > LONGEST_MINUTES
    return failed


if __name__ == "__main__":
    sys.exit(main())
