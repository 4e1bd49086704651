"""The site is built from docs/ without a warning; so every link leads somewhere."""

import zlib
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from docs.extensions.public_names import public_names
from tests.documentation.building import ROOT, build_site

PAGES = sorted(
    [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it."""
    return build_site(tmp_path_factory.mktemp("site"))


@pytest.mark.long
def test_all_pages_are_read_and_all_links_lead_somewhere(tmp_path: Path) -> None:
    """What the site looks like then, those below and `make docs` show; test_links is shorter."""
    build_site(tmp_path, "dummy")


@pytest.mark.long
def test_every_page_and_the_readme_of_each_example_is_there(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    assert not [page for page in pages if not (site / page.with_suffix(".html")).exists()]
    examples = [path.parent.name for path in (ROOT / "examples").glob("*/README.md")]
    assert len(examples) > 10
    assert not [name for name in examples if not (site / "examples" / f"{name}.html").exists()]


@pytest.mark.long
def test_the_side_of_each_page_lists_all_pages(site: Path) -> None:
    page = (site / "protocol" / "ring.html").read_text(encoding="utf-8")
    side = page[page.index('<div class="sidebar-tree">') : page.index('<article role="main"')]
    assert 'href="../tour.html"' in side
    assert 'href="../examples/chat.html"' in side
    assert "tour.html#" not in side, "headings of other pages are not copied to each page"


@pytest.mark.long
def test_a_link_to_a_source_leads_to_a_page_with_it(site: Path) -> None:
    tour = (site / "tour.html").read_text(encoding="utf-8")
    assert 'href="sources/groupcomm/engine/output.py.html"' in tour
    page = (site / "sources/groupcomm/engine/output.py.html").read_text(encoding="utf-8")
    assert "drive" in page
    assert "def" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_of_code_is_fenced_and_names_its_language(page: Path) -> None:
    """The language says how a block is shown, and whether a test runs it."""
    tokens = MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
    lines = [token.map for token in tokens if token.type == "code_block"]
    lines += [token.map for token in tokens if token.type == "fence" and not token.info]
    assert not [first + 1 for first, _ in filter(None, lines)], "lines without a language"


@pytest.mark.long
def test_every_public_name_is_in_the_inventory(site: Path) -> None:
    _, _, _, _, packed = (site / "objects.inv").read_bytes().split(b"\n", 4)
    names = {line.split(" py:")[0] for line in zlib.decompress(packed).decode().splitlines()}
    assert not [each.full for each in public_names() if each.first not in names]
