"""Options that several commands share."""

import argparse
import importlib.util
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm.host.extras import install_hint
from groupcomm.host.option_types import LEVEL_NAMES, daemon_addresses, existing_file, level_name
from groupcomm.level import ServiceLevel
from groupcomm.names import check_group

_FOR_TLS: Final = {
    "ca": "certificates of the authorities to trust; default: $GROUPCOMM_CA, or the system's",
    "certificate": "certificate of this program; default: $GROUPCOMM_CERTIFICATE",
    "key": "private key of that certificate; default: $GROUPCOMM_KEY",
    "token-file": "file with the token of this program; default: the token in $GROUPCOMM_TOKEN",
}


def add_connection_options(
    parser: argparse.ArgumentParser, where: Sequence[str] = ("--address",)
) -> None:
    """Declare the options that say where to connect, and as which user.

    Args:
        parser: the parser of the command.
        where: the option with the address, and other words for it.
    """
    parser.add_argument(
        *where,
        dest="address",
        type=daemon_addresses,
        metavar="WHERE",
        help="address of the daemon: the path of its socket, HOST:PORT or tls://HOST:PORT;"
        " several, separated by commas, are tried in turn; default: $GROUPCOMM_ADDRESS,"
        " the context in use (groupcomm context), or the daemon of this user",
    )
    for name, what in _FOR_TLS.items():
        parser.add_argument(f"--{name}", type=existing_file, metavar="FILE", help=f"TLS: {what}")
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="DIR",
        help="record all requests and events of the session there, for groupcomm check DIR",
    )
    parser.add_argument("--user", metavar="NAME", help="name of the session; default: a random one")


def add_reconnect_option(parser: argparse.ArgumentParser) -> None:
    """Declare the option of commands that run on to end with their session."""
    parser.add_argument(
        "--no-reconnect",
        action="store_true",
        help="end when the session ends (default: say so, and open another one)",
    )


def add_level_option(parser: argparse.ArgumentParser) -> None:
    """Declare the option for the service level of the messages."""
    parser.add_argument(
        "--level",
        type=level_name,
        choices=LEVEL_NAMES,
        default="agreed",
        help="service level of the messages (agreed)",
    )


def group_names(text: str) -> tuple[str, ...]:
    """Return the names of groups that have commas between them."""
    try:
        return tuple(dict.fromkeys(check_group(name.strip()) for name in text.split(",")))
    except LocalProtocolError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def without_repetitions(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the names of groups that several words have named."""
    return tuple(dict.fromkeys(name for names in groups for name in names))


def level_of(options: argparse.Namespace) -> ServiceLevel:
    """Return the service level that the options name."""
    return ServiceLevel[options.level.upper()]


def need_pyarrow(purpose: str) -> None:
    """Raise ConfigError, which names the extra to install, if pyarrow is missing.

    Args:
        purpose: what pyarrow does for the command, such as "reads logs".
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise ConfigError(f"pyarrow is missing, which {purpose}: {install_hint('log')}")


def changed_options(
    options: argparse.Namespace,
    add_options: Callable[[argparse.ArgumentParser], None],
    allowed: Collection[str],
) -> Iterator[str]:
    """Yield each option, as a user writes it, that differs from its default without permission.

    Args:
        options: the parsed options.
        add_options: declares the options to look at.
        allowed: names of the options that may have any value.
    """
    defaults = argparse.ArgumentParser()
    add_options(defaults)
    for name, default in vars(defaults.parse_args([])).items():
        if name not in allowed and getattr(options, name) != default:
            yield f"--{name.replace('_', '-')}"
