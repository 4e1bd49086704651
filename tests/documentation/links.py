"""The links of all pages, and the anchors that they may lead to.

``python -m tests.documentation.links`` prints the links to other sites with the pages that have
them; `make docs-links` asks each site.
"""

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.documentation.building import ROOT

PAGES: Final = sorted(
    [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
)


@functools.cache
def _tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def links_of(page: Path) -> Iterator[str]:
    """Yield the targets of the links of a page."""
    for token in _tokens(page):
        for child in token.children or []:
            if child.type == "link_open":
                yield str(child.attrs["href"])


@functools.cache
def anchors_of(page: Path) -> frozenset[str]:
    """Return the anchors of a page: its headings, as GitHub and MyST name them.

    Those of the glossary are also its words: see docs/extensions/terms.py.
    """
    found: Counter[str] = Counter()
    anchors = set()
    tokens = _tokens(page)
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            name = _slug(_text(tokens[at + 1]))
            anchors.add(f"{name}-{found[name]}" if found[name] else name)
            found[name] += 1
        elif page.name == "glossary.md" and token.type == "tr_open":
            words = re.sub(r"\(.*?\)", "", _text(tokens[at + 2])).split(",")
            anchors.update(_slug(word.strip()) for word in words)
    return frozenset(anchors)


def _text(inline: Token) -> str:
    return "".join(child.content for child in inline.children or [])


def _slug(text: str) -> str:
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def lost_anchors(page: Path) -> list[str]:
    """Return the links of a page to a part of a page that has no heading of this name."""
    parted = [(link, *link.partition("#")[::2]) for link in links_of(page)]
    return [
        link
        for link, target, anchor in parted
        if anchor and ":" not in target and (target.endswith(".md") or not target)
        if anchor not in anchors_of((page.parent / target).resolve() if target else page)
    ]


def external_links() -> dict[str, list[str]]:
    """Return each address of another site, with the pages that link to it."""
    found = defaultdict(list)
    for page in PAGES:
        for link in links_of(page):
            if ":" in link.partition("#")[0]:
                found[link].append(page.relative_to(ROOT).as_posix())
    return dict(found)


if __name__ == "__main__":
    for address, pages in sorted(external_links().items()):
        print(address, *sorted(set(pages)))
