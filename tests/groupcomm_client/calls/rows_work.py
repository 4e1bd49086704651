"""The rows of shared work, of subscriptions, and of batches."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm_client import LATEST, Cursor
from groupcomm_client.committed import BlockingCommitted, committed
from groupcomm_client.coordination.working import MOST_CHANGED
from groupcomm_client.history import CaughtUp
from tests.groupcomm_client.calls.forms import Facade
from tests.groupcomm_client.calls.rows_connection import ENDLESS_S, LONG, NO_NUMBER, TOO_LONG
from tests.groupcomm_client.calls.stage import PATIENCE_S, Stage
from tests.groupcomm_client.calls.table import (
    FOR_EVER,
    NO_ARGUMENTS,
    NO_FUNCTION,
    NO_SIZE,
    NOT_WAITING,
    Refused,
    Row,
    Scene,
)

NOWHERE: Final = Position(ViewId(0, "", 0), 0, 0, 0, 0)

# ---- shared work ----

JOBS: Final = "jobs"


@asynccontextmanager
async def a_worker(s: Stage) -> AsyncIterator[None]:
    async with s.connect() as own, s.co.work(own, JOBS, name="w", tries=1) as s.worker:
        await s.worker.until_current()
        yield


async def job(s: Stage) -> Any:
    """Return a new job; jobs of calls that were cancelled are done here."""
    data = s.fresh().encode()
    await s.ann.multicast(JOBS, data)
    while True:
        found = await s.worker.next()
        if found.data == data:
            return found
        await s.done(found.done())


async def next_batch(s: Stage) -> None:
    await s.ann.multicast(JOBS, b"x")
    for each in await s.worker.next_batch():
        await s.done(each.done())


async def next_job(s: Stage) -> None:
    await s.ann.multicast(JOBS, b"x")
    await s.done((await s.worker.next()).done())


async def enter_a_job(s: Stage) -> None:
    async with await job(s):
        pass


async def work_of_connection(s: Stage) -> None:
    async with s.connect() as own, own.work(s.fresh(), name="w") as worker:
        await worker.until_current()


async def set_one_aside(s: Stage) -> Any:
    await fail(s)
    return await s.worker.next_set_aside()


async def done_with_it(s: Stage) -> None:
    await s.done((await job(s)).done())


async def fail(s: Stage) -> None:
    await s.done((await job(s)).fail("no paper"))


async def extend(s: Stage) -> None:
    found = await job(s)
    await s.done(found.extend())
    await s.done(found.done())


async def give_back(s: Stage) -> None:
    await s.done((await job(s)).give_back())
    await next_batch(s)


class Mute(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise RuntimeError("no text either")


async def the_reason_raises(s: Stage) -> None:
    found = await job(s)
    with pytest.raises(RuntimeError, match="no text either"):
        await s.done(found.fail(Mute()))
    await s.done(found.done())


async def the_block_of_a_job_raises(s: Stage) -> None:
    with pytest.raises(Mute):
        async with await job(s):
            raise Mute
    assert (await s.worker.next_set_aside()).why == "Mute"


async def work_off(s: Stage, raises: bool = False) -> None:
    """Have a handler do a job while the call lasts."""

    async def handle(found: Any) -> None:
        has_one.set()
        if raises:
            raise Mute

    async def work() -> None:
        await s.worker.work_off(s.form.function(handle))

    has_one = s.loop.event()
    await s.ann.multicast(JOBS, b"x")
    async with s.loop.tasks() as tasks:
        tasks.start(work)
        await has_one.wait()
        await s.worker.flush()


async def the_handler_raises(s: Stage) -> None:
    await work_off(s, raises=True)
    assert (await s.worker.next_set_aside()).why == "Mute"


def of_worker(**options: Any) -> Any:
    """A call of `work` on a connection of its own."""

    @asynccontextmanager
    async def block(s: Stage) -> AsyncIterator[None]:
        given = {"group": s.fresh(), "name": "w", **options}
        async with s.connect() as own, s.co.work(own, given.pop("group"), **given) as worker:
            await worker.until_current()
            yield

    return block


async def the_key_raises(s: Stage) -> None:
    def key(message: Any) -> bytes:
        raise ValueError("no key")

    async with s.connect() as own, s.co.work(own, "keyed", name="w", key=key) as worker:
        await worker.until_current()
        await s.ann.multicast("keyed", b"x")
        found = await worker.next()
        assert (found.data, found.key) == (b"x", None)
        await s.done(found.done())


def changes(name: str) -> Row:
    """Rows that are alike: changes of the jobs that were set aside."""
    return Row(
        call=lambda s: getattr(s.worker, name)([NOWHERE]),
        large=(
            Refused(
                lambda s: getattr(s.worker, name)([NOWHERE] * (MOST_CHANGED + 1)),
                "100,001 of these.*at most 100,000",
            ),
        ),
        wrong=(
            Refused(lambda s: getattr(s.worker, name)(7), r"1 of these: \(7,\); write the id"),
            Refused(lambda s: getattr(s.worker, name)([object()]), "write the id of each"),
        ),
        raising=NO_FUNCTION,
        slow=NOT_WAITING,
        cancelled=NOT_WAITING,
    )


def waits(call: Any, raising: Any = NO_FUNCTION, wrong: Any = NO_ARGUMENTS, **more: Any) -> Row:
    return Row(call=call, large=NO_ARGUMENTS, wrong=wrong, raising=raising, **more)


WORK_ROW: Final = Row(
    call=of_worker(),
    large=(
        Refused(of_worker(group=LONG), TOO_LONG),
        Refused(of_worker(at_once=10_001), "at_once is 10001; .* 0 to 10,000"),
        Refused(of_worker(tries=10**30), "tries is 10+; write a number from 1 to 2,147,483,647"),
        Refused(of_worker(deadline_s=float("inf")), "deadline_s is inf; .* 1,000,000,000, or None"),
    ),
    wrong=(
        Refused(of_worker(group=7), "group name is 7"),
        Refused(of_worker(name=7), "group name is 7"),
        Refused(of_worker(at_once=1.5), "at_once is 1.5"),
        Refused(of_worker(tries="x"), "tries is 'x'"),
        Refused(of_worker(deadline_s="x"), "deadline_s is 'x'"),
        Refused(of_worker(deadline_s=-1), "deadline_s is -1; write above 0"),
        Refused(of_worker(key=7), "key is 7; write a function"),
    ),
    raising=the_key_raises,
    forked_call=lambda s: s.co.work(s.ann, "x", name="w"),
)

SHARED_WORK: Final = Scene(
    a_worker,
    {
        "work": WORK_ROW,
        "Worker.until_current": waits(lambda s: s.worker.until_current()),
        "Worker.next": waits(next_job, forked_call=lambda s: s.worker.next()),
        "Worker.next_batch": waits(next_batch, forked_call=lambda s: s.worker.next_batch()),
        "Worker.flush": waits(lambda s: s.worker.flush()),
        "Worker.next_set_aside": waits(
            set_one_aside, forked_call=lambda s: s.worker.next_set_aside()
        ),
        "Worker.put_back": changes("put_back"),
        "Worker.discard": changes("discard"),
        "Worker.work_off": waits(
            work_off,
            the_handler_raises,
            (Refused(lambda s: s.worker.work_off(7), "handler is 7; write a function"),),
            cancelled=FOR_EVER,
            forked_call=lambda s: s.worker.work_off(repr),
        ),
        "Connection.work": waits(
            work_of_connection,
            "see work, which it calls",
            "see work, which it calls",
            forked_call=lambda s: s.ann.work("x", name="w"),
        ),
        "Job": waits(enter_a_job, the_block_of_a_job_raises),
        "Job.done": waits(done_with_it),
        "Job.fail": waits(fail, the_reason_raises, "every reason has a text"),
        "Job.extend": waits(extend),
        "Job.give_back": waits(give_back),
    },
)

# ---- subscriptions ----

WITH_ARCHIVE: Final = "it needs an archive: history/test_cursors.py"


@asynccontextmanager
async def a_subscription(s: Stage) -> AsyncIterator[None]:
    async with s.connect() as own, own.subscribe("past", start=LATEST) as s.subscription:
        while not isinstance(await s.subscription.receive(PATIENCE_S), CaughtUp):
            continue
        yield


def subscribed(**options: Any) -> Any:
    """A call of `Connection.subscribe` on a connection of its own."""

    @asynccontextmanager
    async def block(s: Stage) -> AsyncIterator[None]:
        given = {"groups": s.fresh(), "start": LATEST, **options}
        async with s.connect() as own, own.subscribe(given.pop("groups"), **given):
            yield

    return block


async def nothing_is_given(receive: Any) -> None:
    """Receive what earlier calls have left, and then nothing, in time."""

    async def all_that_is_left() -> None:
        while True:
            await receive(0.01)

    with pytest.raises(TimeoutError, match=r"no event has arrived in 0.01 s"):
        await all_that_is_left()
    with pytest.raises(TimeoutError, match="no event has arrived in"):
        await receive(-1)


def gives(name: str) -> Row:
    """Rows that are alike: calls that receive from a subscription."""

    async def call(s: Stage) -> None:
        s.start(lambda: s.bob.multicast("past", b"x"))
        await getattr(s.subscription, name)(ENDLESS_S)

    async def in_vain(s: Stage) -> None:
        await nothing_is_given(getattr(s.subscription, name))

    return Row(
        call=call,
        large="one may wait as long as one likes",
        wrong=(
            Refused(lambda s: getattr(s.subscription, name)("soon"), NO_NUMBER),
            Refused(lambda s: getattr(s.subscription, name)(float("nan")), "timeout_s is nan"),
        ),
        raising=NO_FUNCTION,
        slow=in_vain,
        forked_call=lambda s: getattr(s.subscription, name)(),
    )


SUBSCRIPTIONS: Final = Scene(
    a_subscription,
    {
        "Connection.subscribe": Row(
            call=subscribed(),
            large=(
                Refused(subscribed(groups=LONG), TOO_LONG),
                Refused(subscribed(start=LONG), f"cursor name {TOO_LONG}"),
                Refused(subscribed(gap_wait_s=float("inf")), "gap_wait_s is inf"),
            ),
            wrong=(
                Refused(subscribed(groups=7), "7 is no group"),
                Refused(subscribed(groups=[7]), "group name is 7"),
                Refused(subscribed(groups=[]), "there is no group"),
                Refused(subscribed(start=7), "start is 7; it must be EARLIEST"),
                Refused(subscribed(start="x", gap_wait_s="x"), "gap_wait_s is 'x'; write a number"),
                Refused(lambda s: Cursor(7), "cursor name is 7"),  # type: ignore[arg-type]
            ),
            raising=NO_FUNCTION,
            forked_call=lambda s: s.ann.subscribe("x", start=LATEST),
        ),
        "Subscription.receive": gives("receive"),
        "Subscription.receive_batch": gives("receive_batch"),
        "Subscription.acknowledge": Row(
            call=lambda s: s.subscription.position,  # without a cursor there is no right one
            large=NO_SIZE,
            wrong=(
                Refused(lambda s: s.subscription.acknowledge(), "has no cursor"),
                Refused(lambda s: s.subscription.acknowledge(7), "has no cursor"),
            ),
            raising=NO_FUNCTION,
            slow=WITH_ARCHIVE,
            cancelled=WITH_ARCHIVE,
            forked_call=lambda s: s.subscription.acknowledge(),
        ),
        "Subscription.flush": waits(
            lambda s: (s.subscription.awaited if s.form.blocks else s.subscription).flush(),
            slow=WITH_ARCHIVE,
            forked="without a cursor there is nothing to wait for",
        ),
    },
)

# ---- batches ----


@asynccontextmanager
async def a_reader_of_batches(s: Stage) -> AsyncIterator[None]:
    async with s.connect() as own:
        await own.join("batches")
        made = BlockingCommitted(own.made, ["batches"]) if s.form.blocks else None
        s.batches = Facade(made) if made is not None else committed(own, ["batches"])
        yield


async def next_given(s: Stage) -> None:
    s.start(lambda: s.bob.multicast("batches", b"x"))
    await s.batches.receive(ENDLESS_S)


BATCHES: Final = Scene(
    a_reader_of_batches,
    {
        "committed": Row(
            call=lambda s: committed(s.form.bare(s.ann), ["batches"]),
            large=NO_SIZE,
            wrong=(Refused(lambda s: committed(s.form.bare(s.ann), 7), "7 is no group"),),  # type: ignore[arg-type]
            raising=NO_FUNCTION,
            slow=NOT_WAITING,
            cancelled=NOT_WAITING,
            forked="it does nothing; the calls of what it makes tell",
        ),
        "Committed.receive": Row(
            call=next_given,
            large="one may wait as long as one likes",
            wrong=(Refused(lambda s: s.batches.receive("soon"), NO_NUMBER),),
            raising=NO_FUNCTION,
            slow=lambda s: nothing_is_given(s.batches.receive),
            forked_call=lambda s: s.batches.receive(),
        ),
    },
)
