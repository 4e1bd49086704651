"""Workers share requests: one worker handles each, also when workers come and go.

    python examples/requests/squares.py work
    python examples/requests/squares.py ask 10 20 30
    python examples/requests/squares.py who

A request here is a number; its worker waits a little and returns the square.
"""

import argparse

import trio

import groupcomm_client as gc
from groupcomm_client.coordination import CallFailed, Request, calling, serve

GROUP = "workers"
EFFORT_S = 0.05
EVERYBODY = b"who"


async def work(options: argparse.Namespace) -> None:
    async with gc.connect(options.address, user=options.user) as connection:
        name = connection.name

        async def do(request: Request) -> bytes:
            if request.data == EVERYBODY:
                return name.encode()
            number = int(request.data)
            print(f"{name} does {number} for {request.caller.name}", flush=True)
            await trio.sleep(EFFORT_S)
            return b"%d by %s" % (number * number, name.encode())

        await serve(connection, GROUP, do)


async def ask(options: argparse.Namespace) -> None:
    async with gc.connect(options.address) as connection, calling(connection) as caller:
        for number in options.numbers:
            try:
                reply = await caller.call(GROUP, number.encode(), timeout_s=options.timeout_s)
            except CallFailed as error:
                print(f"{number}: {error}", flush=True)
            else:
                print(f"{number}: {reply.decode()}", flush=True)


async def who(options: argparse.Namespace) -> None:
    async with gc.connect(options.address) as connection, calling(connection) as caller:
        replies = await caller.call_all(GROUP, EVERYBODY, timeout_s=options.timeout_s)
        for name in sorted(replies.data.values()):
            print(name.decode(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Requests to whoever is there, and replies.")
    parser.add_argument("--address", help="of a daemon; else $GROUPCOMM_ADDRESS, else this user's")
    parser.add_argument("--timeout-s", type=float, default=10.0, help="for a reply (10)")
    verbs = parser.add_subparsers(required=True)
    worker = verbs.add_parser("work", help="do requests until ^C")
    worker.add_argument("--user", help="name of this worker; else a random one")
    worker.set_defaults(run=work)
    asker = verbs.add_parser("ask", help="have numbers squared, one after another")
    asker.add_argument("numbers", nargs="+", help="what to square")
    asker.set_defaults(run=ask)
    verbs.add_parser("who", help="have all workers say their names").set_defaults(run=who)
    options = parser.parse_args()
    gc.run(options.run, options)


if __name__ == "__main__":
    main()
