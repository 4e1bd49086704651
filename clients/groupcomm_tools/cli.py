"""The `groupcomm` command: one verb for each thing to do.

Exit status: 0 done, 1 failed, 2 wrong usage, 3 cannot connect, 130 stopped by ^C. Results go to
standard output, messages to standard error.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from groupcomm.errors import CannotConnect, ConfigError, GroupCommError, LocalProtocolError
from groupcomm_log.errors import LogError
from groupcomm_tools.terminal import visible_output

FAILED, USAGE, CANNOT_CONNECT, STOPPED = 1, 2, 3, 130

VERBS: Final = (
    *("demo", "daemon", "keygen", "keys", "identity", "certs", "tokens"),
    *("pub", "sub", "chat", "watch", "status", "groups", "members", "latency"),
    *("top", "bench", "doctor", "record", "log", "replay", "spark", "relay"),
    *("story", "simulate", "check", "view", "compare"),
)
"""Each is a module of `groupcomm_tools.commands`, in the order of the help."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    with visible_output():
        return _main(sys.argv[1:] if arguments is None else arguments)


def _main(words: Sequence[str]) -> int:
    options = make_parser(verbs_for(words)).parse_args(words)
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
        # Who reads our output has enough of it; writing the rest at exit must not complain.
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
    """Run the verb; of errors from several tasks the only one is raised."""
    try:
        return int(options.run(options))
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if error is group:
            raise
        raise error from None


def verbs_for(words: Sequence[str]) -> Sequence[str]:
    """Return the verb that a command line begins with, else all.

    A command that imports what all the others need would take three times as long to start.
    """
    return words[:1] if words and words[0] in VERBS else VERBS


def make_parser(names: Iterable[str] = VERBS) -> argparse.ArgumentParser:
    """Return the parser of these verbs with their options."""
    parser = argparse.ArgumentParser(
        prog="groupcomm",
        description="Group communication with selectable service levels.",
        epilog="example: groupcomm simulate --seeds 1:20",
    )
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in names:
        command = importlib.import_module(f"groupcomm_tools.commands.{name}")
        verb = verbs.add_parser(
            command.NAME,
            help=command.HELP,
            description=command.HELP,
            epilog=f"example: {command.EXAMPLE}",
        )
        verb.add_argument("--debug", action="store_true", help="show where an error came from")
        verb.set_defaults(run=command.run)
        command.add_options(verb)
    return parser


def _fail(options: argparse.Namespace, error: Exception, status: int) -> int:
    if options.debug:
        raise error
    print(f"groupcomm: {error}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
