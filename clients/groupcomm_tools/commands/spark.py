"""`groupcomm spark`: process logs on Spark."""

import argparse
from typing import Final

from groupcomm.errors import GroupCommError
from groupcomm.host.parser import example_text
from groupcomm_log.errors import LogError
from groupcomm_spark.commands import channel, doctor, report, telemetry, verify
from groupcomm_spark.errors import plain
from groupcomm_spark.session import need_spark

EXAMPLE: Final = "groupcomm spark doctor"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    statuses = (parser.epilog or "").partition("\n\n")[0]
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (doctor, verify, report, channel, telemetry):
        verb = commands.add_parser(
            command.NAME,
            help=command.HELP,
            description=command.HELP,
            epilog=f"{statuses}\n\n{example_text(command.EXAMPLE)}",
        )
        verb.set_defaults(run_spark=command.run, name=command.NAME)
        command.add_options(verb)


def run(options: argparse.Namespace) -> int:
    """Run the subcommand; return its exit status."""
    if options.name != doctor.NAME:  # doctor itself reports what is missing
        need_spark()
    try:
        return int(options.run_spark(options))
    except (GroupCommError, LogError, OSError):
        raise
    except Exception as error:  # Spark surrounds a sentence with forty lines of Java
        if options.debug:
            raise
        raise GroupCommError(f"{plain(error)} (--debug shows all of it)") from None
