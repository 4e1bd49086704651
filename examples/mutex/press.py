"""Programs on several hosts share one press: at most one uses it at a time.

    python examples/mutex/press.py --user ann --times 3

Start it several times, at one daemon or at several. With machine.py beside it the press itself is
a member of the group, and refuses whoever does not hold it.
"""

import argparse

import trio

import groupcomm_client as gc
from groupcomm_client.coordination import join_mutex, use
from groupcomm_client.coordination.mutex import FORMS

WORK_S = 0.1


async def run(options: argparse.Namespace) -> None:
    async with (
        gc.connect(options.address, user=options.user) as connection,
        join_mutex(connection, "press", form=options.form) as mutex,
    ):
        if options.rude:
            await use(mutex, b"a part of its own")  # and does not ask the mutex
            await trio.sleep(WORK_S)
            return
        for number in range(options.times):
            async with mutex:
                print(f"{connection.name} presses part {number + 1}", flush=True)
                await use(mutex, b"part %d" % (number + 1))
                await trio.sleep(WORK_S)
                print(f"{connection.name} is done", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Press parts, one program at a time.")
    parser.add_argument("--address", help="of a daemon; else $GROUPCOMM_ADDRESS, else this user's")
    parser.add_argument("--user", help="name of this program; else a random one")
    parser.add_argument("--times", type=int, default=3, help="how many parts (3)")
    parser.add_argument("--rude", action="store_true", help="use the press without asking for it")
    parser.add_argument("--form", choices=FORMS, default="agreed", help="of the mutex (agreed)")
    gc.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
