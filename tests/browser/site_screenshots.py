"""Pictures of the site, to be looked at: `make docs`, then

    python -m tests.browser.site_screenshots build/screenshots

Each page is drawn in light and dark, on a desk and on a phone; prints the files.
"""

import argparse
from pathlib import Path
from typing import Final

from tests.browser.chromium import missing, open_browser

SITE: Final = Path(__file__).parents[2] / "build" / "docs"
PAGES: Final = {
    "front": "index.html",
    "tutorials": "tutorials/index.html",
    "reference": "reference/index.html",
    "tour": "tour.html",
    "glossary": "glossary.html",
    "search": "search.html?q=retransmission",
    "source": "sources/groupcomm/engine/output.py.html",
}
SIZES: Final = {"desk": (1400, 900), "phone": (390, 844)}


def main() -> None:
    """Draw the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the pictures")
    parser.add_argument("pages", nargs="*", help="other pages of the site, as paths below it")
    options = parser.parse_args()
    if why := missing():
        parser.exit(1, f"{why}\n")
    options.folder.mkdir(parents=True, exist_ok=True)
    pages = {
        Path(name).with_suffix("").as_posix().replace("/", "-"): name for name in options.pages
    }
    with open_browser() as browser:
        for dark in (False, True):
            for size, (width, height) in SIZES.items():
                context = browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme="dark" if dark else "light",
                )
                page = context.new_page()
                page.set_default_timeout(120_000)
                for name, target in (pages or PAGES).items():
                    page.goto(f"{SITE.as_uri()}/{target}")
                    if "?" in target:
                        page.locator("#search-results li p.context").first.wait_for()
                    path = options.folder / f"{name}-{size}-{'dark' if dark else 'light'}.png"
                    page.screenshot(path=path)
                    print(path)
                context.close()


if __name__ == "__main__":
    main()
