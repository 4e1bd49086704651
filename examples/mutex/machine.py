"""The press itself, as a member of the group: it presses what the holder sends, and nothing else.

    python examples/mutex/machine.py

Start it beside press.py. A program that was cut off and still believes that it is in, or one that
does not ask (press.py --rude), is refused: the agreed order says who holds the press at each use.
"""

import argparse
from collections.abc import Sequence

import trio

import groupcomm_client as gc
from groupcomm.events import MemberId
from groupcomm_client.coordination import keep_resource

LOOK_S = 0.05


async def run(options: argparse.Namespace) -> None:
    def press(user: MemberId, data: bytes) -> None:
        print(f"pressed {data.decode(errors='replace')} for {user.name}", flush=True)

    async with (
        gc.connect(options.address, user="machine") as connection,
        keep_resource(connection, "press", press, form=options.form) as resource,
    ):
        print("the press is ready", flush=True)
        told = 0
        while options.times is None or resource.used + told < options.times:
            for user in resource.refused[told:]:
                print(f"refused {user.name}, which does not hold the press", flush=True)
            told = len(resource.refused)
            await trio.sleep(LOOK_S)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Be the press, as a member of the group.")
    parser.add_argument("--address", help="of a daemon; else $GROUPCOMM_ADDRESS, else this user's")
    parser.add_argument(
        "--times", type=int, help="end after this number of uses, refused ones included"
    )
    parser.add_argument(
        "--form", choices=("agreed", "acknowledged"), default="agreed", help="of the mutex (agreed)"
    )
    gc.run(run, parser.parse_args(arguments))


if __name__ == "__main__":
    main()
