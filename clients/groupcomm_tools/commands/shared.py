"""What the commands that connect to a daemon have in common."""

import argparse
import importlib.util
import json
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

from groupcomm.clocks.stamp import Position
from groupcomm.errors import ConfigError
from groupcomm.events import DaemonView, GroupView, Message, Refused, Transition, Undeliverable
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.visible import visible
from groupcomm_client.connecting import connect
from groupcomm_client.connection import Connection
from groupcomm_client.conversation import Received
from groupcomm_client.end_to_end import KeyChanged, Unreadable, Untrusted
from groupcomm_client.filters.roles import Unfiltered

_FOR_TLS: Final = {
    "ca": "whom to trust; else $GROUPCOMM_CA, else whom the system trusts",
    "certificate": "this program's; else $GROUPCOMM_CERTIFICATE",
    "key": "of that certificate; else $GROUPCOMM_KEY",
    "token-file": "holds this program's token; else $GROUPCOMM_TOKEN is the token",
}

LEVEL_NAMES = tuple(level.name.lower() for level in LEVELS)


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Where to connect, and as whom."""
    parser.add_argument(
        "--address",
        metavar="WHERE",
        help="of the daemon: a socket's path, HOST:PORT or tls://HOST:PORT; else"
        " $GROUPCOMM_ADDRESS, else the daemon of this user",
    )
    for name, what in _FOR_TLS.items():
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"TLS: {what}")
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="DIR",
        help="write down all that the session asks for and is told, for groupcomm check DIR",
    )
    parser.add_argument("--user", metavar="NAME", help="to be known by; else a random name")


def connect_as_told(
    options: argparse.Namespace, *, causes: bool = False
) -> AbstractAsyncContextManager[Connection]:
    """Connect as the options say; `causes`: be told them."""
    return connect(
        options.address,
        user=options.user,
        trace=options.trace,
        causes=causes,
        ca=options.ca,
        certificate=options.certificate,
        key=options.key,
        token=options.token_file,
    )


def add_level_option(parser: argparse.ArgumentParser) -> None:
    """What a message is promised."""
    parser.add_argument(
        "--level", choices=LEVEL_NAMES, default="agreed", help="of the messages (agreed)"
    )


def need_pyarrow(what: str) -> None:
    """Of a command that works on logs: tell what to install if it is not there.

    Raises:
        ConfigError: pyarrow is missing.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise ConfigError(f"pyarrow is missing, which {what}: pip install 'groupcomm[log]'")


def level_of(options: argparse.Namespace) -> ServiceLevel:
    """The level that was asked for."""
    return ServiceLevel[options.level.upper()]


def describe(event: Received) -> dict[str, Any]:
    """An event as JSON."""
    match event:
        case Message():
            try:
                data: dict[str, Any] = {"data": event.data.decode()}
            except UnicodeDecodeError:
                data = {"data_hex": event.data.hex()}
            return {
                "event": "message",
                "level": event.level.name,
                "position": place(event.position),
                "sender": event.sender.name,
                "groups": list(event.groups),
                "type": event.type,
                **data,
            }
        case GroupView():
            return {
                "event": "group view",
                "group": event.group,
                "position": place(event.id),
                "members": [member.name for member in event.members],
                "cause": event.cause.name.lower(),
                "changed": [member.name for member in event.changed],
                "came_along": [member.name for member in event.vs_set],
            }
        case DaemonView():
            return {
                "event": "daemons",
                "view": str(event.id),
                "daemons": list(event.daemons),
                "majority": event.majority,
            }
        case Transition():
            return {"event": "transition", "view": str(event.view)}
        case Refused():
            return {
                "event": "refused",
                "verb": event.verb,
                "group": event.group,
                "principal": event.principal,
                "quota": event.quota,
            }
        case Undeliverable():
            return {
                "event": "undeliverable",
                "target": event.target,
                "position": place(event.position),
            }
        case Unfiltered():
            return {**describe(event.message), "event": "unfiltered", "why": event.why}
        case _:
            return _describe_secret(event)


def _describe_secret(event: Unreadable | KeyChanged | Untrusted) -> dict[str, Any]:
    match event:
        case Unreadable():
            return {**describe(event.message), "event": "unreadable", "why": event.why}
        case KeyChanged():
            return {
                "event": "key",
                "group": event.group,
                "view": place(event.view),
                "giver": event.giver.name,
                "readers": [member.name for member in event.readers],
                "others": [member.name for member in event.others],
            }
        case Untrusted():
            return {
                "event": "untrusted",
                "group": event.group,
                "member": event.member.name,
                "why": event.why,
            }


def place(position: Position | None) -> str | None:
    """A position as people read it; they compare equal where positions do."""
    if position is None:
        return None
    view, time, ring, bundle, message = position
    return f"{view}/{time}.{ring}.{bundle}.{message}"


def tell(event: Received, *, as_json: bool) -> None:
    """Print an event for people, or as a line of JSON."""
    found = describe(event)
    if as_json:
        print(json.dumps(found, ensure_ascii=False), flush=True)
        return
    match event:
        case Message():
            text = visible(
                found.get("data", found.get("data_hex", ""))
            )  # one line, whatever it says
            print(f"{event.level.name:<10} {event.sender.name} {text}", flush=True)
        case GroupView():
            change = " ".join(found["changed"])
            print(
                f"group {event.group}: {event.cause.name.lower()} {change}".rstrip()
                + f" - members {', '.join(found['members']) or 'none'}"
                + f" - came along {', '.join(found['came_along']) or 'none'}",
                flush=True,
            )
        case DaemonView():
            print(f"daemons: {', '.join(event.daemons)}", flush=True)
        case Transition():
            print("transition: until the next view, others may lack what follows", flush=True)
        case Refused():
            print(f"refused: {event}", file=sys.stderr, flush=True)
        case Undeliverable():
            print(f"undeliverable: {event.target} has gone", file=sys.stderr, flush=True)
        case Unfiltered():
            sender = event.message.sender.name
            print(f"unfiltered: from {sender}: {event.why}", file=sys.stderr, flush=True)
        case _:
            _tell_secret(event)


def _tell_secret(event: Unreadable | KeyChanged | Untrusted) -> None:
    match event:
        case Unreadable():
            sender = event.message.sender.name
            print(f"unreadable: from {sender}: {event.why}", file=sys.stderr, flush=True)
        case KeyChanged():
            readers = ", ".join(member.name for member in event.readers)
            print(f"key of {event.group}: read by {readers}", flush=True)
        case Untrusted():
            who = event.member.name
            print(f"untrusted: {who} in {event.group}: {event.why}", file=sys.stderr, flush=True)
