"""A sender with an outbox, for the campaign exactly_once: it is killed, and started again.

Each message holds its number among all that were ever stored. It ends at the end of its input, and
prints {"stored"} then.
"""

import argparse
import json
import os
import sys
from contextlib import AsyncExitStack

import trio

import groupcomm_client as gc

LEVELS = (gc.ServiceLevel.AGREED, gc.ServiceLevel.SAFE, gc.ServiceLevel.FIFO)


async def until_the_end_of_input() -> None:
    await trio.to_thread.run_sync(sys.stdin.buffer.read, abandon_on_cancel=True)


async def run(options: argparse.Namespace) -> None:
    """Send until the end of input; a connection that cannot begin is tried again."""
    outbox = gc.Outbox(options.outbox)
    while True:
        try:
            await send_until_the_end(outbox, options)
            break
        except gc.InDoubt:
            raise
        except (gc.CannotConnect, gc.SessionEnded):
            await trio.sleep(0.2)
    os.write(1, json.dumps({"stored": outbox.stored}).encode() + b"\n")


async def send_until_the_end(outbox: gc.Outbox, options: argparse.Namespace) -> None:
    async with AsyncExitStack() as stack:
        opened = gc.connect(options.address, user=options.user, reconnect=True, exactly_once=outbox)
        connection = await stack.enter_async_context(opened)
        nursery = await stack.enter_async_context(trio.open_nursery())

        async def send() -> None:
            while True:
                number = outbox.stored
                level = LEVELS[number // 7 % len(LEVELS)]
                data = f"{options.user} {number}".encode()
                await connection.multicast("g", data, level=level)
                await trio.sleep(1 / options.rate)

        nursery.start_soon(send)
        await until_the_end_of_input()
        nursery.cancel_scope.cancel()


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("address", "user", "outbox"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rate", type=float, required=True)
    trio.run(run, parser.parse_args())
    return 0


if __name__ == "__main__":
    sys.exit(main())
