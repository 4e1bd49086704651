"""Links to other sites are well formed; whether they lead somewhere, only a network can say.

Links to a part of a page lead to a heading of it.
"""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.documentation.building import ROOT
from tests.documentation.links import PAGES, external_links, links_of, lost_anchors

NAME = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"


def wrong_with(address: str) -> str:
    """Return what is wrong with an address; "" if it is well formed."""
    parts = urlsplit(address)
    if parts.scheme not in ("https", "http"):
        return "neither https nor http"
    if not re.fullmatch(rf"({NAME}\.)+{NAME}", parts.hostname or ""):
        return "no name of a host"
    if parts.username or parts.port:
        return "a user or a port"
    return (
        "a character that must be written otherwise"
        if re.search(r"[\s<>\"{}|\\^`]", address)
        else ""
    )


def test_every_link_to_another_site_is_well_formed() -> None:
    found = external_links()
    assert "https://www.spread.org" in found
    assert not {address: why for address in found if (why := wrong_with(address))}


@pytest.mark.parametrize(
    "address",
    ["ftp://a.org", "https://host", "https://a.org:8080/x", "https://u@a.org", "http://a.org/a b"],
)
def test_a_link_that_is_not_well_formed_is_noticed(address: str) -> None:
    assert wrong_with(address)


def test_every_link_to_a_part_of_a_page_leads_to_a_heading() -> None:
    assert not {page.name: lost for page in PAGES if (lost := lost_anchors(page))}


def test_a_link_to_a_part_leads_to_a_page_of_the_site() -> None:
    """The site shows other files, such as the README of the repository, as a whole only."""
    of_site = {page for page in PAGES if page != ROOT / "README.md"}
    parts = {
        f"{page.relative_to(ROOT)}: {link}"
        for page in of_site
        for link in links_of(page)
        if ":" not in link and "#" in link and not link.startswith("#")
        if (page.parent / link.partition("#")[0]).resolve() not in of_site
    }
    assert not parts


def test_a_link_to_a_part_that_is_not_there_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text(
        "# One `two`, 3\n\n## B\n\n## B\n\n[x](#one-two-3) [y](a.md#b-1) [z](a.md#b-2)\n"
    )
    assert lost_anchors(page) == ["a.md#b-2"]
