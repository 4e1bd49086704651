"""The rows of connections: opening, groups, messages, events."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from groupcomm.errors import ConfigError
from groupcomm.events import Message
from groupcomm_client import ConnectOptions, ServiceLevel, SharedSecret
from groupcomm_client.filters import Filter, Manager, Path
from tests.groupcomm_client.calls.stage import GROUP, PATIENCE_S, Stage
from tests.groupcomm_client.calls.table import (
    NO_ARGUMENTS,
    NO_FUNCTION,
    NOT_WAITING,
    Refused,
    Row,
    Scene,
)

LONG: Final = "x" * 256
LARGE: Final = bytes(64 * 2**20 + 1)
TOO_LONG: Final = "of 256 bytes is too long; 255 are allowed"
TOO_LARGE: Final = "67108865 bytes; at most 67(108864|043328)"  # the latter with filters
NO_NUMBER: Final = "timeout_s is 'soon'; write a number of seconds"
ENDLESS_S: Final = 1e300
OWN: Final = "it opens a session of the process's own, or ends one: test_forks.py"


@asynccontextmanager
async def only_the_stage(s: Stage) -> AsyncIterator[None]:
    yield


def sends(name: str) -> Any:
    """Rows that are alike: calls that send one message."""
    return Row(
        call=lambda s: getattr(s.ann, name)(GROUP, b"x"),
        large=(
            Refused(lambda s: getattr(s.ann, name)(GROUP, LARGE), TOO_LARGE),
            Refused(lambda s: getattr(s.ann, name)(LONG, b""), TOO_LONG),
            Refused(lambda s: getattr(s.ann, name)([GROUP] * 256, b""), "256 destin.*most 255"),
            Refused(lambda s: getattr(s.ann, name)(GROUP, b"", type=65536), "65536.* 0 to 65535"),
        ),
        wrong=(
            Refused(lambda s: getattr(s.ann, name)(7, b""), "7 is not a destination"),
            Refused(lambda s: getattr(s.ann, name)([GROUP, 7], b""), "not a destination"),
            Refused(lambda s: getattr(s.ann, name)(GROUP, "text"), "messages are bytes"),
            Refused(lambda s: getattr(s.ann, name)(GROUP, None), "of type NoneType; write bytes"),
            Refused(lambda s: getattr(s.ann, name)(GROUP, b"", type=1.5), "type is 1.5"),
            Refused(lambda s: getattr(s.ann, name)(GROUP, b"", level=1.0), "level is 1.0"),
            Refused(lambda s: getattr(s.ann, name)(GROUP, b"", level="SAFE"), "ServiceLevel.SAFE"),
        ),
        raising=NO_FUNCTION,
    )


def receives(name: str) -> Any:
    """Rows that are alike: calls that receive, for as long as one likes."""

    async def call(s: Stage) -> None:
        s.start(lambda: s.bob.multicast(GROUP, b"x"))
        await getattr(s.ann, name)(ENDLESS_S)

    async def in_vain(s: Stage) -> None:
        await s.goes_on()
        s.ann.pop_waiting() if not s.form.blocks else await s.ann.pop_waiting()
        for timeout_s in (-1, 0, 0.01):
            with pytest.raises(TimeoutError, match="no event has arrived in"):
                await getattr(s.ann, name)(timeout_s)

    return Row(
        call=call,
        large="one may wait as long as one likes",
        wrong=(
            Refused(lambda s: getattr(s.ann, name)("soon"), NO_NUMBER),
            Refused(lambda s: getattr(s.ann, name)(float("nan")), "timeout_s is nan"),
        ),
        raising=NO_FUNCTION,
        slow=in_vain,
    )


async def join_in_each_way(s: Stage) -> None:
    for minority in ("deliver", "pause", "leave"):
        await s.ann.join(s.fresh(), minority=minority)


async def join_and_leave(s: Stage) -> None:
    name = s.fresh()
    await s.ann.join(name)
    await s.ann.leave(name)


async def next_message(s: Stage) -> None:
    await s.ann.multicast(GROUP, b"x")
    await anext(s.form.bare(s.ann).messages())


async def join_and_rekey(s: Stage) -> None:
    name = s.fresh()
    await s.ann.join(name, secret=SharedSecret(bytes(32)))
    await s.ann.rekey(name)


async def open_and_close(s: Stage) -> None:
    async with s.connect() as connection:
        await connection.aclose()


async def open_and_break_off(s: Stage) -> None:
    async with s.connect() as connection:
        await s.done(connection.close_socket())


async def what_makes_messages_raises(s: Stage) -> None:
    def made() -> Iterator[bytes]:
        yield b"the first"
        raise ValueError("there is no second")

    with pytest.raises(ValueError, match="no second"):
        await s.ann.multicast_many(GROUP, made())
    while True:
        event = await s.bob.receive(PATIENCE_S)
        if isinstance(event, Message) and event.data == b"the first":
            return


class Failing(Manager):
    """The manager of a filter, whose every call fails."""

    def notified(self, event: Any, path: Path) -> None:
        raise ValueError("it has failed")

    def sent(self, message: Any, number: int, path: Path) -> None:
        raise ValueError("it has failed")


def no_filter() -> Filter:
    raise ValueError("there is no filter")


async def what_makes_filters_raises(s: Stage) -> None:
    with pytest.raises(ValueError, match="no filter"):
        await s.done(s.ann.set_filters([no_filter]))
    await s.done(s.ann.set_filters([lambda: Filter("fails", manager=Failing())]))
    await s.ann.join(s.fresh())  # from its view on they are in use
    await s.goes_on()
    await s.done(s.ann.set_filters([]))
    await s.ann.join(s.fresh())


async def filters_of_a_connection_raise(s: Stage) -> None:
    with pytest.raises(ValueError, match="no filter"):
        async with s.connect(options=ConnectOptions(filters=[no_filter])):
            pass


def options(error: str, **given: Any) -> Refused:
    return Refused(lambda s: s.connect(options=ConnectOptions(**given)), error, ConfigError)


CONNECTIONS: Final = Scene(
    only_the_stage,
    {
        "connect": Row(
            call=lambda s: s.connect(),
            large=(Refused(lambda s: s.connect(user=LONG), TOO_LONG),),
            wrong=(
                Refused(lambda s: s.connect(user=7), "user is of type int"),
                Refused(lambda s: s.form.connect(7), "address is of type int"),
                Refused(lambda s: s.connect(options=7), "options is of type int"),
                Refused(lambda s: s.connect(tls="token"), "tls is of type str"),
                Refused(lambda s: s.connect(reconnect=True, resume=7), "resume is 7"),
                options("timeout_s is 'soon'", timeout_s="soon"),
                options("daemon_timeout_s is 'x'", daemon_timeout_s="x"),
                options("trace is 7", trace=7),
                options("filters is 7", filters=7),
                options(r"filters is \[7\]", filters=[7]),
                options("has made 7", filters=[lambda: 7]),
            ),
            raising=filters_of_a_connection_raise,
            forked=OWN,
        ),
        "Connection.aclose": Row(
            call=open_and_close,
            large=NO_ARGUMENTS,
            wrong=NO_ARGUMENTS,
            raising=NO_FUNCTION,
            forked=OWN,
        ),
        "Connection.close_socket": Row(
            call=open_and_break_off,
            large=NO_ARGUMENTS,
            wrong=NO_ARGUMENTS,
            raising=NO_FUNCTION,
            forked=OWN,
        ),
        "Connection.ask": Row(
            call=lambda s: s.ann.ask("name"),
            large=(Refused(lambda s: s.ann.ask("x" * 10**5), "100000 bytes; at most 66559"),),
            wrong=(
                Refused(lambda s: s.ann.ask(7), "a question is 7; write a text"),
                Refused(lambda s: s.ann.ask("\ud800"), "a question is .* write a text"),
            ),
            raising=NO_FUNCTION,
        ),
        "Connection.join": Row(
            call=join_in_each_way,
            large=(Refused(lambda s: s.ann.join(LONG), TOO_LONG),),
            wrong=(
                Refused(lambda s: s.ann.join(7), "group name is 7, which is no text"),
                Refused(lambda s: s.ann.join("h", secret=7), "the secret is of type int"),
                Refused(lambda s: s.ann.join("h", minority="stay"), "minority is 'stay'"),
            ),
            raising="what it takes is the user's own if it is a GroupSecret",
        ),
        "Connection.leave": Row(
            call=join_and_leave,
            large=(Refused(lambda s: s.ann.leave(LONG), TOO_LONG),),
            wrong=(
                Refused(lambda s: s.ann.leave(7), "group name is 7"),
                Refused(lambda s: s.ann.leave(["h"]), "group name is .'h'."),
            ),
            raising=NO_FUNCTION,
        ),
        "Connection.group": Row(
            call=lambda s: s.ann.group(s.fresh()),
            large=(Refused(lambda s: s.ann.group(LONG), TOO_LONG),),
            wrong=(Refused(lambda s: s.ann.group(7), "group name is 7"),),
            raising=NO_FUNCTION,
        ),
        "Connection.request_membership": Row(
            call=lambda s: s.ann.request_membership(s.fresh(), join=True),
            large=(Refused(lambda s: s.ann.request_membership(LONG, join=True), TOO_LONG),),
            wrong=(
                Refused(lambda s: s.ann.request_membership(7, join=True), "group name is 7"),
                Refused(lambda s: s.ann.request_membership(["h"], join=False), "group name is"),
            ),
            raising=NO_FUNCTION,
        ),
        "Connection.multicast": sends("multicast"),
        "Connection.multicast_ordered": sends("multicast_ordered"),
        "Connection.multicast_many": Row(
            call=lambda s: s.ann.multicast_many(GROUP, [b"x"] * 3),
            large=(
                Refused(lambda s: s.ann.multicast_many(GROUP, [b"x", LARGE]), TOO_LARGE),
                Refused(lambda s: s.ann.multicast_many(LONG, [b""]), TOO_LONG),
            ),
            wrong=(
                Refused(lambda s: s.ann.multicast_many(GROUP, 7), "messages is 7"),
                Refused(lambda s: s.ann.multicast_many(GROUP, [7]), "of type int; write bytes"),
                Refused(lambda s: s.ann.multicast_many(GROUP, b"xyz"), "of type int; write bytes"),
                Refused(lambda s: s.ann.multicast_many(GROUP, [[7]]), "of type list; write bytes"),
                Refused(lambda s: s.ann.multicast_many(GROUP, iter([7])), "of type int"),
                Refused(
                    lambda s: s.ann.multicast_many(GROUP, [b""], level=ServiceLevel), "level is"
                ),
            ),
            raising=what_makes_messages_raises,
        ),
        "Connection.flush": Row(
            call=lambda s: s.ann.flush(),
            large=NO_ARGUMENTS,
            wrong=NO_ARGUMENTS,
            raising=NO_FUNCTION,
        ),
        "Connection.receive": receives("receive"),
        "Connection.receive_batch": receives("receive_batch"),
        "Connection.pop_waiting": Row(
            call=lambda s: s.ann.pop_waiting(),
            large=NO_ARGUMENTS,
            wrong=NO_ARGUMENTS,
            raising=NO_FUNCTION,
            slow=NOT_WAITING,
            cancelled=NOT_WAITING,
            forked="it returns nothing there",
        ),
        "Connection.messages": Row(
            call=next_message,
            large=NO_ARGUMENTS,
            wrong=NO_ARGUMENTS,
            raising=NO_FUNCTION,
        ),
        # Last, as messages go another way from here on: filtered and sealed.
        "Connection.rekey": Row(
            call=join_and_rekey,
            large=(Refused(lambda s: s.ann.rekey(LONG), "has not joined"),),
            wrong=(Refused(lambda s: s.ann.rekey(["h"]), "has not joined"),),
            raising=NO_FUNCTION,
        ),
        "Connection.set_filters": Row(
            call=lambda s: s.ann.set_filters([]),
            large="the number of chains: filters/test_filtering.py",
            wrong=(
                Refused(lambda s: s.ann.set_filters(7), "filters is 7", ConfigError),
                Refused(lambda s: s.ann.set_filters([7]), "filters is .7.", ConfigError),
                Refused(lambda s: s.ann.set_filters([lambda: 7]), "has made 7", ConfigError),
            ),
            raising=what_makes_filters_raises,
            slow=NOT_WAITING,
            cancelled=NOT_WAITING,
        ),
    },
)
