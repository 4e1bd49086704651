"""The rows of coordination: requests, mutexes, elections, replicas."""

import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from groupcomm.errors import ConfigError
from groupcomm.events import MemberId
from groupcomm.level import ServiceLevel
from groupcomm_client.coordination import CallFailed, NoReply, Request
from groupcomm_client.coordination.limits import MAX_DATA_BYTES
from tests.groupcomm_client.calls.rows_connection import LONG, TOO_LONG
from tests.groupcomm_client.calls.stage import MOMENT_S, Stage
from tests.groupcomm_client.calls.table import (
    FOR_EVER,
    NO_ARGUMENTS,
    NO_FUNCTION,
    Refused,
    Row,
    Scene,
)

LARGE: Final = bytes(MAX_DATA_BYTES + 1)
TOO_LARGE: Final = "has 67107841 bytes; at most 67107840"
NO_BYTES: Final = "is of type str; it must be bytes"
IN_SERVER: Final = "what a handler does is told to the caller: see Caller.call"
NO_COUNT: Final = "is 'all'; write a number from 1 to"


def alone(part: str, *more: Any, **options: Any) -> Callable[[Stage], Any]:
    """A call that is a block on a connection of its own: `part` of coordination, in a group."""

    @asynccontextmanager
    async def block(s: Stage) -> AsyncIterator[None]:
        given = {**options}
        group = given.pop("group", None) or s.fresh()
        async with (
            s.connect() as connection,
            getattr(s.co, part)(connection, group, *more, **given),
        ):
            yield

    return block


def of_groups(part: str, *more: Any) -> tuple[Refused, ...]:
    """Wrong names of the group that a part is for."""
    return (Refused(alone(part, *more, group=7), "group name is 7, which is no text"),)


def long_group(part: str, *more: Any) -> tuple[Refused, ...]:
    return (Refused(alone(part, *more, group=LONG), TOO_LONG),)


# ---- requests ----

SERVED: Final = "loud"


@asynccontextmanager
async def a_server_and_a_caller(s: Stage) -> AsyncIterator[None]:
    s.is_slow, closed = s.loop.event(), io.StringIO()
    closed.close()  # as a terminal that has gone

    async def handle(request: Request) -> Any:
        if request.data == b"raise":
            raise ValueError("not this one")
        if request.data == b"print":
            print("served", file=closed)
        if request.data == b"slow":
            await s.is_slow.wait()
        return {b"text": "text", b"large": LARGE}.get(request.data, request.data.upper())

    async def serve() -> None:
        await s.co.serve(serving, SERVED, s.form.function(handle))

    async with (
        s.connect() as serving,
        s.connect() as s.spare,
        s.connect() as own,
        s.loop.tasks() as tasks,
        s.co.calling(own) as s.caller,
    ):
        tasks.start(serve)
        while not (await s.ann.ask(f"members {SERVED}"))["members"]:
            await s.loop.sleep(MOMENT_S)
        try:
            yield
        finally:
            s.is_slow.set()


def call_row(name: str, failed: Callable[[Any], str]) -> Row:
    """Rows that are alike: requests to one server, or to all."""

    def call(s: Stage, data: Any = b"x", group: Any = SERVED, timeout_s: Any = 10.0) -> Any:
        return getattr(s.caller, name)(group, data, timeout_s=timeout_s)

    async def a_handler_fails(s: Stage) -> None:
        for data, text in (
            (b"raise", "ValueError: not this one"),
            (b"print", "ValueError: I/O operation on closed file"),
            (b"text", "the reply is of type str; it must be bytes"),
            (b"large", f"the reply {TOO_LARGE}"),
        ):
            assert text in await told(s, data)

    async def told(s: Stage, data: bytes) -> str:
        try:
            return failed(await call(s, data))
        except CallFailed as error:
            return str(error)

    async def a_handler_is_slow(s: Stage) -> None:
        with pytest.raises(NoReply, match=r"no reply of group 'loud' came in 0.01 s"):
            await call(s, b"slow", timeout_s=0.01)
        await call(s)

    return Row(
        call=call,
        large=(
            Refused(lambda s: call(s, LARGE), f"the request {TOO_LARGE}"),
            Refused(lambda s: call(s, group=LONG), TOO_LONG),
        ),
        wrong=(
            Refused(lambda s: call(s, "text"), f"the request {NO_BYTES}"),
            Refused(lambda s: call(s, group=7), "group name is 7"),
            Refused(lambda s: call(s, timeout_s="soon"), "timeout_s is 'soon'"),
        ),
        raising=a_handler_fails,
        slow=a_handler_is_slow,
    )


