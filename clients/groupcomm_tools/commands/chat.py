"""`groupcomm chat`: talk in groups from a terminal, line by line."""

import argparse
import os
import sys
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from groupcomm.errors import ConfigError, SessionEnded
from groupcomm_tools.chat.commands import COMMANDS, ChatCommands, InputLines
from groupcomm_tools.chat.session import ChatSession, show
from groupcomm_tools.commands.connecting import connect_trio
from groupcomm_tools.commands.options import add_connection_options, add_level_option, level_of
from groupcomm_tools.stopping import run_tasks
from groupcomm_tools.terminal import say, standard_input

EXAMPLE: Final = "groupcomm chat room --user ann"

STDIN: Final = 0

DETAILS: Final = f"""\
A line that begins with / is a command, one that begins with // a message that begins with /.
With --spuser every line is a command, as in spuser, the program that comes with Spread; then s may
name several groups, and the next line is the message.

{COMMANDS}"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = f"{DETAILS}\n\n{parser.epilog}"
    parser.add_argument("group", nargs="?", metavar="GROUP", help="the group to join first")
    parser.add_argument("--spuser", action="store_true", help="every line is a command; no slashes")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each event")
    add_level_option(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Talk until the end of the input; return 1 if a line could not be executed."""
    if options.group is None and not options.spuser:
        raise ConfigError("no group is named: groupcomm chat GROUP, or groupcomm chat --spuser")
    standard_input()
    return 0 if run_tasks(_run, options) else 1


async def _run(options: argparse.Namespace) -> bool:
    good = False
    shown = partial(show, as_json=options.json)
    async with connect_trio(options) as connection:
        session = ChatSession(connection, level=level_of(options), show=shown)
        prompt = _prompt if os.isatty(STDIN) else _nobody_to_ask
        lines = InputLines(STDIN)
        commands = ChatCommands(session, lines, spuser=options.spuser, say=say, prompt=prompt)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_listen, session, nursery.cancel_scope)
            with suppress(SessionEnded):  # `check_open` below raises it
                if options.group is not None:
                    await session.join(options.group)
                good = await commands.execute_all()
                lost = await session.finish()
                if lost:
                    say(f"{lost} UNRELIABLE messages of this chat were lost")
            nursery.cancel_scope.cancel()
        connection.protocol.check_open()
    return good


async def _listen(session: ChatSession, whole: trio.CancelScope) -> None:
    with suppress(SessionEnded):
        await session.listen()
    whole.cancel()


def _prompt(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)


def _nobody_to_ask(text: str) -> None:
    """Print nothing: the input is a file or a pipe."""
