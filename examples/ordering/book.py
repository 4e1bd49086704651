"""The chapter's stories and figures, generated from the runs: ``docs/ordering.md``.

Between ``<!-- story NAME -->`` and ``<!-- end -->`` stands the text of this module: title, lesson,
figure, and the results of the run. The rest of the chapter is written by hand.
"""

import re
import textwrap
from pathlib import Path
from typing import Final

from examples.ordering.chapter import STORIES
from examples.ordering.story import Run, Story
from groupcomm_lessons.algorithms.process import Order
from groupcomm_tools.view.build import make_diagram
from groupcomm_tools.view.figure import figure_of

DOCS: Final = Path(__file__).parents[2] / "docs"
CHAPTER: Final = "ordering.md"
FIGURES: Final = "ordering"

TICKS: Final = frozenset({"tick-lines", "logical-time"})
LOGICAL: Final = frozenset({"logical-time"})
"""The figures with lines between equal clocks, and those along clocks instead of time."""

_WIDTH: Final = 110
_PLACE: Final = re.compile(r"<!-- story ([a-z0-9-]+) -->\n.*?<!-- end -->", re.DOTALL)


def write(docs: Path = DOCS) -> None:
    """Write all figures, and the chapter."""
    chapter = docs / CHAPTER
    text = filled(chapter.read_text())
    (docs / FIGURES).mkdir(exist_ok=True)
    for story in STORIES.values():
        (docs / FIGURES / f"{story.name}.svg").write_text(figure(story))
    chapter.write_text(text)


def filled(chapter: str) -> str:
    """Return the chapter with every story in its place.

    Raises:
        KeyError: a place names a story that does not exist.
    """
    return _PLACE.sub(lambda place: _block(STORIES[place[1]]), chapter)


def places(chapter: str) -> list[str]:
    """Return the names of the stories that have a place."""
    return [place[1] for place in _PLACE.finditer(chapter)]


def figure(story: Story) -> str:
    """Return the space-time diagram of a story, as SVG."""
    run = story.run()
    diagram = make_diagram(story.name, run.events)
    return figure_of(
        diagram,
        title=story.title,
        logical=story.name in LOGICAL,
        ticks=story.name in TICKS,
        marks={story.breaks.value} if story.breaks else set(),
        since=int(str(run.seen.get("sent_at", 0))),
    )


def _block(story: Story) -> str:
    run = story.run()
    lines = [f"<!-- story {story.name} -->", f"### {story.title}", "", *_wrapped(story.lesson), ""]
    lines += [f"![{story.title}: space-time diagram]({FIGURES}/{story.name}.svg)", ""]
    shown = _shown(run)
    return "\n".join([*lines, *_wrapped(shown), *([""] if shown else []), "<!-- end -->"])


def _shown(run: Run) -> str:
    """Return the results of a run, in a sentence or two."""
    told = [
        f"{name} delivers {', '.join(messages)}"
        for name, messages in run.delivered.items()
        if messages
    ]
    text = f"{'; '.join(told)}." if told else ""
    if run.held is not None:
        kept = [order.value for order in Order if order in run.held]
        broken = [order.value for order in Order if order not in run.held]
        text += f" Kept: {', '.join(kept) or 'no order'}." if kept or broken else ""
        text += f" Broken: {', '.join(broken)}." if broken else ""
    return text.strip()


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    write()
