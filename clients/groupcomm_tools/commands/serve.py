"""`groupcomm serve`: handle the requests to a group with a command, such as a script."""

import argparse
from typing import Final

import trio

from groupcomm.host.option_types import one_or_more, positive
from groupcomm_client.coordination import Request, serve
from groupcomm_tools.commands.children import (
    CannotStart,
    CommandFailed,
    CommandProgram,
    execute,
)
from groupcomm_tools.commands.connecting import connect_trio
from groupcomm_tools.commands.options import add_connection_options

EXAMPLE: Final = "groupcomm serve loud -- tr a-z A-Z"

COMMAND_S: Final = 60.0
LAST_REPLY_S: Final = 0.1
"""The time that the last reply has to reach the daemon."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("group", metavar="GROUP", help="the group of the servers, to be joined")
    parser.add_argument(
        "command",
        nargs="+",
        metavar="WORD",
        help="a command and its words, behind --: it has a request as its standard input, and its"
        " standard output is the reply; GROUPCOMM_CALLER names the caller",
    )
    parser.add_argument("--count", type=one_or_more, metavar="N", help="end after N requests")
    parser.add_argument(
        "--command-s",
        type=positive,
        default=COMMAND_S,
        metavar="S",
        help=f"longest time of a command, which is killed then ({COMMAND_S:g})",
    )
    parser.add_argument("--duration-s", type=positive, metavar="S", help="end after S seconds")
    parser.add_argument(
        "--json", action="store_true", help="print one line of JSON for each request"
    )
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Serve until the count or the duration is reached, or until ^C or SIGTERM; return 0.

    Raises:
        CannotStart: the command cannot be started any more; other servers get the requests.
    """
    Server(options).play()
    return 0


class Server(CommandProgram):
    """A server that handles requests with a command."""

    async def run(self) -> None:
        """Serve until it is enough."""
        async with connect_trio(self._options) as connection, trio.open_nursery() as nursery:
            nursery.start_soon(serve, connection, self._group, self._handle)
            await self.until_enough(f"serving {self._group} as {connection.name}")
            await trio.sleep(LAST_REPLY_S)
            nursery.cancel_scope.cancel()

    async def _handle(self, request: Request) -> bytes:
        """Return the output of the command for a request."""
        try:
            return await self._execute(request)
        except CannotStart as error:
            self.give_up(error)
            await trio.sleep_forever()  # without a reply, so the next server handles it
            raise
        except CommandFailed as error:
            self.reports.say(f"a request of {request.caller.name} has failed here: {error}")
            raise
        finally:
            self.count_one()

    async def _execute(self, request: Request) -> bytes:
        with trio.move_on_after(self._options.command_s):
            about = {"GROUPCOMM_CALLER": request.caller.name}
            done = await execute(self._command, request.data, about, keep_output=True)
            self._tell(request, done.status)
            done.check()
            return done.output
        self._tell(request, None)
        raise CommandFailed(f"the command has not ended in {self._options.command_s:g} s")

    def _tell(self, request: Request, status: int | None) -> None:
        """Print that a request was handled; `status` is None for a command that was killed."""
        if self._options.json:
            found = {"caller": request.caller.name, "bytes": len(request.data), "status": status}
            self.reports.print_json(found)
