"""Each page says what its blocks do: they are run in a fresh folder, and print what it shows."""

import faulthandler
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documentation.blocks import Act, read_blocks
from tests.documentation.pages import LONG, PAGES, name_of
from tests.documentation.run import run_page

RUN = [
    pytest.param(page, id=name_of(page), marks=[pytest.mark.long] * (name_of(page) in LONG))
    for page in PAGES
]


@pytest.mark.parametrize("page", RUN)
def test_the_blocks_of_a_page_do_what_it_says(page: Path) -> None:
    blocks = read_blocks(name_of(page), page.read_text())
    if any(block.act not in (Act.NONE, Act.NOT_RUN) for block in blocks):
        limit = []
        if name_of(page) in LONG:
            faulthandler.cancel_dump_traceback_later()  # a long test may take longer than others
            limit = ["--block-s", "900"]
        done = run_page(page, Path(sys.prefix), *limit)
        assert done.returncode == 0, done.stdout


def test_the_pages_can_be_counted() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.documentation.pages"],
        capture_output=True,
        text=True,
        check=True,
        cwd=PAGES[0].parent,
    )
    assert " blocks are run" in done.stdout
