"""`groupcomm top`: show the traffic of a daemon, and the programs that are too slow."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

from groupcomm.errors import ConfigError
from groupcomm.host.extras import install_hint
from groupcomm.host.option_types import number, one_or_more
from groupcomm_client.blocking import BlockingConnection
from groupcomm_tools.commands.connecting import connect_blocking
from groupcomm_tools.commands.options import add_connection_options, add_reconnect_option
from groupcomm_tools.top.frame import Frame, in_a_line, make_frame

EXAMPLE: Final = "groupcomm top --interval-s 2"

LEAST_INTERVAL_S: Final = 0.05

Show = Callable[[Frame], None]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--interval-s", type=number, default=1.0, metavar="S", help="seconds between frames (1)"
    )
    parser.add_argument("--count", type=one_or_more, metavar="N", help="end after N frames")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each frame")
    parser.add_argument(
        "--svg", type=Path, metavar="FILE", help="write the last frame there, as a picture"
    )
    add_reconnect_option(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Show frames until the count is reached; return 0."""
    if options.interval_s < LEAST_INTERVAL_S:
        raise ConfigError(
            f"--interval-s is {options.interval_s:g}; it must be at least {LEAST_INTERVAL_S:g}"
        )
    drawn = sys.stdout.isatty() and not options.json
    if drawn or options.svg is not None:
        _require_rich()
    with _screen() if drawn else _lines(as_json=options.json) as show:
        last = _run(options, show)
    if options.svg is not None:
        from groupcomm_tools.top.draw import save_svg  # noqa: PLC0415 - rich is an extra

        save_svg(last, options.svg)
    return 0


def _require_rich() -> None:
    try:
        import rich  # noqa: F401, PLC0415 - rich is an extra
    except ImportError:
        raise ConfigError(
            f"pictures need rich: {install_hint('top')}; lines do not: groupcomm top | cat"
        ) from None


@contextmanager
def _screen() -> Iterator[Show]:
    from groupcomm_tools.top.draw import screen  # noqa: PLC0415 - rich is an extra

    with screen() as show:
        yield show


@contextmanager
def _lines(*, as_json: bool) -> Iterator[Show]:
    def show(frame: Frame) -> None:
        text = json.dumps(attrs.asdict(frame), ensure_ascii=False) if as_json else in_a_line(frame)
        print(text, flush=True)

    yield show


def _ask(connection: BlockingConnection) -> dict[str, Any]:
    """Return the status, and the metrics if the daemon knows that question."""
    return {**connection.ask("status"), "metrics": connection.ask("metrics").get("metrics", {})}


def _run(options: argparse.Namespace, show: Show) -> Frame:
    """Show a frame after each interval until enough were shown; return the last one."""
    shown = 0
    with connect_blocking(options, reconnect=not options.no_reconnect) as connection:
        before, asked_s = _ask(connection), time.monotonic()
        while True:
            time.sleep(max(0.0, asked_s + options.interval_s - time.monotonic()))
            after, now_s = _ask(connection), time.monotonic()
            groups = connection.ask("groups")["groups"]
            connection.pop_waiting()  # events are of no interest here
            if after["pid"] != before["pid"] or after["daemon"] != before["daemon"]:
                before, asked_s = after, now_s  # another daemon, whose counters give no rate yet
                continue
            frame = make_frame(before, after, groups, now_s - asked_s)
            show(frame)
            shown += 1
            if shown == options.count:
                return frame
            before, asked_s = after, now_s