async def serve_for_a_moment(s: Stage) -> None:
    async def handle(request: Request) -> bytes:
        return b""

    async def serve() -> None:
        await s.co.serve(s.spare, "spare", s.form.function(handle))

    assert not await s.loop.timeout(MOMENT_S, serve)
    await s.spare.ask("name")  # its session goes on


REQUESTS: Final = Scene(
    a_server_and_a_caller,
    {
        "Caller.call": call_row("call", lambda reply: f"{reply!r}"),
        "Caller.call_all": call_row("call_all", lambda replies: f"{replies.failed}"),
        "calling": Row(
            call=lambda s: s.co.calling(s.spare),
            large="it takes a connection",
            wrong="it takes a connection",
            raising=NO_FUNCTION,
        ),
        "serve": Row(
            call=serve_for_a_moment,
            large=(Refused(lambda s: s.co.serve(s.spare, LONG, repr), TOO_LONG),),
            wrong=(
                Refused(lambda s: s.co.serve(s.spare, 7, repr), "group name is 7"),
                Refused(lambda s: s.co.serve(s.spare, "spare", 7), "handler is 7; write a func"),
            ),
            raising=IN_SERVER,
            slow=IN_SERVER,
            cancelled=FOR_EVER,
            forked_call=lambda s: s.co.serve(s.spare, "x", repr),
        ),
    },
)

# ---- mutexes ----


@asynccontextmanager
async def a_mutex_and_its_resource(s: Stage) -> AsyncIterator[None]:
    s.used = []
    async with (
        s.connect() as keeping,
        s.connect() as own,
        s.co.keep_resource(keeping, "press", lambda _, data: s.used.append(data)),
        s.co.join_mutex(own, "press") as s.mutex,
    ):
        yield


async def enter(s: Stage) -> None:
    async with s.mutex:
        assert s.mutex.holds


async def use_it(s: Stage, data: Any = b"x") -> None:
    async with s.mutex:
        await s.co.use(s.mutex, data)


async def the_block_raises(s: Stage) -> None:
    with pytest.raises(ValueError, match="in the block"):
        async with s.mutex:
            raise ValueError("in the block")


async def fails(block: Callable[[], Any], text: str, ended: Any) -> None:
    """Run a block that must end by an error of the user's function."""
    with pytest.raises(ValueError, match=text):
        await block()
    ended.set()


async def the_resource_raises(s: Stage) -> None:
    """It ends the resource's own block, with its error; the holder goes on."""

    def fail(member: MemberId, data: bytes) -> None:
        raise ValueError("out of paper")

    async def keep() -> None:
        async with s.connect() as connection, s.co.keep_resource(connection, "jam", fail):
            begun.set()
            await s.loop.event().wait()

    begun, ended = s.loop.event(), s.loop.event()
    s.start(lambda: fails(keep, "out of paper", ended))
    await begun.wait()
    async with s.connect() as connection, s.co.join_mutex(connection, "jam") as mutex:
        async with mutex:
            await s.co.use(mutex, b"x")
            await ended.wait()
        async with mutex:
            assert mutex.holds


MUTEXES: Final = Scene(
    a_mutex_and_its_resource,
    {
        "join_mutex": Row(
            call=alone("join_mutex"),
            large=long_group("join_mutex"),
            wrong=(
                *of_groups("join_mutex"),
                Refused(alone("join_mutex", form=7), "form is 7; it must be one of", ConfigError),
                Refused(alone("join_mutex", programs="all"), f"programs {NO_COUNT}"),
                Refused(alone("join_mutex", programs=-1), "programs is -1; write a number from 1"),
            ),
            raising=NO_FUNCTION,
            forked_call=lambda s: s.co.join_mutex(s.ann, "x"),
        ),
        "Mutex": Row(call=enter, large=NO_ARGUMENTS, wrong=NO_ARGUMENTS, raising=the_block_raises),
        "use": Row(
            call=use_it,
            large=(Refused(lambda s: use_it(s, LARGE), f"the use {TOO_LARGE}"),),
            wrong=(
                Refused(lambda s: use_it(s, "text"), f"the use {NO_BYTES}"),
                Refused(lambda s: use_it(s, None), "the use is of type NoneType"),
            ),
            raising="what the resource does with it is the resource's: see keep_resource",
        ),
        "keep_resource": Row(
            call=alone("keep_resource", print),
            large=long_group("keep_resource", print),
            wrong=(
                *of_groups("keep_resource", print),
                Refused(alone("keep_resource", 7), "on_use is 7; write a function"),
                Refused(alone("keep_resource", print, programs=0), "programs is 0; write a number"),
            ),
            raising=the_resource_raises,
            forked_call=lambda s: s.co.keep_resource(s.ann, "x", print),
        ),
    },
)

