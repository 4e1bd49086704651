"""The load time of the page of a long trace: navigation to its load event, median of 5.

`make browser-bench` takes a trace of 10,000 messages to 4 processes, as tests draw it; an argument
names another file or folder.
"""

import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from groupcomm_tools.traces.files import trace_events
from groupcomm_tools.view.build import make_diagram
from groupcomm_tools.view.page import make_page
from tests.browser.chromium import missing, open_browser
from tests.groupcomm_tools.view.traces import traffic

ROUNDS: Final = 5
MESSAGES: Final = 10_000

TOOK_MS: Final = "performance.getEntriesByType('navigation')[0].loadEventStart"
ELEMENTS: Final = "document.getElementById('diagram').querySelectorAll('*').length"


def main(arguments: list[str]) -> int:
    if missing():
        print(f"groupcomm: {missing()}", file=sys.stderr)
        return 1
    events = list(trace_events(Path(arguments[0]))) if arguments else traffic(MESSAGES)
    diagram = make_diagram("bench", events)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(make_page("bench", diagram), encoding="utf-8")
        took_ms, elements = measure(path)
        size = path.stat().st_size
    print(
        f"{len(diagram.messages)} messages, {len(diagram.arrivals)} arrivals, {size / 1e6:.1f} MB"
    )
    print(f"navigation to load event: median {median(took_ms):.0f} ms of {sorted(took_ms)}")
    print(f"{elements} elements are drawn")
    return 0


def measure(path: Path) -> tuple[list[int], int]:
    """Return the milliseconds of each round, each in a profile of its own, and the drawn
    objects."""
    took_ms = []
    with open_browser() as browser:
        for _ in range(ROUNDS):
            context = browser.new_context(viewport={"width": 1600, "height": 1000})
            page = context.new_page()
            page.goto(path.as_uri())
            took_ms.append(round(page.evaluate(TOOK_MS)))
            elements = int(page.evaluate(ELEMENTS))
            context.close()
    return took_ms, elements


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
