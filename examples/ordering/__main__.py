"""Play stories of the ordering algorithms: each is a run that shows its lesson."""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from examples.common.command import new_parser
from examples.common.names import known
from examples.ordering.chapter import PARTS, STORIES
from examples.ordering.story import Run, Story
from groupcomm.errors import ConfigError
from groupcomm.trace.events import encode_event
from groupcomm_tools.traces.text import readable

EPILOG = """\
example: python -m examples.ordering effect-first vector
         python -m examples.ordering vector --trace vector.jsonl && groupcomm check vector.jsonl
exit status: 0 done, 1 a file cannot be written, 2 usage"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser with all options."""
    parser = new_parser("ordering", __doc__, EPILOG)
    parser.add_argument("names", nargs="*", metavar="NAME", help="stories; none: list all")
    parser.add_argument("--list", action="store_true", help="names and titles, and play nothing")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each")
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="write the trace of one story, a line an event"
    )
    return parser


def command(options: argparse.Namespace) -> Iterable[str]:
    """Return the text to print; write the trace if an option asks for it.

    Raises:
        ConfigError: no story has this name, or a trace is wanted of none or of several.
    """
    chosen = [known(name, STORIES, "story") for name in options.names]
    if options.trace is not None and (len(chosen) != 1 or options.list):
        raise ConfigError(f"--trace is for one story, and there are {len(chosen)}; name one")
    if options.list or not chosen:
        yield from map(_json_line, STORIES.values()) if options.json else _listed()
        return
    for story in chosen:
        run = story.run()
        if options.trace is not None:
            lines = [encode_event(event) + b"\n" for event in run.events]
            options.trace.write_bytes(b"".join(lines))
        yield _json_line(story, run) if options.json else "\n".join(_told(story, run))


def _listed() -> Iterable[str]:
    width = max(map(len, STORIES))
    for part in PARTS:
        yield f"\n{str(part.__doc__).splitlines()[0].rstrip('.')}"
        for story in STORIES.values():
            if story.run.__module__ == part.__name__:
                yield f"  {story.name:{width}}  {story.title}"


def _told(story: Story, run: Run) -> Iterable[str]:
    yield f"{story.name}: {story.title}\n\n{story.lesson}\n"
    yield from map(readable, run.events)
    yield ""
    for name, messages in run.delivered.items():
        yield f"{name} delivers {', '.join(messages) or 'nothing'}"
    if run.held is not None:
        yield f"orders that held: {', '.join(_orders(run)) or 'none'}"
    for key, value in run.seen.items():
        yield f"{key.replace('_', ' ')}: {_readable_value(value)}"
    yield ""


def _readable_value(value: object) -> str:
    match value:
        case Mapping():
            return ", ".join(f"{key} {_readable_value(each)}" for key, each in value.items())
        case list() | tuple():
            return " ".join(map(_readable_value, value)) or "none"
        case _:
            return str(value)


def _orders(run: Run) -> list[str]:
    return sorted(order.value for order in run.held or ())


def _json_line(story: Story, run: Run | None = None) -> str:
    """Return a story for JSON, with its results if it was played."""
    told: dict[str, Any] = {"name": story.name, "title": story.title, "lesson": story.lesson}
    if run is not None:
        held = None if run.held is None else _orders(run)
        told |= {"delivered": run.delivered, "held": held, "seen": run.seen}
    return json.dumps(told)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = make_parser().parse_args(arguments)
    try:
        for text in command(options):
            print(text)
    except (ConfigError, OSError) as error:
        print(f"ordering: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