# ---- elections ----


@asynccontextmanager
async def a_candidate(s: Stage) -> AsyncIterator[None]:
    async with s.connect() as own, s.co.stand(own, "leaders") as s.election:
        yield


async def the_leader_raises(s: Stage) -> None:
    with pytest.raises(ValueError, match="in the block"):
        async with s.election.leading():
            raise ValueError("in the block")


ELECTIONS: Final = Scene(
    a_candidate,
    {
        "stand": Row(
            call=alone("stand"),
            large=long_group("stand"),
            wrong=(
                *of_groups("stand"),
                Refused(alone("stand", candidates="all"), f"candidates {NO_COUNT}"),
                Refused(alone("stand", candidates=0), "candidates is 0; write a number from 1"),
            ),
            raising=NO_FUNCTION,
            forked_call=lambda s: s.co.stand(s.ann, "x"),
        ),
        "Election.leading": Row(
            call=lambda s: s.election.leading(),
            large=NO_ARGUMENTS,
            wrong=NO_ARGUMENTS,
            raising=the_leader_raises,
        ),
        "Election.until_leading": Row(
            call=lambda s: s.election.until_leading(),
            large=NO_ARGUMENTS,
            wrong=NO_ARGUMENTS,
            raising=NO_FUNCTION,
        ),
        "Election.until_changed": Row(
            call=lambda s: s.election.until_changed(None),
            large=NO_ARGUMENTS,
            wrong="whatever it takes is compared with the leader",
            raising=NO_FUNCTION,
        ),
    },
)

# ---- replicas ----


class Counter:
    """A counter; `broken` is the command at which it fails."""

    def __init__(self, broken: bytes = b"") -> None:
        self.count = 0
        self.broken = broken

    def apply(self, command: bytes, sender: MemberId) -> int:
        if command == self.broken:
            raise ValueError("it has broken")
        self.count += 1
        return self.count

    def members_changed(self, members: tuple[MemberId, ...]) -> None:
        """Nothing depends on them."""

    def snapshot(self) -> bytes:
        return b"%d" % self.count

    def restore(self, state: bytes) -> None:
        self.count = int(state)


@asynccontextmanager
async def a_replica(s: Stage) -> AsyncIterator[None]:
    async with s.connect() as own, s.co.replicate(own, "counter", Counter()) as s.counter:
        await s.counter.until_current()
        yield


async def the_machine_raises(s: Stage) -> None:
    """It ends the block of its own program; the other replica goes on."""

    async def replicate() -> None:
        async with s.connect() as own, s.co.replicate(own, "counter", Counter(b"break")) as other:
            await other.until_current()
            begun.set()
            await s.loop.event().wait()

    begun, ended = s.loop.event(), s.loop.event()
    s.start(lambda: fails(replicate, "it has broken", ended))
    await begun.wait()
    await s.counter.submit(b"break")
    await ended.wait()


REPLICAS: Final = Scene(
    a_replica,
    {
        "replicate": Row(
            call=alone("replicate", Counter()),
            large=long_group("replicate", Counter()),
            wrong=(
                *of_groups("replicate", Counter()),
                Refused(alone("replicate", 7), "machine.apply is None; write a function"),
                Refused(alone("replicate", Counter(), replicas="all"), f"replicas {NO_COUNT}"),
            ),
            raising="a snapshot that fails: coordination/test_user_code.py",
            forked_call=lambda s: s.co.replicate(s.ann, "x", Counter()),
        ),
        "Replicated.submit": Row(
            call=lambda s: s.counter.submit(b"x"),
            large=(Refused(lambda s: s.counter.submit(LARGE), f"the command {TOO_LARGE}"),),
            wrong=(
                Refused(lambda s: s.counter.submit("text"), f"the command {NO_BYTES}"),
                Refused(
                    lambda s: s.counter.submit(b"x", level=ServiceLevel.FIFO),
                    "level is .*FIFO.*write ServiceLevel.SAFE, or AGREED",
                ),
                Refused(lambda s: s.counter.submit(b"x", level="SAFE"), "level is 'SAFE'"),
            ),
            raising=the_machine_raises,
        ),
        "Replicated.until_current": Row(
            call=lambda s: s.counter.until_current(),
            large=NO_ARGUMENTS,
            wrong=NO_ARGUMENTS,
            raising=NO_FUNCTION,
        ),
    },
)
