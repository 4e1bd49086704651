"""`groupcomm certs`: make a certificate authority and certificates, for a first try with TLS."""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import attrs

from groupcomm.errors import ConfigError
from groupcomm.host.option_types import positive
from groupcomm_tools.certificates import (
    issue,
    list_issued,
    make_authority,
    renew,
    revoke_issued,
    revoke_others,
)
from groupcomm_tools.commands.subcommands import (
    JSON,
    Declare,
    Subcommand,
    add_subcommands,
    argument,
    run,
)
from groupcomm_tools.terminal import say
from groupcommd.programs.revocation_file import SERIAL

__all__ = ["EXAMPLE", "add_options", "run"]

EXAMPLE: Final = """\
groupcomm certs init pki
groupcomm certs issue pki press --host 10.0.0.1"""

DAYS: Final = 365.0
MAX_DAYS: Final = 36_500
SOON_DAYS: Final = 14
"""The list points at certificates that end within this time, as the doctor and the alerts do."""


def _days(text: str) -> float:
    days = positive(text)
    if days > MAX_DAYS:
        raise argparse.ArgumentTypeError(f"it is {text}, and must be at most {MAX_DAYS}")
    return days


FOLDER: Final = argument(
    "folder", type=Path, metavar="DIR", help="folder of all files of the authority"
)
VALIDITY: Final = argument(
    "--days", type=_days, default=DAYS, metavar="N", help="validity in days (365)"
)
HOST: Final = argument(
    "--host",
    action="append",
    default=[],
    metavar="HOST",
    help="name or address at which programs connect to a daemon; may be repeated; without it the"
    " certificate is for a program",
)
SERIAL_OPTION: Final = argument(
    "--serial", metavar="HEX", help="serial number of a certificate that is not in DIR"
)
PRINCIPAL: Final = argument(
    "--principal", metavar="TEXT", help="all certificates of this principal, also later ones"
)


def _name(what: str, **settings: str) -> Declare:
    return argument("name", metavar="NAME", help=f"name of {what}", **settings)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    there = "a certificate that is in DIR"
    add_subcommands(
        parser,
        Subcommand("init", _init, "make an authority", "pki", FOLDER, VALIDITY),
        Subcommand(
            "issue",
            _issue,
            "make a key and its certificate, for a daemon with --host, otherwise for a program",
            "pki press --host 10.0.0.1",
            *(FOLDER, VALIDITY, _name("the daemon or program"), HOST),
        ),
        Subcommand("list", _list, "list certificates, and when they end", "pki", FOLDER, JSON),
        Subcommand(
            "renew",
            _renew,
            "make another key and certificate for the same daemon or program",
            "pki press",
            *(FOLDER, VALIDITY, _name(there)),
        ),
        Subcommand(
            "revoke",
            _revoke,
            "revoke a certificate",
            "pki ann",
            *(FOLDER, _name(there, nargs="?"), SERIAL_OPTION, PRINCIPAL),
        ),
    )


def _init(options: argparse.Namespace) -> int:
    certificate, key = make_authority(options.folder, options.days)
    say(f"wrote {certificate}: give it to daemons as clients.tls.ca, to programs as ca")
    say(f"wrote {key}: its holder can issue certificates: keep it away from the daemons' hosts")
    return 0


def _issue(options: argparse.Namespace) -> int:
    certificate, key = issue(options.folder, options.name, options.host, options.days)
    whose = "for a daemon's clients.tls"
    if not options.host:
        whose = f"for a program, which daemons know as cert:{options.name}"
    say(f"wrote {certificate} and {key}, {whose}")
    return 0


def _list(options: argparse.Namespace) -> int:
    now, listed = datetime.now(UTC), []
    for each in list_issued(options.folder):
        left = (each.end - now).days
        state = "ended" if each.end <= now else f"ends in {left} days"
        if each.is_revoked:
            state = "revoked"
        listed.append({**attrs.asdict(each), "end": each.end.isoformat(), "state": state})
        if not options.json:
            whose = " ".join(each.hosts) or ("authority" if each.name == "ca" else "program")
            soon = "  RENEW" if left < SOON_DAYS and not each.is_revoked else ""
            print(f"{each.name:<24} {each.end:%Y-%m-%d}  {state}{soon}  {whose}")
    if options.json:
        print(json.dumps({"certificates": listed}))
    return 0


def _renew(options: argparse.Namespace) -> int:
    certificate, key = renew(options.folder, options.name, options.days)
    say(
        f"wrote {certificate} and {key}: put both in the place of the old ones, and send the daemon"
        " SIGHUP; the old certificate stays valid until it ends or is revoked by its serial"
    )
    return 0


def _revoke(options: argparse.Namespace) -> int:
    given = [each for each in (options.name, options.serial, options.principal) if each is not None]
    if len(given) != 1:
        raise ConfigError("certs revoke: give DIR and one of NAME, --serial and --principal")
    if options.name is not None:
        path, serial = revoke_issued(options.folder, options.name)
        what = f"the certificate of {options.name}, serial {serial:x}"
    elif options.serial is not None:
        path = revoke_others(options.folder, serials=[_number(options.serial)])
        what = f"the certificate with the serial {options.serial}"
    else:
        path = revoke_others(options.folder, principals=[options.principal])
        what = f"all certificates of {options.principal}"
    say(
        f"revoked {what}: copy {path} to the daemons' hosts, where clients.tls.revoked names it,"
        " and send each daemon SIGHUP"
    )
    return 0


def _number(text: str) -> int:
    digits = text.replace(":", "")  # the form that openssl prints
    if not SERIAL.fullmatch(digits):
        raise ConfigError(f"certs: --serial is {text!r}; it must be hexadecimal digits")
    return int(digits, 16)
