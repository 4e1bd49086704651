"""`groupcomm status`, `groups` and `members`: what a daemon tells about itself."""

import argparse
import json
from typing import Any

import trio

from groupcomm_tools.commands.shared import add_connection_options, connect_as_told


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that all three have."""
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    add_connection_options(parser)


def ask(options: argparse.Namespace, question: str) -> dict[str, Any]:
    """Ask one question; print the answer if JSON was asked for."""
    found = trio.run(_ask, options, question)
    if options.json:
        print(json.dumps(found, ensure_ascii=False))
    return found


async def _ask(options: argparse.Namespace, question: str) -> dict[str, Any]:
    async with connect_as_told(options) as connection:
        return await connection.ask(question)
