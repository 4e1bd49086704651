"""A program that enters a mutex again and again, and checks by a lock of the host that it is alone.

Prints {"asked", "entered"} and then {"out"} in nanoseconds of the host's monotonic clock; "out" in
a line of its own, so that a program that was killed inside shows. The file of the lock holds the
process that is in, as a negative number once it has said "out": a program that finds the lock held
always learns its holder.
"""

import argparse
import fcntl
import json
import os
import sys
import time
from pathlib import Path

import trio

from groupcomm_client import connect
from groupcomm_client.coordination import join_mutex
from groupcomm_client.coordination.mutex import FORMS


def tell(**what: object) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")  # the line is written, whatever happens next


def take(lock: int) -> None:
    """Take the lock of the host; report the process it is taken from, if it is not free.

    That is right only if that process was killed: the kernel may end its connection before its
    lock.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        tell(met=abs(int(os.pread(lock, 12, 0))))
        fcntl.flock(lock, fcntl.LOCK_EX)


async def run(options: argparse.Namespace) -> None:
    with options.lock.open("r+b", buffering=0) as lock:
        async with (
            connect(options.address) as connection,
            join_mutex(connection, "campaign", form=options.form) as mutex,
        ):
            for _ in range(options.times):
                asked = time.monotonic_ns()
                async with mutex:
                    entered = time.monotonic_ns()
                    take(lock.fileno())
                    os.pwrite(lock.fileno(), b"%12d" % os.getpid(), 0)
                    tell(asked=asked, entered=entered)
                    await trio.sleep(options.stay_s)
                    tell(out=time.monotonic_ns())
                    os.pwrite(lock.fileno(), b"%12d" % -os.getpid(), 0)
                    fcntl.flock(lock, fcntl.LOCK_UN)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--form", choices=FORMS, required=True)
    parser.add_argument("--lock", type=Path, required=True)
    parser.add_argument("--stay-s", type=float, default=0.0)
    parser.add_argument("--times", type=int, required=True)
    trio.run(run, parser.parse_args())
    return 0


if __name__ == "__main__":
    sys.exit(main())
