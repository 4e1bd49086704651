"""The rows of ready objects, and of messages that are kept."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from groupcomm_client.history.keeping import NotKept
from tests.groupcomm_client.calls.rows_connection import LONG, TOO_LONG
from tests.groupcomm_client.calls.rows_coordination import (
    NO_COUNT,
    alone,
    long_group,
    of_groups,
)
from tests.groupcomm_client.calls.stage import Stage
from tests.groupcomm_client.calls.table import (
    NO_ARGUMENTS,
    NO_FUNCTION,
    NO_SIZE,
    NOT_WAITING,
    Refused,
    Row,
    Scene,
)

HERE: Final = "it reads what is here"
MANY: Final = 67_107_841
"""More bytes than a command may have."""


@asynccontextmanager
async def ready_objects(s: Stage) -> AsyncIterator[None]:
    async with (
        s.connect() as first,
        s.connect() as second,
        s.connect() as third,
        s.connect() as fourth,
        s.connect() as fifth,
        s.co.open_dict(first, s.fresh(), bytes) as s.dict,
        s.co.open_counter(second, s.fresh()) as s.number,
        s.co.open_latch(third, s.fresh(), 1) as s.latch,
        s.co.open_queue(fourth, s.fresh(), bytes) as s.queue,
        s.co.open_semaphore(fifth, s.fresh(), 1) as s.semaphore,
    ):
        for each in (s.dict, s.number, s.latch, s.queue, s.semaphore):
            await s.done(each.until_current())
        await s.done(s.dict.put("x", b"1"))
        await s.done(s.number.add())
        await s.done(s.latch.count_down())
        yield


def opened(part: str, *more: Any) -> Row:
    return Row(
        call=alone(part, *more),
        large=long_group(part, *more),
        wrong=(
            *of_groups(part, *more),
            Refused(alone(part, *more, replicas="all"), f"replicas {NO_COUNT}"),
        ),
        raising=NO_FUNCTION,
        forked_call=lambda s: getattr(s.co, part)(s.ann, "x", *more),
    )


def without_arguments(
    call: Callable[[Stage], Any], forked: Callable[[Stage], Any] | None = None
) -> Row:
    return Row(
        call=call,
        large=NO_ARGUMENTS,
        wrong=NO_ARGUMENTS,
        raising=NO_FUNCTION,
        forked_call=forked,
    )


def until_current(name: str) -> Row:
    return without_arguments(lambda s: getattr(s, name).until_current())


def reads(call: Callable[[Stage], Any]) -> Row:
    return Row(
        call=call,
        large=NO_SIZE,
        wrong="a key of another type is no key of it",
        raising=NO_FUNCTION,
        slow=NOT_WAITING,
        cancelled=NOT_WAITING,
        forked=HERE,
    )


async def put_and_get(s: Stage) -> None:
    await s.done(s.queue.put(b"x"))
    await s.done(s.queue.get())


OBJECTS: Final = Scene(
    ready_objects,
    {
        "open_dict": opened("open_dict", bytes),
        "open_counter": opened("open_counter"),
        "open_latch": opened("open_latch", 1),
        "open_queue": opened("open_queue", bytes),
        "open_semaphore": opened("open_semaphore", 1),
        "ReplicatedDict.until_current": until_current("dict"),
        "ReplicatedDict.get": reads(lambda s: s.dict.get("x")),
        "ReplicatedDict.entry": reads(lambda s: s.dict.entry("x")),
        "ReplicatedDict.copy": reads(lambda s: s.dict.copy()),
        "ReplicatedDict.watch": reads(lambda s: s.dict.watch()),
        "ReplicatedDict.put": Row(
            call=lambda s: s.dict.put("x", b"2"),
            large=(
                Refused(lambda s: s.dict.put("x", bytes(MANY)), "the command has 6710.* bytes"),
            ),
            wrong=(
                Refused(lambda s: s.dict.put("x", 7), "7 is no bytes"),
                Refused(lambda s: s.dict.put(7, b"x"), "the key is 7; write text"),
                Refused(lambda s: s.dict.put("x", b"x", version="1"), "version is '1'"),
            ),
            raising=NO_FUNCTION,
        ),
        "ReplicatedDict.delete": Row(
            call=lambda s: s.dict.delete("y"),
            large=NO_SIZE,
            wrong=(
                Refused(lambda s: s.dict.delete(7), "the key is 7; write text"),
                Refused(lambda s: s.dict.delete("x", version="1"), "version is '1'"),
            ),
            raising=NO_FUNCTION,
        ),
        "ReplicatedCounter.until_current": until_current("number"),
        "ReplicatedCounter.add": Row(
            call=lambda s: s.number.add(1),
            large=(Refused(lambda s: s.number.add(2**63), "write one of 64 bits"),),
            wrong=(Refused(lambda s: s.number.add("x"), "the number is 'x'"),),
            raising=NO_FUNCTION,
        ),
        "ReplicatedCounter.until_changed": Row(
            call=lambda s: s.number.until_changed(0),
            large=NO_SIZE,
            wrong="whatever it takes is compared with the value",
            raising=NO_FUNCTION,
        ),
        "ReplicatedLatch.until_current": until_current("latch"),
        "ReplicatedLatch.count_down": without_arguments(lambda s: s.latch.count_down()),
        "ReplicatedLatch.until_open": without_arguments(lambda s: s.latch.until_open()),
        "ReplicatedQueue.until_current": until_current("queue"),
        "ReplicatedQueue.put": Row(
            call=lambda s: s.queue.put(b"x"),
            large=(Refused(lambda s: s.queue.put(bytes(MANY)), "the command has 6710.* bytes"),),
            wrong=(Refused(lambda s: s.queue.put(7), "7 is no bytes"),),
            raising=NO_FUNCTION,
        ),
        "ReplicatedQueue.get": without_arguments(put_and_get, lambda s: s.queue.get()),
        "ReplicatedSemaphore.until_current": until_current("semaphore"),
        "ReplicatedSemaphore.permit": Row(
            call=lambda s: s.semaphore.permit(),
            large=NO_ARGUMENTS,
            wrong=NO_ARGUMENTS,
            raising="the error of its block: coordination/test_objects.py",
        ),
    },
)

# ---- messages that are kept ----


@asynccontextmanager
async def a_kept_sender(s: Stage) -> AsyncIterator[None]:
    async with s.connect() as own, own.keeping() as s.kept:
        yield


@asynccontextmanager
async def kept_alone(s: Stage) -> AsyncIterator[None]:
    async with s.connect() as own, own.keeping():
        yield


async def keep(s: Stage, **options: Any) -> None:
    """No archive is there, so what is right ends with the error that says so."""
    given = {"groups": "x", "data": b"x", "within_s": 0.05, **options}
    try:
        await s.done(s.kept.multicast(given.pop("groups"), given.pop("data"), **given))
    except NotKept:
        return
    raise AssertionError("nobody keeps it")


KEPT: Final = Scene(
    a_kept_sender,
    {
        "Connection.keeping": without_arguments(kept_alone, lambda s: s.ann.keeping()),
        "KeptSender.multicast": Row(
            call=keep,
            large=(
                Refused(lambda s: keep(s, groups=LONG), TOO_LONG),
                Refused(lambda s: keep(s, data=bytes(MANY + 1024)), "at most"),
                Refused(lambda s: keep(s, type=65_536), "65536"),
            ),
            wrong=(
                Refused(lambda s: keep(s, groups=7), "7 is no group"),
                Refused(lambda s: keep(s, data="text"), "str"),
                Refused(lambda s: keep(s, copies="all"), f"copies {NO_COUNT}"),
                Refused(lambda s: keep(s, within_s="x"), "within_s is 'x'; write a number"),
            ),
            raising=NO_FUNCTION,
            forked_call=lambda s: s.kept.multicast("x", b"x"),
        ),
    },
)
