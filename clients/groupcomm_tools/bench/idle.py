"""Programs that do nothing: many sessions in many groups, in one process.

Prints {"ready"} once all have joined, and ends with its input.
"""

import json
import sys
from contextlib import AsyncExitStack
from typing import Final

import trio

from groupcomm_client.connecting import connect
from groupcomm_client.connection import Connection

_AT_ONCE: Final = 50
"""So many connect or join at a time."""


async def _connect(stack: AsyncExitStack, address: str, made: list[Connection]) -> None:
    made.append(await stack.enter_async_context(connect(address)))


async def _join(connection: Connection, groups: range) -> None:
    for number in groups:
        await connection.join(f"idle-{number}")
        await connection.receive_batch()


async def _run(addresses: list[str], sessions: int, groups: int) -> None:
    async with AsyncExitStack() as stack:
        made: list[Connection] = []
        for begin in range(0, sessions, _AT_ONCE):
            async with trio.open_nursery() as nursery:
                for index in range(begin, min(begin + _AT_ONCE, sessions)):
                    place = addresses[index % len(addresses)]
                    nursery.start_soon(_connect, stack, place, made)
        for begin in range(0, sessions, _AT_ONCE):
            async with trio.open_nursery() as nursery:
                for index in range(begin, min(begin + _AT_ONCE, sessions)):
                    nursery.start_soon(_join, made[index], range(index, groups, sessions))
        print(json.dumps({"ready": True}), flush=True)
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


def main() -> int:
    """Run with ADDRESSES SESSIONS GROUPS, the first one as JSON."""
    _, addresses, sessions, groups = sys.argv
    trio.run(_run, json.loads(addresses), int(sessions), int(groups))
    return 0


if __name__ == "__main__":
    sys.exit(main())
