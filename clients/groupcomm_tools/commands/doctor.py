"""`groupcomm doctor`: find the faults of a daemon and its host, and their remedies."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from groupcomm.host.acting import as_owner_of
from groupcomm.host.option_types import daemon_address, existing_file
from groupcomm_client.targets import default_address
from groupcomm_tools.doctor import daemon_checks, host_checks
from groupcomm_tools.doctor.findings import print_findings
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.files.service_file import service_file
from groupcommd.operators import assessment
from groupcommd.operators.findings import Finding, skipped

EXAMPLE: Final = "groupcomm doctor --config plant.toml --name press"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--config", type=existing_file, metavar="FILE", help="configuration of the daemon"
    )
    parser.add_argument("--name", help="name of the daemon in the configuration")
    parser.add_argument(
        "--address",
        type=daemon_address,
        metavar="WHERE",
        help="address of the daemon, if it is not that of the configuration",
    )
    parser.add_argument(
        "--other",
        type=daemon_address,
        action="append",
        default=[],
        metavar="WHERE",
        help="another daemon of the cluster, to compare its configuration; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="one line of JSON")


def run(options: argparse.Namespace) -> int:
    """Run the checks; return 1 if there is a problem."""
    with as_owner_of(service_file(options.config)):
        findings = examine(options.config, options.name, options.address, options.other)
        return print_findings(findings, as_json=options.json)


def examine(
    path: Path | None, name: str | None, address: str | None, others: list[str]
) -> Iterator[Finding]:
    """Yield the findings of all checks that apply, as they are made.

    Args:
        path: the path of the configuration; None for the daemon that programs of this user find.
        name: the name of the daemon; None to take it from the file.
        address: the address of the daemon; None to take it from the file.
        others: the addresses of other daemons.
    """
    yield host_checks.check_user(path)
    found, config = host_checks.check_configuration(path, name)
    yield found
    yield host_checks.check_buffers()
    yield host_checks.check_clock()
    if config is None and address is None and path is not None:
        return  # the address of the daemon is unknown, too
    if config is None or path is None:  # any daemon may answer, whatever its configuration
        running, answers = daemon_checks.check_running(address or default_address(), name, path)
    else:
        running, answers = daemon_checks.check_running(
            address or str(config.unix.absolute()), config.name, path
        )
    if config is not None and (path is not None or answers is None):
        yield host_checks.check_key(config)
        yield from host_checks.check_certificates(config)
        yield from host_checks.check_files(config)
        yield from host_checks.check_folders(config)
        listens = answers.later["listens"] if answers is not None else None
        yield host_checks.check_address(
            config, listens, busy=daemon_checks.refuses_us(running.text)
        )
    yield running
    if answers is None:
        yield skipped("the rest", f"{daemon_checks.NEED_A_DAEMON} need an answer of the daemon")
        return
    yield from _examine_daemon(answers, config if path is not None else None)
    yield from daemon_checks.check_others(answers, others)


def _examine_daemon(
    answers: assessment.DaemonAnswers, config: DaemonConfig | None
) -> Iterator[Finding]:
    yield from assessment.assess(answers)
    if config is not None:
        yield daemon_checks.check_same(config, answers)
