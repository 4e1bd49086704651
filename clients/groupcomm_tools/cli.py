"""The `groupcomm` command, with a verb for each task.

Results go to standard output, messages to standard error. docs/commands.md lists the exit
statuses.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from groupcomm.errors import CannotConnect, ConfigError, GroupCommError, LocalProtocolError
from groupcomm.host.line_writer import write_last
from groupcomm.host.os_errors import text_of
from groupcomm.host.parser import Parser, add_version_option, example_text
from groupcomm_client.program import CANNOT_CONNECT, FAILED, STOPPED, USAGE
from groupcomm_log.errors import LogError
from groupcomm_tools.stopping import stopped_by_signals
from groupcomm_tools.terminal import visible_output


class Command(NamedTuple):
    """A verb of `groupcomm`; it is the module of `groupcomm_tools.commands` with its name.

    Attributes:
        what: its purpose.
        fails: the condition for exit status 1.
        connects: whether it needs a daemon, and so can end with status 3.
    """

    what: str
    fails: str
    connects: bool = False


GROUPS: Final = {
    "first steps": {
        "demo": Command(
            "run three daemons, send all levels through them, kill one, and check the order",
            "the programs saw different orders, or the demo was not over in time",
        ),
        "story": Command(
            "watch five simulated daemons agree on one order although datagrams are lost",
            "they did not agree",
        ),
    },
    "daemons and their secrets": {
        "daemon": Command(
            "run a daemon; without a configuration, alone on this host",
            "it cannot serve; with 3 it has left, but not in order in time",
        ),
        "daemons": Command(
            "list the daemons of a cluster; add, remove, move and replace daemons while it works",
            "the daemon refuses, or the change does not count in time",
            connects=True,
        ),
        "links": Command(
            "list the links between the sites of a cluster; set and remove links while it works",
            "the daemon refuses, or the change does not count in time",
            connects=True,
        ),
        "drain": Command(
            "have the programs of a daemon move to others, and then stop it",
            "programs were left when the time was up, or the daemon refuses",
            connects=True,
        ),
        "keygen": Command(
            "make a key file for a cluster, readable by its owner only", "it cannot be written"
        ),
        "keys": Command(
            "change the secrets of a cluster while it works",
            "the daemon refuses, or a file cannot be written",
            connects=True,
        ),
        "identity": Command(
            "make the identity of a daemon, and list the identities of all daemons",
            "a file cannot be written",
        ),
        "certs": Command(
            "make an authority, and certificates for daemons and programs; revoke them",
            "a file cannot be written",
        ),
        "tokens": Command(
            "make, list and revoke the tokens with which programs authenticate over TLS",
            "a file cannot be written",
        ),
        "spread": Command(
            "make a configuration from that of Spread's daemons", "it cannot be written"
        ),
    },
    "messages": {
        "pub": Command(
            "send a text, or each line of a file or of standard input, to a group",
            "the daemon refuses a message, or the session ended",
            connects=True,
        ),
        "sub": Command(
            "join groups and print the messages that are delivered, also those of the past",
            "the session ended, and no other may follow, or no archive answers",
            connects=True,
        ),
        "request": Command(
            "have a server of a group handle a request, and print its reply",
            "no reply came in time, or a server could not handle the request",
            connects=True,
        ),
        "serve": Command(
            "handle the requests to a group with a command, such as a script",
            "the session ended",
            connects=True,
        ),
        "work": Command(
            "do the jobs that are sent to a group with a command; workers share them",
            "the session ended, or the workers have other rules",
            connects=True,
        ),
        "chat": Command(
            "talk in a group: send lines, show messages, joins and leaves",
            "a line could not be executed, or the session ended",
            connects=True,
        ),
        "web": Command(
            "let browsers join groups, by WebSockets",
            "it cannot listen there",
        ),
        "watch": Command(
            "print views of daemons and of groups, as they are installed",
            "the session ended, and no other may follow",
            connects=True,
        ),
    },
    "state and health": {
        "context": Command(
            "name the clusters to connect to, and choose among them", "the file cannot be written"
        ),
        "status": Command(
            "show a daemon's view, ring, sessions and counters",
            "the daemon is between two views",
            connects=True,
        ),
        "groups": Command(
            "list the groups, with the number of their members", "the session ended", connects=True
        ),
        "members": Command(
            "list the members of a group, in the order in which they joined",
            "the group has no member",
            connects=True,
        ),
        "top": Command(
            "show view, daemons, groups, rates and slow programs continuously",
            "the session ended, and no other may follow",
            connects=True,
        ),
        "doctor": Command(
            "check configuration, key, network, clock, daemon and other daemons",
            "there is a problem",
        ),
        "latency": Command(
            "send messages to oneself, and measure their delay at a level",
            "a message has not come back",
            connects=True,
        ),
        "bench": Command(
            "measure message rates, delays, and processor time",
            "a message was lost, duplicated, out of order or changed",
            connects=True,
        ),
    },
    "recording": {
        "record": Command(
            "join groups and record their messages and views, in a log of Parquet files",
            "the log cannot be written, or the session ended",
            connects=True,
        ),
        "log": Command(
            "print, check and compare the logs of groupcomm record",
            "the log is damaged, or the two differ",
        ),
        "history": Command(
            "serve the history of groups to subscribers, from any place on",
            "the store cannot be written or is damaged, no archive answers, archives differ"
            " (`status`), or the session ended",
            connects=True,
        ),
        "replay": Command(
            "send recorded messages again, in their order",
            "the log is damaged, or the session ended",
            connects=True,
        ),
        "spark": Command(
            "process logs with Spark: verify them, report on them, watch them",
            "a promise is broken, or a log cannot be read",
        ),
    },
    "simulation and analysis": {
        "simulate": Command(
            "run clusters in virtual time and check their traces, or plan the links of sites",
            "a property does not hold, or the plan does not work",
        ),
        "check": Command(
            "check whether every property holds in recorded traces",
            "a property does not hold, or a trace cannot be read",
        ),
        "view": Command(
            "draw a recorded trace as a page: messages, their times, and reasons for delays",
            "the trace cannot be read",
        ),
        "compare": Command(
            "run ordering algorithms on the same load, and compare cost and orders",
            "an algorithm breaks an order that it claims",
        ),
        "relay": Command(
            "relay the datagrams between daemons of this host, with loss, delay and partitions",
            "it cannot relay",
        ),
    },
}
"""The verbs by purpose, in the order of the help."""

COMMANDS: Final = {name: each for group in GROUPS.values() for name, each in group.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; return the exit status."""
    with visible_output():
        return _main(sys.argv[1:] if arguments is None else arguments)


