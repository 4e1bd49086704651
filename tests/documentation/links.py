"""The links of all pages to other sites.

``python -m tests.documentation.links`` prints them with the pages that have them; `make docs-links`
asks each site.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt

from tests.documentation.building import ROOT


def links_of(page: Path) -> Iterator[str]:
    """Yield the targets of the links of a page."""
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        for child in token.children or []:
            if child.type == "link_open":
                yield str(child.attrs["href"])


def external_links() -> dict[str, list[str]]:
    """Return each address of another site, with the pages that link to it."""
    found = defaultdict(list)
    for page in sorted(
        [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    ):
        for link in links_of(page):
            if ":" in link.partition("#")[0]:
                found[link].append(page.relative_to(ROOT).as_posix())
    return dict(found)


if __name__ == "__main__":
    for address, pages in sorted(external_links().items()):
        print(address, *sorted(set(pages)))
