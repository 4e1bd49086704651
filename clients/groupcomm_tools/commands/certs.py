"""`groupcomm certs`: make a certificate authority and certificates, for a first try with TLS."""

import argparse
import sys
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm_tools.certificates import issue, make_authority, revoke_issued, revoke_others
from groupcommd.revocation_file import SERIAL

EXAMPLE: Final = "groupcomm certs init pki; groupcomm certs issue pki press --host 10.0.0.1"

DAYS: Final = 365.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("what", choices=("init", "issue", "revoke"), metavar="init|issue|revoke")
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="folder of all files of the authority"
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="name of the daemon or program")
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="HOST",
        help="name or address at which programs connect to a daemon; may be repeated; without it"
        " the certificate is for a program",
    )
    parser.add_argument(
        "--days", type=float, default=DAYS, metavar="N", help="validity in days (365)"
    )
    parser.add_argument(
        "--serial", metavar="HEX", help="revoke: serial number of a certificate that is not in DIR"
    )
    parser.add_argument(
        "--principal",
        metavar="TEXT",
        help="revoke: all certificates of this principal, also later ones",
    )


def run(options: argparse.Namespace) -> int:
    """Make the files, and print what they are for; return 0."""
    if not 0 < options.days <= 36_500:
        raise ConfigError(f"certs: --days is {options.days:g}; it must be above 0, at most 36500")
    if options.what == "revoke":
        told = _revoke(options)
    elif (options.name is None) != (options.what == "init"):
        raise ConfigError("certs: give DIR to init, DIR and NAME to issue")
    elif options.what == "init":
        told = _init(options)
    else:
        told = _issue(options)
    print(told, file=sys.stderr)
    return 0


def _init(options: argparse.Namespace) -> str:
    certificate, key = make_authority(options.folder, options.days)
    return (
        f"wrote {certificate}: give it to daemons as clients.tls.ca, to programs as ca\n"
        f"wrote {key}: its holder can issue certificates: keep it away from the daemons' hosts"
    )


def _issue(options: argparse.Namespace) -> str:
    certificate, key = issue(options.folder, options.name, options.host, options.days)
    whose = "for a daemon's clients.tls"
    if not options.host:
        whose = f"for a program, which daemons know as cert:{options.name}"
    return f"wrote {certificate} and {key}, {whose}"


def _revoke(options: argparse.Namespace) -> str:
    given = [each for each in (options.name, options.serial, options.principal) if each is not None]
    if len(given) != 1:
        raise ConfigError("certs: give DIR and one of NAME, --serial, --principal to revoke")
    if options.name is not None:
        path, serial = revoke_issued(options.folder, options.name)
        what = f"the certificate of {options.name}, serial {serial:x}"
    elif options.serial is not None:
        path = revoke_others(options.folder, serials=[_number(options.serial)])
        what = f"the certificate with the serial {options.serial}"
    else:
        path = revoke_others(options.folder, principals=[options.principal])
        what = f"all certificates of {options.principal}"
    return (
        f"revoked {what}: copy {path} to the daemons' hosts, where clients.tls.revoked names it,"
        " and send each daemon SIGHUP"
    )


def _number(text: str) -> int:
    digits = text.replace(":", "")  # as openssl prints it
    if not SERIAL.fullmatch(digits):
        raise ConfigError(f"certs: --serial is {text!r}; it must be hexadecimal digits")
    return int(digits, 16)
