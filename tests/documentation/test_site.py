"""The site is built from docs/ without a warning; so every link leads somewhere."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "--fail-on-warning"]
    command += ["--keep-going", "-d", str(folder / "doctrees"), "docs", str(folder / "html")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


def test_every_page_and_the_readme_of_each_example_is_there(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    assert not [page for page in pages if not (site / page.with_suffix(".html")).exists()]
    examples = [path.parent.name for path in (ROOT / "examples").glob("*/README.md")]
    assert len(examples) > 10
    assert not [name for name in examples if not (site / "examples" / f"{name}.html").exists()]


def test_a_link_to_a_source_leads_to_a_page_with_it(site: Path) -> None:
    tour = (site / "tour.html").read_text(encoding="utf-8")
    assert 'href="sources/groupcomm/engine/output.py.html"' in tour
    page = (site / "sources/groupcomm/engine/output.py.html").read_text(encoding="utf-8")
    assert "drive" in page
    assert "def" in page
