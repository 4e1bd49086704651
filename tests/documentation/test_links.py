"""Links to other sites are well formed; whether they lead somewhere, only a network can say."""

import re
from urllib.parse import urlsplit

import pytest

from tests.documentation.links import external_links

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
