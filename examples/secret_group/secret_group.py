"""Members of a group share secrets that no daemon can read.

groupcomm keygen plan.key
python -m examples.secret_group.secret_group --secret plan.key --say "we meet at noon"
"""

import argparse
from pathlib import Path

import groupcomm_client as gc
from groupcomm.events import GroupView, Message
from groupcomm_client.end_to_end import KeyChanged, SharedSecret, Unreadable, Untrusted
from groupcomm_client.events import Received

GROUP = "plan"


def describe(event: Received) -> str | None:
    """Return an event as a line, for this example."""
    match event:
        case GroupView():
            return "members: " + ", ".join(one.name for one in event.members)
        case KeyChanged():
            return "a new key for: " + ", ".join(one.name for one in event.readers)
        case Message():
            return f"{event.sender.name} says: {event.data.decode()}"
        case Untrusted():
            return f"not trusted: {event.member.name}: {event.why}"
        case Unreadable():
            size = len(event.message.data)
            return f"{size} bytes from {event.message.sender.name}: {event.why}"
        case _:
            return None


async def talk(options: argparse.Namespace) -> None:
    secret = None if options.secret is None else SharedSecret.read(options.secret)
    left = options.messages
    async with gc.connect(options.address, user=options.user) as connection:
        await connection.join(GROUP, secret=secret)
        if options.say is not None:
            await connection.multicast(GROUP, options.say.encode())
        async for event in connection:
            line = describe(event)
            if line is not None:
                print(line, flush=True)
            left -= isinstance(event, Message)
            if left == 0:
                break


def main() -> None:
    parser = argparse.ArgumentParser(description="Talk in a group that no daemon can read.")
    parser.add_argument("--address", help="of a daemon; else $GROUPCOMM_ADDRESS, else this user's")
    parser.add_argument("--user", help="name of this program; else a random one")
    parser.add_argument("--secret", type=Path, help="key file; without it nothing can be read")
    parser.add_argument("--say", help="a message to send")
    parser.add_argument("--messages", type=int, default=-1, help="end after this number (never)")
    options = parser.parse_args()
    gc.run(talk, options)


if __name__ == "__main__":
    main()
