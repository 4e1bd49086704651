"""Events of a connection as text for people, and as JSON."""

import json
import sys
from typing import Any

from groupcomm.clocks.stamp import Position, format_position
from groupcomm.events import (
    DaemonStopping,
    DaemonView,
    GroupView,
    Message,
    Refused,
    Transition,
    Undeliverable,
)
from groupcomm.visible import visible
from groupcomm_client.end_to_end import KeyChanged, Unreadable, Untrusted
from groupcomm_client.events import Received, Reconnected, Unfiltered


def describe(event: Received) -> dict[str, Any]:
    """Return an event as an object of JSON."""
    match event:
        case Message():
            try:
                data: dict[str, Any] = {"data": event.data.decode()}
            except UnicodeDecodeError:
                data = {"data_hex": event.data.hex()}
            return {
                "event": "message",
                "level": event.level.name,
                "position": position_text(event.position),
                "sender": event.sender.name,
                "groups": list(event.groups),
                "type": event.type,
                **data,
            }
        case GroupView():
            return {
                "event": "group view",
                "group": event.group,
                "position": position_text(event.id),
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
                "bound": event.bound,
            }
        case Undeliverable():
            return {
                "event": "undeliverable",
                "target": event.target,
                "position": position_text(event.position),
            }
        case Unfiltered():
            return {**describe(event.message), "event": "unfiltered", "why": event.why}
        case Reconnected() | DaemonStopping():
            return _describe_end(event)
        case _:
            return _describe_secret(event)


def _describe_end(event: Reconnected | DaemonStopping) -> dict[str, Any]:
    if isinstance(event, Reconnected):
        return {
            "event": "reconnected",
            "member": str(event.member),
            "why": event.why,
            "moved": event.moved,
        }
    return {
        "event": "stopping",
        "within_s": event.within_s,
        "addresses": list(event.addresses),
    }


def _describe_secret(event: Unreadable | KeyChanged | Untrusted) -> dict[str, Any]:
    match event:
        case Unreadable():
            return {**describe(event.message), "event": "unreadable", "why": event.why}
        case KeyChanged():
            return {
                "event": "key",
                "group": event.group,
                "view": position_text(event.view),
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


def position_text(position: Position | None) -> str | None:
    """Return a position as text; None if there is no position."""
    return None if position is None else format_position(position)


def print_event(event: Received, *, as_json: bool, with_groups: bool = False) -> None:
    """Print an event as a sentence, or as one line of JSON.

    What has failed goes to standard error, unless JSON is asked for.

    Args:
        event: the event.
        as_json: print JSON.
        with_groups: name the groups of a message, too.
    """
    found = describe(event)
    if as_json:
        print(json.dumps(found, ensure_ascii=False), flush=True)
        return
    match event:
        case Message():
            groups = f"{','.join(event.groups)} " if with_groups else ""
            text = _text_of(found)
            print(f"{event.level.name:<10} {groups}{event.sender.name} {text}", flush=True)
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
            print(
                "transition: until the next view, others may lack the messages that follow",
                flush=True,
            )
        case Refused():
            print(f"refused: {event}", file=sys.stderr, flush=True)
        case Undeliverable():
            print(f"undeliverable: {event.target} has gone", file=sys.stderr, flush=True)
        case Unfiltered():
            sender = event.message.sender.name
            print(f"unfiltered: from {sender}: {event.why}", file=sys.stderr, flush=True)
        case Reconnected() | DaemonStopping():
            print(event, file=sys.stderr, flush=True)
        case _:
            _print_secret(event)


def _text_of(message: dict[str, Any]) -> str:
    """Return the data of a message on one line; bytes that are no text are marked."""
    if "data" in message:
        return visible(message["data"])
    digits: str = message["data_hex"]
    return f"({len(digits) // 2} bytes, no text) {digits}"


def _print_secret(event: Unreadable | KeyChanged | Untrusted) -> None:
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
