"""Join a group with the plain client, send messages to it, and print what comes.

Programs of the library, such as `groupcomm chat`, can be in the same group.
"""

import argparse
import socket
import sys
from typing import Any

from examples.plain_client import plain_client as plain

LEVELS = ("UNRELIABLE", "RELIABLE", "FIFO", "CAUSAL", "AGREED", "SAFE")
CAUSES = ("JOIN", "LEAVE", "DISCONNECT", "NETWORK")


def shown(event: dict[str, Any]) -> str:
    """Return one line about an event."""
    if event["event"] == "message":
        level, data = LEVELS[event["level"]], event["data"].decode(errors="replace")
        return f"{level} from {event['sender'][0]}: {data!r}"
    if event["event"] == "view":
        names = ", ".join(name for name, _ in event["members"])
        return f"view of {event['group']} after {CAUSES[event['cause']]}: {names or 'nobody'}"
    rest = ", ".join(f"{key} {value}" for key, value in event.items() if key != "event")
    return f"{event['event']}: {rest}"


def open_stream(address: str) -> socket.socket:
    """Connect to the path of a socket, which has a slash, or to HOST:PORT."""
    host, _, port = address.rpartition(":")
    if host and "/" not in address:
        return socket.create_connection((host, int(port)))
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(address)
    return stream


def talk(options: argparse.Namespace) -> None:
    """Join, send, and print until enough messages have come or nothing has for a while."""
    client = plain.Client(open_stream(options.address), options.user)
    print(f"this is {client.me[0]}")
    client.join(options.group)
    for text in options.messages:
        client.multicast([options.group], text.encode(), LEVELS.index(options.level))
    left = options.count
    while left and (event := client.receive(options.timeout_s)):
        print(shown(event), flush=True)
        left -= event["event"] == "message"
    client.close()


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("messages", nargs="*", help="texts to send")
    parser.add_argument("--address", required=True, help="the path of a socket, or HOST:PORT")
    parser.add_argument("--user", default="plain", help="the name of the session (%(default)s)")
    parser.add_argument("--group", default="talk", help="the group (%(default)s)")
    parser.add_argument("--level", choices=LEVELS, default="AGREED", help="(%(default)s)")
    parser.add_argument("--count", type=int, default=-1, help="end after this many messages")
    parser.add_argument(
        "--timeout-s", type=float, default=plain.FOREVER_S, help="end if nothing comes for so long"
    )
    try:
        talk(parser.parse_args())
    except (plain.SessionClosed, OSError, ValueError) as error:
        print(f"no session any more: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
