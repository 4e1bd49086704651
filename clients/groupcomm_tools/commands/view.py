"""`groupcomm view`: draw a recorded trace as a space-time diagram, in a page for a browser."""

import argparse
import json
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.host.option_types import existing_path
from groupcomm_tools.traces.files import trace_events
from groupcomm_tools.view.build import make_diagram
from groupcomm_tools.view.figure import figure_of
from groupcomm_tools.view.page import make_page

EXAMPLE: Final = "groupcomm view trace.jsonl -o trace.html"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "trace",
        type=existing_path,
        metavar="TRACE",
        help="JSON lines, as simulate writes them; or a folder of traces that daemons and programs"
        " of one host have written",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the page (default: the trace's name with .html, in this folder); or, if it ends in"
        " .svg, a figure of a short trace that does not move",
    )
    add = parser.add_argument
    add("--logical", action="store_true", help="draw a figure along Lamport's clocks")
    add("--ticks", action="store_true", help="draw a figure with lines between equal clocks")
    parser.add_argument("--json", action="store_true", help="print the results in JSON")


def run(options: argparse.Namespace) -> int:
    """Write the page; return 0, also if properties do not hold: `groupcomm check` verifies them."""
    trace: Path = options.trace
    output: Path = options.output or Path(f"{trace.absolute().stem}.html")
    if output.suffix not in {".html", ".htm", ".svg"}:
        raise ConfigError(
            f"-o {output}: name a file that ends in .html for a page, or in .svg for a figure"
        )
    is_figure = output.suffix == ".svg"
    if (options.logical or options.ticks) and not is_figure:
        raise ConfigError("--logical and --ticks are for figures (-o FILE.svg); a page has both")
    diagram = make_diagram(trace.name, trace_events(trace))
    name = trace.absolute().name
    if is_figure:
        text = figure_of(diagram, title=name, logical=options.logical, ticks=options.ticks)
    else:
        text = make_page(name, diagram)
    page = text.encode()
    output.write_bytes(page)
    figures = {
        "page": str(output),
        "bytes": len(page),
        "messages": len(diagram.messages),
        "deliveries": sum(each.delivered is not None for each in diagram.arrivals),
        "lines": len(diagram.lines),
        "violations": sum(found.claimed for found in diagram.violations),
        "orders_not_kept": sorted({v.name for v in diagram.violations if not v.claimed}),
    }
    if options.json:
        print(json.dumps(figures))
    else:
        print(
            f"{output}: {figures['messages']} messages on {figures['lines']} lines,"
            f" {figures['violations']} violations; open it in a browser"
        )
    return 0