def _main(words: Sequence[str]) -> int:
    named = [word for word in words if word in COMMANDS]
    try:
        options = make_parser(named[:1]).parse_args(words)
    except SystemExit as end:  # after help, or wrong usage
        return int(end.code or 0)
    with stopped_by_signals() as stop:
        try:
            status = _run_to_end(options)
        except KeyboardInterrupt:
            write_last("stopped")
            status = STOPPED
        return stop.status if status == STOPPED else status


def _run_to_end(options: argparse.Namespace) -> int:
    """Run the verb; return the exit status, also for its errors."""
    try:
        return _run(options)
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
        if isinstance(error, MemoryError) or str(error) == "can't start new thread":
            what = OUT_OF_MEMORY
        return _fail(options, GroupCommError(what), FAILED)


def _run(options: argparse.Namespace) -> int:
    """Run the verb; raise the error of a group that holds only one."""
    if "token_file" in vars(options):  # it connects
        from groupcomm_tools.contexts import apply_context  # noqa: PLC0415 - few verbs need it

        apply_context(options)
    try:
        return int(options.run(options))
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is not None:  # others came of the end
            raise KeyboardInterrupt from None
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if error is group:
            raise
        raise error from None


OUT_OF_MEMORY: Final = (
    "out of memory: the command ends; allow it more memory (ulimit -v, the memory of its"
    " container), or threads (ulimit -u, TasksMax)"
)


class TopParser(Parser):
    """The parser of all verbs, whose help lists them by purpose.

    Attributes:
        commands: the parsers of the verbs.
    """

    commands: Any

    def format_help(self) -> str:
        """Return the help."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, [], [])
        formatter.add_text(self.description)
        lines = {line.dest: line for line in self.commands._get_subactions()}
        for title, group in GROUPS.items():
            formatter.start_section(title)
            formatter.add_arguments(lines[name] for name in group)
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments(self._get_optional_actions())
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def make_parser(described: Collection[str] = COMMANDS) -> TopParser:
    """Return the parser of the command line.

    Args:
        described: names of the verbs whose options it knows. It imports their modules; for the
            others it knows only the line of the help.
    """
    parser = TopParser(
        prog="groupcomm",
        usage="groupcomm COMMAND ...",
        description="Group communication with selectable service levels.",
        epilog="groupcomm COMMAND --help describes a command.\n\nexample:\n  groupcomm demo",
    )
    add_version_option(parser)
    parser.add_argument("--debug", action="store_true", help="show where an error arose")
    parser.commands = parser.add_subparsers(
        metavar="COMMAND", required=True, prog="groupcomm", parser_class=Parser
    )
    for name, told in COMMANDS.items():
        command = parser.commands.add_parser(name, help=told.what, description=told.what)
        if name in described:
            module = importlib.import_module(f"groupcomm_tools.commands.{name}")
            command.epilog = f"{exit_statuses(told)}\n\n{example_text(module.EXAMPLE)}"
            command.add_argument(
                "--debug",
                action="store_true",
                default=argparse.SUPPRESS,
                help="show where an error arose",
            )
            command.set_defaults(run=module.run)
            module.add_options(command)
    return parser


def exit_statuses(told: Command) -> str:
    """Return the meanings of the exit statuses of a command, as a sentence of its help."""
    text = f"exit status: 0 done; 1 {told.fails}; 2 wrong usage"
    return f"{text}; 3 cannot connect" if told.connects else text


def _fail(options: argparse.Namespace, error: Exception, status: int) -> int:
    if options.debug:
        raise error
    write_last(f"groupcomm: {text_of(error) if isinstance(error, OSError) else error}")
    return status


if __name__ == "__main__":
    sys.exit(main())
