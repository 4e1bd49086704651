"""The page of a daemon, in a real browser: also when another daemon is killed."""

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import trio

from groupcomm_tools.local_cluster import LocalCluster

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("press", "oven", "mill")


def in_thread(cluster: LocalCluster) -> None:
    """Start daemons beside the event loop of the browser's driver."""

    async def start() -> None:
        async with trio.open_nursery() as nursery:
            for daemon in cluster.daemons.values():
                nursery.start_soon(daemon.start)
        await cluster.settle(NAMES)

    errors: list[Exception] = []

    def run() -> None:
        try:
            trio.run(start)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not errors, errors


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    made = LocalCluster(NAMES, options=("--http", "127.0.0.1:0"))
    try:
        in_thread(made)
        yield made
    finally:
        made.close()


def open_page(
    browser: "Browser", at: str, complaints: list[str], width: int = 1400, *, dark: bool = False
) -> "Page":
    """Open the page; note its complaints, and its requests elsewhere."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))

    def note(url: str) -> None:
        if not url.startswith((f"http://{at}/", "data:")):
            complaints.append(url)

    page.on("request", lambda request: note(request.url))
    page.goto(f"http://{at}/")
    return page


def test_a_daemon_is_killed_and_the_page_shows_it(
    browser: "Browser", cluster: LocalCluster
) -> None:
    complaints: list[str] = []
    page = open_page(browser, cluster["press"].http, complaints)
    page.wait_for_selector("[data-daemon=mill][data-state=in]")
    assert page.inner_text("#state") == "3 of 3 daemons"
    assert page.inner_text("#majority") == "majority"
    short = page.evaluate("labels(['press', 'control-hall-1', 'control-hall-2'])")
    assert list(short.values()) == ["press", "…hall-1", "…hall-2"]
    page.click("#t-figures")
    row = page.wait_for_selector("#figures tr:has-text('token_visits_total'):has-text('/s')")
    assert row is not None
    assert "Number of times that the token has come to this daemon." in row.inner_text()
    cluster["mill"].kill()
    page.wait_for_selector("[data-daemon=mill][data-state=out]")
    page.wait_for_function("document.querySelector('#state').innerText === '2 of 3 daemons'")
    assert "mill went" in page.inner_text("#news"), "it is said aloud"
    assert page.get_attribute("#news", "aria-live") == "polite"
    assert "mill" in page.inner_text("#views li:first-child .went")
    assert page.inner_text("#findings .bad") == "view"
    cluster["press"].kill()
    page.wait_for_selector("#live.off")
    refused = [text for text in complaints if "ERR_" not in text]  # the daemon is gone
    assert not refused
    page.context.close()


@pytest.mark.long
@pytest.mark.parametrize("width", [420, 1400, 2560])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_cut_off_and_all_is_legible(
    browser: "Browser", cluster: LocalCluster, width: int, dark: bool
) -> None:
    complaints: list[str] = []
    page = open_page(browser, cluster["oven"].http, complaints, width, dark=dark)
    page.wait_for_selector("[data-daemon=mill][data-state=in]")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    contrasts = page.evaluate(CONTRAST)
    assert len(contrasts) > 10
    low = [each for each in contrasts if each["ratio"] < 4.5]
    assert not low
    assert not complaints
    page.context.close()


CONTRAST = """() => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const one = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * one(r) + 0.7152 * one(g) + 0.0722 * one(b);
  };
  const behind = element => {
    for (; element; element = element.parentElement) {
      const found = parse(getComputedStyle(element).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const all = "h1, h2, td, th, li, span, small, p, time, a, .why, .second";
  return [...document.querySelectorAll(all)]
    .filter(e => e.offsetParent && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
    .map(e => {
      const ink = light(parse(getComputedStyle(e).color)), paper = light(behind(e));
      const [a, b] = [ink, paper].sort((x, y) => y - x);
      return {text: e.innerText, ratio: (a + 0.05) / (b + 0.05)};
    });
}"""
