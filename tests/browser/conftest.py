"""Pages are tested where there is a browser; elsewhere the head of the report says why not."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from groupcomm.trace.events import TraceEvent
from groupcomm_tools.view.build import make_diagram
from groupcomm_tools.view.page import make_page
from tests.browser.chromium import missing, open_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

collect_ignore_glob = ["test_*.py"] if missing() else []
if subprocess.call("node --experimental-websocket -e ''", shell=True, stderr=subprocess.DEVNULL):
    collect_ignore_glob.append("test_node.py")  # no node, or one of before 20.10

Show = Callable[[Path], "Page"]
View = Callable[[Sequence[TraceEvent]], "Page"]


def write_page(path: Path, events: Sequence[TraceEvent]) -> Path:
    path.write_text(make_page("run", make_diagram("run", events)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """One for a module, and no longer: playwright keeps an event loop running meanwhile."""
    with open_browser() as browser:
        yield browser


@pytest.fixture
def show(browser: "Browser") -> Iterator[Show]:
    """Opens a file; at the end no page has complained, or fetched anything but itself."""
    complaints: list[str] = []
    requests: list[str] = []
    context = browser.new_context(viewport={"width": 1400, "height": 900})

    def open_file(path: Path) -> "Page":
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_file
    opened = len(context.pages)
    context.close()
    assert not complaints
    assert len(requests) == opened
    assert all(url.startswith("file:") for url in requests)


@pytest.fixture
def view(show: Show, tmp_path: Path) -> View:
    """Opens the page of a trace."""

    def open_trace(events: Sequence[TraceEvent]) -> "Page":
        return show(write_page(tmp_path / "page.html", events))

    return open_trace
