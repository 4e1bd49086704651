"""A pool of workers: each number that is sent to the group is factored by one of them.

    python examples/worker_pool/pool.py work
    python examples/worker_pool/pool.py send 1001 2021 8051
    python examples/worker_pool/pool.py aside

Kill a worker that is busy: another one gets its numbers. What is no number fails at each
worker, and is set aside after three tries; `aside` lists it, and `again` has it tried once more.
"""

import argparse

import trio

import groupcomm_client as gc
from groupcomm_client.coordination import Job

GROUP = "numbers"
POOL = "factoring"
TRIES = 3


def factors(number: int) -> list[int]:
    """Return the prime factors of a number, the smallest first."""
    found, factor = [], 2
    while factor * factor <= number:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return [*found, number] if number > 1 else found


async def work(options: argparse.Namespace) -> None:
    async with (
        gc.connect(options.address, user=options.user) as connection,
        connection.work(GROUP, name=POOL, at_once=options.at_once, tries=TRIES) as worker,
    ):

        async def factor(job: Job) -> None:
            number = int(job.data)
            await trio.sleep(options.effort_s)
            again = "" if job.attempt == 1 else f" (attempt {job.attempt})"
            print(number, "=", " x ".join(map(str, factors(number))) + again, flush=True)

        await worker.work_off(factor)


async def send(options: argparse.Namespace) -> None:
    """Send numbers; any program can do that, and none of the workers has to be known."""
    async with gc.connect(options.address) as connection:
        await connection.multicast_many(GROUP, [number.encode() for number in options.numbers])


async def aside(options: argparse.Namespace) -> None:
    """List what has failed too often; with `again` have it tried once more."""
    async with (
        gc.connect(options.address) as connection,
        connection.work(GROUP, name=POOL, at_once=0) as watcher,  # it gets no numbers itself
    ):
        await watcher.until_current()
        found = watcher.set_aside
        for each in found:
            print(f"{each.data.decode()}: {each.failures} failures, {each.why}", flush=True)
        if options.again:
            watcher.put_back([each.id for each in found])


def main() -> None:
    parser = argparse.ArgumentParser(description="A pool of workers that factor numbers.")
    parser.add_argument("--address", help="of a daemon; else $GROUPCOMM_ADDRESS, else this user's")
    verbs = parser.add_subparsers(required=True)
    worker = verbs.add_parser("work", help="factor numbers until ^C")
    worker.add_argument("--user", help="name of this worker; else a random one")
    worker.add_argument("--at-once", type=int, default=2, help="numbers at a time (2)")
    worker.add_argument("--effort-s", type=float, default=0.05, help="time for each (0.05)")
    worker.set_defaults(run=work)
    sender = verbs.add_parser("send", help="have numbers factored")
    sender.add_argument("numbers", nargs="+")
    sender.set_defaults(run=send)
    verbs.add_parser("aside", help="list what was set aside").set_defaults(run=aside, again=False)
    verbs.add_parser("again", help="have that tried again").set_defaults(run=aside, again=True)
    options = parser.parse_args()
    gc.run(options.run, options)


if __name__ == "__main__":
    main()
