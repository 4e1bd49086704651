"""The browser that pages are tested in: the distribution's Chromium, without its own traffic."""

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PATH: Final = shutil.which("chromium") or shutil.which("chromium-browser")

ARGUMENTS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def missing() -> str:
    """Why pages cannot be tested here; empty if they can."""
    lacks = []
    if PATH is None:
        lacks.append("chromium")
    if importlib.util.find_spec("playwright") is None:
        lacks.append("the Python package playwright")
    if not lacks:
        return ""
    return f"{' and '.join(lacks)} missing; `make browser-test` installs what is missing"


@contextmanager
def open_browser() -> "Iterator[Browser]":
    """A browser with a profile of its own, gone afterwards."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it may not be there

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PATH, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()
