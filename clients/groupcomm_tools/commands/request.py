"""`groupcomm request`: have a server of a group handle a request, and print its reply."""

import argparse
import json
import sys
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.host.option_types import positive
from groupcomm.names import check_group
from groupcomm_client.coordination import calling
from groupcomm_client.coordination.requests import REPLY_S, Replies
from groupcomm_tools.commands.connecting import connect_trio
from groupcomm_tools.commands.options import add_connection_options
from groupcomm_tools.stopping import run_tasks
from groupcomm_tools.terminal import say, standard_input

EXAMPLE: Final = "groupcomm request loud hello"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("group", metavar="GROUP", help="the group of the servers")
    parser.add_argument(
        "text", nargs="?", metavar="TEXT", help="the request; by default standard input"
    )
    parser.add_argument(
        "--all", action="store_true", help="have every server handle it, and print all replies"
    )
    parser.add_argument(
        "--timeout-s",
        type=positive,
        default=REPLY_S,
        metavar="S",
        help=f"longest wait for a reply ({REPLY_S:g})",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the reply; return 1 if there is none, or a server could not handle the request.

    Raises:
        NoReply, CallFailed: there is none; the text says why.
    """
    group = check_group(options.group)
    data = options.text.encode() if options.text is not None else standard_input().buffer.read()
    if options.all:
        return _print_all(options, run_tasks(_call_all, options, group, data))
    reply = run_tasks(_call, options, group, data)
    if options.json:
        print(json.dumps(_as_json(reply), ensure_ascii=False))
    else:
        _write(reply)
    return 0


async def _call(options: argparse.Namespace, group: str, data: bytes) -> bytes:
    async with connect_trio(options) as connection, calling(connection) as caller:
        return await caller.call(group, data, timeout_s=options.timeout_s)


async def _call_all(options: argparse.Namespace, group: str, data: bytes) -> Replies:
    async with connect_trio(options) as connection, calling(connection) as caller:
        return await caller.call_all(group, data, timeout_s=options.timeout_s)


def _print_all(options: argparse.Namespace, replies: Replies) -> int:
    """Print all replies; return 1 if one is missing or failed."""
    missing = [server.name for server in replies.missing]
    if options.json:
        found = {
            "replies": {server.name: _as_json(data) for server, data in replies.data.items()},
            "failed": {server.name: why for server, why in replies.failed.items()},
            "missing": missing,
        }
        print(json.dumps(found, ensure_ascii=False))
    else:
        for server, data in sorted(replies.data.items()):
            print(f"{server.name} {data.decode(errors='backslashreplace').rstrip()}")
        for server, why in sorted(replies.failed.items()):
            say(f"groupcomm: {server.name} could not handle the request: {why}")
        for name in missing:
            say(f"groupcomm: {name} has not replied in {options.timeout_s:g} s")
    return 1 if replies.failed or missing else 0


def _as_json(reply: bytes) -> dict[str, str]:
    try:
        return {"data": reply.decode()}
    except UnicodeDecodeError:
        return {"data_hex": reply.hex()}


def _write(reply: bytes) -> None:
    """Write a reply: as text that a terminal can show, or its bytes if they are no text."""
    try:
        text = reply.decode()
    except UnicodeDecodeError:
        if sys.stdout.isatty():
            raise ConfigError("the reply is no text; --json shows it") from None
        sys.stdout.flush()
        sys.stdout.buffer.write(reply)
        sys.stdout.buffer.flush()
        return
    print(text, end="" if text.endswith("\n") else "\n", flush=True)
