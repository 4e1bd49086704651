"""A program that says at a steady rate that it is alive, and notes when it hears others.

Prints ``{"ready": true}`` once it is a member, waits for a line, and then prints the times of each
sender's messages, and of its views with their members; seconds of the host's monotonic clock.
"""

import argparse
import sys
import time
from functools import partial

import trio

from examples.common.command import run
from examples.common.stage import tell, told
from groupcomm.events import GroupView, Message
from groupcomm.level import ServiceLevel
from groupcomm_client import Connection, connect

GROUP = "alive"
PERIOD_S = 0.02


class Ears:
    """The records of a program.

    Attributes:
        heard: times by sender.
        members: pairs of a time and the members from then on.
    """

    def __init__(self) -> None:
        self.heard: dict[str, list[float]] = {}
        self.members: list[tuple[float, list[str]]] = []

    async def listen(self, connection: Connection) -> None:
        """Note all events until the end."""
        while True:
            for event in await connection.receive_batch():
                now = time.monotonic()
                if isinstance(event, Message):
                    self.heard.setdefault(event.sender.user, []).append(now)
                elif isinstance(event, GroupView):
                    self.members.append((now, [m.user for m in event.members]))


async def beat(connection: Connection) -> None:
    """Send until the end; waits while there is no session."""
    while True:
        await connection.multicast(GROUP, b"", level=ServiceLevel.FIFO, self_discard=True)
        await trio.sleep(PERIOD_S)


async def live(options: argparse.Namespace) -> int:
    """Run until the order to report."""
    ears = Ears()
    async with connect(options.address, user=options.name, reconnect=True) as connection:
        await connection.join(GROUP)
        tell({"ready": True})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ears.listen, connection)
            nursery.start_soon(beat, connection)
            await told()
            tell({"heard": ears.heard, "members": ears.members})
            nursery.cancel_scope.cancel()
    return 0


def main() -> int:
    """Run one program; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--address", required=True)
    return run("losses_program", partial(live, parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
