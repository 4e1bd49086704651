"""Tutorials fit into a lesson, and work where groupcomm was installed from a wheel only."""

import faulthandler
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hatchling.build import build_wheel

from tests.documentation.blocks import Act, Block, read_blocks
from tests.documentation.pages import LONG, ROOT, name_of
from tests.documentation.run import run_page
from tests.documentation.timed import LONGEST_MINUTES, TUTORIALS, reading_of

LINES_OF_A_PROGRAM = 42


def blocks_of(page: Path) -> list[Block]:
    return read_blocks(name_of(page), page.read_text())


def test_there_are_nine_and_the_index_names_them() -> None:
    index = (ROOT / "docs" / "tutorials" / "index.md").read_text()
    assert len(TUTORIALS) == 9
    assert all(f"]({page.name})" in index for page in TUTORIALS)


@pytest.mark.parametrize("page", [pytest.param(each, id=each.stem) for each in TUTORIALS])
def test_a_tutorial_takes_a_reader_fifteen_minutes_even_if_everything_is_typed(page: Path) -> None:
    blocks = blocks_of(page)
    reading = reading_of(page.read_text(), blocks)
    assert reading.read + reading.type + reading.type_files <= LONGEST_MINUTES
    files = [block for block in blocks if block.act is Act.FILE]
    assert all(block.text.count("\n") <= LINES_OF_A_PROGRAM for block in files)
    assert not any(block.reason for block in blocks), "all blocks of a tutorial are run"


def test_the_time_of_a_reader_is_that_of_reading_typing_and_pasting() -> None:
    text = "word " * 200 + "\n\n<!-- file: a.py -->\n```python\n" + "x" * 99 + "\n```\n"
    reading = reading_of(text, read_blocks("a.md", text))
    assert reading.read == pytest.approx(1.0, abs=0.03)
    assert (reading.type, reading.paste, reading.type_files) == (0, 0.25, 0.5)
    text = "```sh\n" + "x" * 399 + "\n```\n"
    assert reading_of(text, read_blocks("a.md", text)).type == 2.0


@pytest.fixture(scope="module")
def environment() -> Iterator[Path]:
    """A virtual environment with the wheel of this clone and the locked packages of Spark."""
    with TemporaryDirectory(prefix="fresh-") as folder:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(ROOT)
            wheel = Path(folder) / build_wheel(folder)
        fresh = Path(folder) / "environment"
        subprocess.run([sys.executable, "-m", "venv", str(fresh)], check=True)
        install = [str(fresh / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
        locks = [f"--requirement={ROOT}/.ci/lock/{name}.txt" for name in ("base", "spark")]
        subprocess.run([*install, "--require-hashes", *locks], check=True)
        subprocess.run([*install, str(wheel)], check=True)
        yield fresh


@pytest.mark.long
@pytest.mark.parametrize("page", [pytest.param(each, id=each.stem) for each in TUTORIALS])
def test_a_tutorial_works_in_a_fresh_environment(page: Path, environment: Path) -> None:
    faulthandler.cancel_dump_traceback_later()  # the first one waits for pip
    limit = ["--block-s", "900"] if name_of(page) in LONG else []
    done = run_page(page, environment, *limit)
    assert done.returncode == 0, done.stdout
