"""`groupcomm work`: do the jobs that are sent to a group with a command, such as a script."""

import argparse
import json
from typing import Final

import trio

from groupcomm.errors import LocalProtocolError
from groupcomm.events import Message
from groupcomm.host.option_types import one_or_more, positive
from groupcomm.names import check_group
from groupcomm_client.coordination import Job, Worker
from groupcomm_client.coordination.work_queue import Key
from groupcomm_client.coordination.working import AT_ONCE, DEADLINE_S, TRIES
from groupcomm_tools.commands.children import (
    CannotStart,
    CommandFailed,
    CommandProgram,
    execute,
)
from groupcomm_tools.commands.connecting import connect_trio
from groupcomm_tools.commands.options import add_connection_options
from groupcomm_tools.metrics_text import gauge, print_metrics
from groupcomm_tools.stopping import run_tasks

EXAMPLE: Final = "groupcomm work pages --name printers --at-once 2 -- lp -"


def first_word(message: Message) -> bytes:
    """Return the bytes of a message up to the first white space."""
    return (message.data.split(maxsplit=1) or [b""])[0]


KEYS: Final[dict[str, Key]] = {
    "sender": lambda message: message.sender.name.encode(),
    "type": lambda message: b"%d" % message.type,
    "word": first_word,
}
"""The keys of jobs that can be chosen, by name."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("group", metavar="GROUP", help="the group whose messages are jobs")
    parser.add_argument(
        "command",
        nargs="*",
        metavar="WORD",
        help="a command and its words, behind --: it has a job as its standard input, and exit"
        " status 0 if the job is done; GROUPCOMM_SENDER names who has sent it,"
        " GROUPCOMM_JOB the job, and GROUPCOMM_ATTEMPT is above 1 if it was given before",
    )
    parser.add_argument(
        "--name", required=True, metavar="SET", help="the set of workers that share the jobs"
    )
    parser.add_argument(
        "--at-once",
        type=one_or_more,
        default=AT_ONCE,
        metavar="N",
        help=f"jobs that this worker does at a time ({AT_ONCE})",
    )
    parser.add_argument(
        "--deadline-s",
        type=positive,
        default=DEADLINE_S,
        metavar="S",
        help=f"longest time of a job, whose command is killed then ({DEADLINE_S:g})",
    )
    parser.add_argument(
        "--tries",
        type=one_or_more,
        default=TRIES,
        metavar="N",
        help=f"failures after which a job is set aside ({TRIES})",
    )
    parser.add_argument(
        "--in-order-of",
        choices=KEYS,
        help="do jobs with the same sender, type or first word one at a time, in their order",
    )
    parser.add_argument("--count", type=one_or_more, metavar="N", help="end after N jobs")
    parser.add_argument("--duration-s", type=positive, metavar="S", help="end after S seconds")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--list", action="store_true", help="print the workers, and the jobs that were set aside"
    )
    shown.add_argument("--metrics", action="store_true", help="print the same for Prometheus")
    shown.add_argument(
        "--put-back", action="store_true", help="have the jobs that were set aside given again"
    )
    shown.add_argument("--discard", action="store_true", help="forget the jobs that were set aside")
    parser.add_argument(
        "--json", action="store_true", help="print one line of JSON for each job, or for --list"
    )
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Work until the count or the duration is reached, or until ^C or SIGTERM; return 0.

    Raises:
        CannotStart: the command cannot be started any more; the jobs go to other workers.
    """
    looks = options.list or options.metrics or options.put_back or options.discard
    if looks == bool(options.command):
        raise LocalProtocolError(
            "write a command behind --, such as -- lp -, or one of --list, --metrics, --put-back,"
            " --discard"
        )
    if looks:
        run_tasks(look, options)
    else:
        Working(options).play()
    return 0


async def look(options: argparse.Namespace) -> None:
    """Print the state of the set, or change what was set aside."""
    async with (
        connect_trio(options) as connection,
        connection.work(check_group(options.group), name=options.name, at_once=0) as worker,
    ):
        await worker.until_current()
        aside = worker.set_aside
        if options.put_back:
            worker.put_back([each.id for each in aside])
        elif options.discard:
            worker.discard([each.id for each in aside])
        elif options.metrics:
            print_metrics(metrics_of(worker, options.group, options.name))
        elif options.json:
            print_json(worker)
        else:
            print(f"{worker.waiting} jobs wait")
            for member, count in worker.workers.items():
                print(f"{member.name}: {count} jobs")
            for each in aside:
                why = f"{each.failures} failures, {each.why}"
                print(f"set aside: {each.data[:40]!r} from {each.sender.name}: {why}")


def print_json(worker: Worker) -> None:
    """Print the state of the set as an object."""
    aside = [
        {
            "data": each.data.decode(errors="replace"),
            "sender": each.sender.name,
            "failures": each.failures,
            "why": each.why,
        }
        for each in worker.set_aside
    ]
    workers = {member.name: count for member, count in worker.workers.items()}
    print(json.dumps({"waiting": worker.waiting, "workers": workers, "set_aside": aside}))


def metrics_of(worker: Worker, group: str, name: str) -> list[list[object]]:
    """Return the state of a set as rows of metrics."""
    labels, at = ("group", "set"), (group, name)
    jobs = {(*at, member.name): count for member, count in worker.workers.items()}
    return [
        gauge("groupcomm_work_waiting", "Jobs that no worker has.", labels, {at: worker.waiting}),
        gauge("groupcomm_work_workers", "Workers of the set.", labels, {at: len(jobs)}),
        gauge("groupcomm_work_jobs", "Jobs that a worker has.", (*labels, "worker"), jobs),
        gauge(
            "groupcomm_work_set_aside",
            "Jobs that have failed so often that nobody tries them any more.",
            labels,
            {at: len(worker.set_aside)},
        ),
    ]


class Working(CommandProgram):
    """A worker that does its jobs with a command."""

    async def run(self) -> None:
        """Work until it is enough."""
        options = self._options
        async with (
            connect_trio(options) as connection,
            connection.work(
                self._group,
                name=options.name,
                at_once=options.at_once,
                deadline_s=options.deadline_s,
                tries=options.tries,
                key=None if options.in_order_of is None else KEYS[options.in_order_of],
            ) as worker,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(worker.work_off, self._do)
            await self.until_enough(f"working for {self._group} as {connection.name}")
            nursery.cancel_scope.cancel()

    async def _do(self, job: Job) -> None:
        status: int | None = None
        try:
            done = await execute(self._command, job.data, _about(job), keep_output=False)
            status = done.status
        except CannotStart as error:
            job.give_back()
            self.give_up(error)
            return
        finally:
            self._tell(job, status)
        try:
            done.check()
        except CommandFailed as error:
            self.reports.say(f"a job of {job.sender.name} has failed here: {error}")
            raise
        job.done()
        self.count_one()

    def _tell(self, job: Job, status: int | None) -> None:
        """Print that a job has ended; `status` is None for a command that was killed."""
        if self._options.json:
            found = {"sender": job.sender.name, "attempt": job.attempt, "status": status}
            self.reports.print_json({**found, "bytes": len(job.data)})


def _about(job: Job) -> dict[str, str]:
    at = job.id
    return {
        "GROUPCOMM_SENDER": job.sender.name,
        "GROUPCOMM_JOB": f"{at.view}.{at.time}.{at.ring}.{at.bundle}.{at.message}",
        "GROUPCOMM_ATTEMPT": str(job.attempt),
    }
