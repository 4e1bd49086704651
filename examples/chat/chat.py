"""The smallest chat: lines go to a group, and all members see the same lines in the same order.

    python examples/chat/chat.py --user ann

`groupcomm chat` is the complete program.
"""

import argparse

import trio

import groupcomm_client as gc

ROOM = "room"


async def listen(connection: gc.Connection) -> None:
    async for event in connection:
        match event:
            case gc.Message():
                print(f"{event.sender.name}: {event.data.decode(errors='replace')}", flush=True)
            case gc.GroupView():
                names = ", ".join(member.name for member in event.members)
                print(f"[{event.cause.name.lower()}: {names}]", flush=True)
            case _:
                pass


async def talk(connection: gc.Connection) -> None:
    async for line in gc.input_lines():
        await connection.multicast(ROOM, line.encode())


async def run(options: argparse.Namespace) -> None:
    async with (
        gc.connect(options.address, user=options.user) as connection,
        connection.group(ROOM),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(listen, connection)
        await talk(connection)
        await trio.sleep(options.linger_s)  # to receive later messages
        nursery.cancel_scope.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description="Talk to all in one room.")
    parser.add_argument("--address", help="of a daemon; else $GROUPCOMM_ADDRESS, else this user's")
    parser.add_argument("--user", help="your name; else a random one")
    parser.add_argument("--linger-s", type=float, default=0.0, help="after the last line (0)")
    gc.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
