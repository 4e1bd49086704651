"""Commands that ask a daemon one question: `groupcomm status`, `groups` and `members`."""

import argparse
import json
from typing import Any

from groupcomm_tools.commands.connecting import ask_daemon
from groupcomm_tools.commands.options import add_connection_options


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that all queries share."""
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    add_connection_options(parser)


def query(options: argparse.Namespace, question: str) -> dict[str, Any]:
    """Return the daemon's answer; print it if JSON is asked for."""
    answer = ask_daemon(options, question)
    if options.json:
        print(json.dumps(answer, ensure_ascii=False))
    return answer
