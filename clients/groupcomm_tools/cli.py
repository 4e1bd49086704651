"""The `groupcomm` command, with a subcommand for each task.

Exit status: 0 done, 1 failed, 2 wrong usage, 3 cannot connect, 130 stopped by ^C. Results go to
standard output, messages to standard error.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Collection, Sequence
from typing import Final

from groupcomm.errors import CannotConnect, ConfigError, GroupCommError, LocalProtocolError
from groupcomm_log.errors import LogError
from groupcomm_tools.terminal import visible_output

FAILED, USAGE, CANNOT_CONNECT, STOPPED = 1, 2, 3, 130

COMMANDS: Final = {
    "demo": "run three daemons, send all levels through them, kill one, and check the order",
    "daemon": "run a daemon; without a configuration, alone on this host",
    "keygen": "make a key file for a cluster, readable by its owner only",
    "keys": "change the secrets of a cluster while it works",
    "identity": "make the identity of a daemon, and list the identities of all daemons",
    "certs": "make a certificate authority, and certificates for daemons and programs; revoke them",
    "tokens": "make, list and revoke the tokens with which programs authenticate over TLS",
    "spread": "make a configuration from that of Spread's daemons",
    "pub": "send each line of a file or of standard input to a group",
    "sub": "join groups and print the messages that are delivered",
    "chat": "talk in a group: send lines, show messages, joins and leaves",
    "watch": "print views of daemons and of groups, as they are installed",
    "status": "show a daemon's view, ring, sessions and counters",
    "groups": "list the groups, with the number of their members",
    "members": "list the members of a group, in the order in which they joined",
    "latency": "send messages to oneself, and measure how long they take at a level",
    "top": "show view, daemons, groups, rates and slow programs continuously",
    "bench": "measure message rates, delays, and processor time",
    "doctor": "check configuration, key, network, clock, daemon and other daemons",
    "record": "join groups and record what is delivered, in a log of Parquet files",
    "log": "print, check and compare the logs of groupcomm record",
    "replay": "send recorded messages again, in their order",
    "spark": "process logs with Spark: verify them, report on them, watch them",
    "relay": "relay the datagrams between daemons of this host, with loss, delay and partitions",
    "story": "watch five simulated daemons agree on one order although datagrams are lost",
    "simulate": "run clusters in virtual time and check what happened, or plan the links of sites",
    "check": "check whether every property holds in recorded traces",
    "view": "draw a recorded trace as a page: what was sent when, and what it waited for",
    "compare": "run ordering algorithms on the same load, and compare cost and orders",
}
"""What each command does, in the order of the help.

Each command is a module of `groupcomm_tools.commands`, which is imported only when it is run.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; return the exit status."""
    with visible_output():
        return _main(sys.argv[1:] if arguments is None else arguments)


def _main(words: Sequence[str]) -> int:
    named = [word for word in words if word in COMMANDS]
    options = make_parser(named[:1]).parse_args(words)
    try:
        return _run(options)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return STOPPED
    except (ConfigError, LocalProtocolError) as error:
        return _fail(options, error, USAGE)
    except CannotConnect as error:
        return _fail(options, error, CANNOT_CONNECT)
    except BrokenPipeError:
        # The reader of our output has ended; flushing the rest at exit must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (GroupCommError, LogError, OSError) as error:
        return _fail(options, error, FAILED)
    except Exception as error:
        if options.debug:
            raise
        what = f"internal error: {type(error).__name__}: {error}; --debug shows where"
        return _fail(options, GroupCommError(what), FAILED)


def _run(options: argparse.Namespace) -> int:
    """Run the subcommand; raise the error of a group that holds only one."""
    try:
        return int(options.run(options))
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if error is group:
            raise
        raise error from None


def make_parser(described: Collection[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of the command line.

    Args:
        described: names of the commands whose options it knows. It imports their modules; for the
            others it knows only the line of the help.
    """
    parser = argparse.ArgumentParser(
        prog="groupcomm",
        description="Group communication with selectable service levels.",
        epilog="example: groupcomm simulate --seeds 1:20",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, what in COMMANDS.items():
        command = commands.add_parser(name, help=what, description=what)
        if name in described:
            module = importlib.import_module(f"groupcomm_tools.commands.{name}")
            command.epilog = f"example: {module.EXAMPLE}"
            command.add_argument("--debug", action="store_true", help="show where an error arose")
            command.set_defaults(run=module.run)
            module.add_options(command)
    return parser


def _fail(options: argparse.Namespace, error: Exception, status: int) -> int:
    if options.debug:
        raise error
    print(f"groupcomm: {error}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
