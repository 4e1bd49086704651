"""`groupcomm certs`: a certificate authority and certificates, for a first try with TLS."""

import argparse
import sys
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm_client.certificates import issue, make_authority

NAME: Final = "certs"
HELP: Final = "make a certificate authority, and certificates for daemons and programs"
EXAMPLE: Final = "groupcomm certs init pki; groupcomm certs issue pki press --host 10.0.0.1"

DAYS: Final = 365.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("what", choices=("init", "issue"), metavar="init|issue")
    parser.add_argument("folder", type=Path, metavar="DIR", help="of all files of the authority")
    parser.add_argument("name", nargs="?", metavar="NAME", help="whom to issue a certificate for")
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="HOST",
        help="of a daemon: a name or address by which programs connect to it; several are fine;"
        " without it is a program's",
    )
    parser.add_argument("--days", type=float, default=DAYS, metavar="N", help="valid so long (365)")


def run(options: argparse.Namespace) -> int:
    """Make the files, and say what they are for."""
    if (options.name is None) != (options.what == "init"):
        raise ConfigError("certs: give DIR to init, DIR and NAME to issue")
    if not 0 < options.days <= 36_500:
        raise ConfigError(f"certs: --days is {options.days:g}; it must be above 0, at most 36500")
    if options.what == "init":
        certificate, key = make_authority(options.folder, options.days)
        print(
            f"wrote {certificate}: give it to daemons as clients.tls.ca, to programs as ca\n"
            f"wrote {key}: whoever has it can issue certificates: keep it off the daemons' hosts",
            file=sys.stderr,
        )
    else:
        certificate, key = issue(options.folder, options.name, options.host, options.days)
        whose = "for a daemon's clients.tls"
        if not options.host:
            whose = f"for a program, that daemons know as cert:{options.name} then"
        print(f"wrote {certificate} and {key}, {whose}", file=sys.stderr)
    return 0
