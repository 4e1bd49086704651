"""The documentation's site in a browser, from a folder: search, phone, light and dark.

All of it is long: the site is built for it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.documentation.building import ROOT, build_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.long

Open = Callable[..., "Page"]

FIGURES = sorted(
    path
    for path in (ROOT / "docs").rglob("*.svg")
    if "prefers-color-scheme" in path.read_text(encoding="utf-8")
)

CONTRAST = """() => {
  const channel = (value) => {
    const part = value / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  };
  const light = (colour) => {
    const [red, green, blue] = colour.match(/[0-9.]+/g).map(Number).map(channel);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const paper = light(getComputedStyle(document.querySelector(".paper")).fill);
  return Math.min(...[...document.querySelectorAll("text:not(.on)")].map((text) => {
    const ink = light(getComputedStyle(text).fill);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  }));
}"""
"""The least contrast of a text of a figure to its paper, as WCAG 2 defines it."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


@pytest.fixture
def visit(browser: "Browser", site: Path) -> Iterator[Open]:
    """Opens a page of the site; no page may complain, or ask for anything outside its folder."""
    complaints: list[str] = []
    requests: list[str] = []
    contexts = []

    def open_page(name: str, width: int = 1400, scheme: str = "light", theme: str = "") -> "Page":
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        if theme:
            page.add_init_script(f"localStorage.setItem('theme', '{theme}')")
        page.goto((site / name).as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints
    assert requests
    assert all(url.startswith(site.as_uri()) for url in requests), "no request leaves the folder"


def test_the_search_finds_a_page_and_shows_where_the_word_stands(visit: Open) -> None:
    page = visit("index.html")
    page.get_by_role("search").get_by_placeholder("Search").fill("retransmission")
    page.keyboard.press("Enter")
    found = page.locator("#search-results li")
    found.first.wait_for()
    page.locator("#search-results li p.context").first.wait_for()
    links = found.locator("a").evaluate_all("all => all.map((a) => a.getAttribute('href'))")
    assert any(link.startswith("glossary.html") for link in links)
    assert all("retransmission" in text.lower() for text in found.all_inner_texts()[:3])


def test_a_word_of_the_glossary_is_found_with_its_row(visit: Open) -> None:
    page = visit("search.html")
    page.get_by_role("search").get_by_placeholder("Search").fill("lame duck")
    page.keyboard.press("Enter")
    link = page.locator("#search-results a[href*='term-lame-duck']").first
    link.click()
    page.wait_for_url("**/glossary.html*")
    row = page.locator("tr", has=page.locator("#term-lame-duck"))
    assert "admits no new session" in row.inner_text()


def test_no_page_is_wider_than_a_phone(visit: Open, site: Path) -> None:
    page = visit("index.html", width=360)
    wide = []
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    for name in names:
        page.goto((site / name).as_uri())
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wide.append(name)
    assert len(names) > 60
    assert not wide


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_text_of_every_figure_stands_out(browser: "Browser", scheme: str) -> None:
    context = browser.new_context(color_scheme="dark" if scheme == "dark" else "light")
    page = context.new_page()
    least = {}
    for path in FIGURES:
        page.goto(path.as_uri())
        least[path.name] = page.evaluate(CONTRAST)
    context.close()
    assert len(least) > 40
    assert not {name: value for name, value in least.items() if value < 4.5}


@pytest.mark.parametrize(
    ("scheme", "theme", "dark", "inverted"),
    [
        ("light", "", False, False),
        ("dark", "", True, False),
        ("light", "dark", True, True),
        ("dark", "light", False, True),
    ],
)
def test_figures_follow_the_choice_of_the_reader(
    visit: Open, scheme: str, theme: str, dark: bool, inverted: bool
) -> None:
    """A figure knows the system's choice; where the reader has chosen otherwise, it is inverted."""
    page = visit("tour.html", scheme=scheme, theme=theme)
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(colour.split("(")[1].split(",")[0]) < 80) == dark
    figure = page.locator("img[src$='ring.svg']")
    assert (figure.evaluate("image => getComputedStyle(image).filter") != "none") == inverted
    assert figure.evaluate("image => image.naturalWidth") > 0
