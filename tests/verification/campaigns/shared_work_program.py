"""A worker of the campaign of shared work; it writes each job that it has done into a file.

A record is the number of the job, its attempt, and the number of jobs that the program had then.
"""

import argparse
import os
import struct
import sys
from typing import Final

import trio

from groupcomm.errors import CannotConnect, SessionError
from groupcomm_client import connect
from groupcomm_client.coordination import Worker

RECORD: Final = struct.Struct("<III")
RETRY_S: Final = 0.1


async def work_off(worker: Worker, file: int, work_s: float) -> None:
    """Do all jobs that are there at a time together."""
    while True:
        jobs = await worker.next_batch()
        if work_s:
            await trio.sleep(work_s)
        held = len(jobs)
        records = [RECORD.pack(int(job.data[:8]), job.attempt, held) for job in jobs]
        os.write(file, b"".join(records))  # before it is reported: a kill in between repeats it
        for job in jobs:
            job.done()


async def run(options: argparse.Namespace) -> None:
    file = os.open(options.record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work_for_ever, options, file)
        async for _ in trio.wrap_file(sys.stdin):  # it ends with the campaign
            continue
        nursery.cancel_scope.cancel()


async def work_for_ever(options: argparse.Namespace, file: int) -> None:
    while True:
        try:
            await be_a_worker(options, file)
        except* (SessionError, CannotConnect) as group:
            print(f"a session has ended: {group.exceptions[0]}", file=sys.stderr)
            await trio.sleep(RETRY_S)


async def be_a_worker(options: argparse.Namespace, file: int) -> None:
    async with (
        connect(options.address) as connection,
        connection.work(
            "jobs", name="campaign", at_once=options.at_once, deadline_s=options.deadline_s
        ) as worker,
    ):
        await work_off(worker, file, options.work_s)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--record", required=True)
    parser.add_argument("--at-once", type=int, required=True)
    parser.add_argument("--work-s", type=float, required=True)
    parser.add_argument("--deadline-s", type=float, required=True)
    trio.run(run, parser.parse_args())
    return 0


if __name__ == "__main__":
    sys.exit(main())
