"""The rows of Spread's functions, for threads, and of direct peers, for trio."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from groupcomm.errors import ConfigError
from groupcomm_client.spread_api import (
    AGREED_MESS,
    SP_connect,
    SP_connect_timeout,
    SP_disconnect,
    SP_join,
    SP_kill,
    SP_leave,
    SP_multicast,
    SP_multigroup_multicast,
    SP_multigroup_scat_multicast,
    SP_poll,
    SP_receive,
    SP_scat_multicast,
    SP_scat_receive,
    SpreadError,
)
from groupcomm_client.spread_api.constants import Is_reg_memb_mess
from groupcomm_client.spread_api.flush import (
    FL_connect,
    FL_disconnect,
    FL_flush,
    FL_join,
    FL_leave,
    FL_more_msgs,
    FL_multicast,
    FL_poll,
    FL_receive,
    FL_scat_multicast,
    FL_scat_receive,
    FL_scat_subgroupcast,
    FL_scat_unicast,
    FL_subgroupcast,
    FL_unicast,
    Is_flush_req_mess,
)
from groupcomm_lessons import direct
from tests.groupcomm_client.calls.rows_connection import LARGE, LONG, OWN, TOO_LARGE, TOO_LONG
from tests.groupcomm_client.calls.stage import PATIENCE_S, Stage
from tests.groupcomm_client.calls.table import (
    NO_ARGUMENTS,
    NO_FUNCTION,
    NO_SIZE,
    NOT_WAITING,
    Refused,
    Row,
    Scene,
)

GROUP: Final = "spread"

SEVEN: Final[Any] = 7
TEXT: Final[Any] = "x"
LIST: Final[Any] = []


def refused(code: int, text: str, call: Callable[[Any], Any]) -> Refused:
    """A call that raises SpreadError with a number."""
    return Refused(call, rf"\({code}\): .*{text}", SpreadError)


def row(
    call: Any,
    large: Any = NO_SIZE,
    wrong: Any = NO_ARGUMENTS,
    forked: Any = SpreadError,
    **more: Any,
) -> Row:
    return Row(
        call=call,
        large=large,
        wrong=(wrong,) if isinstance(wrong, Refused) else wrong,
        raising=NO_FUNCTION,
        forked=forked,
        **more,
    )


# ---- Spread's functions ----


@asynccontextmanager
async def a_mailbox(s: Stage) -> AsyncIterator[None]:
    s.mbox, _ = SP_connect(s.address)
    SP_join(s.mbox, GROUP)
    try:
        yield
    finally:
        SP_disconnect(s.mbox)


def open_and(end: Callable[[int], None]) -> Callable[[Stage], None]:
    def call(s: Stage) -> None:
        end(SP_connect(s.address)[0])

    return call


def connect_in(s: Stage, time_out: Any) -> None:
    SP_disconnect(SP_connect_timeout(s.address, "", 0, True, time_out)[0])


def receive(s: Stage) -> None:
    SP_multicast(s.mbox, AGREED_MESS, GROUP, 0, b"x")
    assert SP_receive(s.mbox, PATIENCE_S) is not None


def receive_pieces(s: Stage, sizes: Any = (1, 2)) -> None:
    SP_multicast(s.mbox, AGREED_MESS, GROUP, 0, b"x")
    assert SP_scat_receive(s.mbox, sizes, PATIENCE_S) is not None


async def nothing_comes(s: Stage) -> None:
    while SP_receive(s.mbox, 0.01) is not None:
        continue
    assert SP_receive(s.mbox, -1) is None


def multicasts(send: Any, groups: Any, wrap: Any) -> Row:
    """Rows that are alike: the four ways to send."""

    def call(
        s: Stage, data: Any = b"x", to: Any = GROUP, kind: Any = 0, service: Any = None
    ) -> Any:
        return send(s.mbox, service or AGREED_MESS, groups(to), kind, wrap(data))

    return row(
        call,
        (
            refused(-17, TOO_LARGE, lambda s: call(s, LARGE)),
            refused(-14, TOO_LONG, lambda s: call(s, to=LONG)),
            refused(-13, "type is 70000", lambda s: call(s, kind=70_000)),
        ),
        (
            refused(-13, "bytes", lambda s: call(s, 7)),
            refused(-13, "bytes", lambda s: call(s, "text")),
            refused(-13, "mess_type is 1.5", lambda s: call(s, kind=1.5)),
            refused(-14, "destination", lambda s: call(s, to=7)),
            refused(-12, "service type 'x'", lambda s: call(s, service="x")),
            refused(-11, "mailbox", lambda s: send([], AGREED_MESS, groups(GROUP), 0, wrap(b""))),
        ),
    )


def one(given: Any) -> Any:
    return given


def several(given: Any) -> Any:
    return [given]


SPREAD: Final = Scene(
    a_mailbox,
    {
        "SP_connect": row(
            open_and(SP_disconnect),
            (refused(-5, TOO_LONG, lambda s: SP_connect(s.address, LONG)),),
            refused(-1, "7", lambda s: SP_connect(SEVEN)),
            OWN,
        ),
        "SP_connect_timeout": row(
            lambda s: connect_in(s, 10.0),
            wrong=refused(-1, "timeout_s is 'x'", lambda s: connect_in(s, "x")),
            forked=OWN,
        ),
        "SP_disconnect": row(
            open_and(SP_disconnect),
            wrong=refused(-11, "x", lambda s: SP_disconnect(TEXT)),
            forked=OWN,
        ),
        "SP_kill": row(
            open_and(SP_kill), wrong=refused(-11, "mailbox", lambda s: SP_kill(LIST)), forked=OWN
        ),
        "SP_join": row(
            lambda s: SP_join(s.mbox, s.fresh()),
            (refused(-14, TOO_LONG, lambda s: SP_join(s.mbox, LONG)),),
            refused(-14, "group name is 7", lambda s: SP_join(s.mbox, SEVEN)),
        ),
        "SP_leave": row(
            lambda s: SP_leave(s.mbox, s.fresh()),
            (refused(-14, TOO_LONG, lambda s: SP_leave(s.mbox, LONG)),),
            refused(-14, "group name is 7", lambda s: SP_leave(s.mbox, SEVEN)),
        ),
        "SP_multicast": multicasts(SP_multicast, one, one),
        "SP_scat_multicast": multicasts(SP_scat_multicast, one, several),
        "SP_multigroup_multicast": multicasts(SP_multigroup_multicast, several, one),
        "SP_multigroup_scat_multicast": multicasts(SP_multigroup_scat_multicast, several, several),
        "SP_receive": row(
            receive,
            wrong=refused(-13, "time_out is 'x'", lambda s: SP_receive(s.mbox, TEXT)),
            slow=nothing_comes,
        ),
        "SP_scat_receive": row(
            receive_pieces,
            wrong=(
                refused(-13, "sizes is 7", lambda s: receive_pieces(s, 7)),
                refused(-13, "a size is 'x'", lambda s: receive_pieces(s, ["x"])),
            ),
        ),
        "SP_poll": row(
            lambda s: SP_poll(s.mbox), wrong=refused(-11, "mailbox", lambda s: SP_poll(LIST))
        ),
    },
    forms=("threads",),
)

# ---- the flush layer ----


@asynccontextmanager
async def a_flush_layer(s: Stage) -> AsyncIterator[None]:
    s.mbox, s.me = FL_connect(s.address)
    FL_join(s.mbox, GROUP)
    receive_until(s, lambda found: Is_reg_memb_mess(found.service_type))
    try:
        yield
    finally:
        FL_disconnect(s.mbox)


def receive_until(s: Stage, wanted: Callable[[Any], bool]) -> None:
    while True:
        found = FL_receive(s.mbox, PATIENCE_S)
        assert found is not None
        if Is_flush_req_mess(found.service_type):
            FL_flush(s.mbox, found.sender)
        if wanted(found):
            return


def flushed(s: Stage) -> None:
    """Leave and join, which asks for a flush of a member that has a view."""
    FL_multicast(s.mbox, AGREED_MESS, GROUP, 0, b"flushed")
    receive_until(s, lambda found: found.message == b"flushed")


def of_flush(send: Any, *receivers: Any, wrap: Any = one) -> Row:
    """Rows that are alike: the six ways to send."""

    def call(s: Stage, data: Any = b"x", group: Any = GROUP, service: Any = AGREED_MESS) -> Any:
        to = [[s.me] if each is several else s.me for each in receivers]
        return send(s.mbox, service, group, *to, 0, wrap(data))

    return row(
        call,
        (refused(-17, "bytes; at most 67108864", lambda s: call(s, LARGE)),),
        (
            refused(-13, "of type str|must be bytes", lambda s: call(s, "text")),
            refused(-14, "group name is 7", lambda s: call(s, group=7)),
            refused(-12, "service type 'x'", lambda s: call(s, service="x")),
        ),
    )


FLUSH: Final = Scene(
    a_flush_layer,
    {
        "FL_connect": row(
            lambda s: FL_disconnect(FL_connect(s.address)[0]),
            (refused(-5, TOO_LONG, lambda s: FL_connect(s.address, LONG)),),
            refused(-1, "7", lambda s: FL_connect(SEVEN)),
            OWN,
        ),
        "FL_disconnect": row(
            lambda s: FL_disconnect(FL_connect(s.address)[0]),
            wrong=refused(-24, "mailbox", lambda s: FL_disconnect(LIST)),
            forked=OWN,
        ),
        "FL_join": row(
            lambda s: FL_join(s.mbox, s.fresh()),
            (refused(-14, TOO_LONG, lambda s: FL_join(s.mbox, LONG)),),
            refused(-14, "group name is 7", lambda s: FL_join(s.mbox, SEVEN)),
        ),
        "FL_leave": row(
            lambda s: FL_leave(s.mbox, s.fresh()),
            (refused(-14, TOO_LONG, lambda s: FL_leave(s.mbox, LONG)),),
            refused(-14, "group name is", lambda s: FL_leave(s.mbox, LIST)),
        ),
        "FL_flush": row(
            flushed,
            wrong=(
                refused(-14, "group name is 7", lambda s: FL_flush(s.mbox, SEVEN)),
                refused(-27, "no flush of", lambda s: FL_flush(s.mbox, GROUP)),
            ),
        ),
        "FL_multicast": of_flush(FL_multicast),
        "FL_unicast": of_flush(FL_unicast, one),
        "FL_subgroupcast": of_flush(FL_subgroupcast, several),
        "FL_scat_multicast": of_flush(FL_scat_multicast, wrap=several),
        "FL_scat_unicast": of_flush(FL_scat_unicast, one, wrap=several),
        "FL_scat_subgroupcast": of_flush(FL_scat_subgroupcast, several, wrap=several),
        "FL_scat_receive": row(
            flushed,
            wrong=refused(-13, "time_out is 'x'", lambda s: FL_scat_receive(s.mbox, [], TEXT)),
        ),
        "FL_poll": row(
            lambda s: FL_poll(s.mbox), wrong=refused(-24, "mailbox", lambda s: FL_poll(LIST))
        ),
        "FL_more_msgs": row(
            lambda s: FL_more_msgs(s.mbox),
            wrong=refused(-24, "mailbox", lambda s: FL_more_msgs(LIST)),
            forked="it only tells what has come",
        ),
        "FL_receive": row(
            flushed, wrong=refused(-13, "time_out is 'x'", lambda s: FL_receive(s.mbox, TEXT))
        ),
    },
    forms=("threads",),
)

# ---- direct peers ----


@asynccontextmanager
async def two_peers(s: Stage) -> AsyncIterator[None]:
    async with (
        direct.open("eve", members=("eve", "fay")) as s.eve,
        direct.open("fay", members={"eve": s.eve.address, "fay": ""}) as s.fay,
    ):
        yield


async def multicast(s: Stage) -> None:
    """Send a message, and have both receive it."""
    data = s.fresh().encode()
    await s.eve.multicast(data)
    for peer in (s.eve, s.fay):
        while (await peer.receive()).data != data:
            continue


async def next_event(s: Stage) -> None:
    await s.eve.multicast(b"x")
    await s.eve.next_event()


def opens(**options: Any) -> Any:
    """A call of `direct.open`."""
    given = {"name": "gil", "members": ("gil",), **options}
    return lambda s: direct.open(given["name"], **{k: v for k, v in given.items() if k != "name"})


async def open_and_leave(s: Stage) -> None:
    async with direct.open("gil", members=("gil",)) as peer:
        await peer.leave()


def no_algorithm(*_: Any, **__: Any) -> Any:
    raise ValueError("no algorithm")


async def the_algorithm_raises(s: Stage) -> None:
    with pytest.raises(ValueError, match="no algorithm"):
        await s.done(direct.open("gil", no_algorithm, members=("gil",)))


def of_faults(name: str, *right: Any, **wrong: Any) -> Row:
    """Rows that are alike: faults on the way to a member; `wrong` has texts by the argument."""

    def call(s: Stage, to: Any = "fay", *given: Any, **options: Any) -> Any:
        return getattr(s.eve, name)(to, *(given or right), **options)

    return Row(
        call=call,
        large=NO_SIZE,
        wrong=(
            Refused(lambda s: call(s, 7), "7 is not another member", ConfigError),
            Refused(lambda s: call(s, ["fay"]), "is not another member", ConfigError),
            *wrong.get("more", ()),
        ),
        raising=NO_FUNCTION,
        slow=NOT_WAITING,
        cancelled=NOT_WAITING,
    )


PEERS: Final = Scene(
    two_peers,
    {
        "direct.open": Row(
            call=open_and_leave,
            large=(Refused(opens(name=LONG), TOO_LONG),),
            wrong=(
                Refused(opens(name=7), "user name is 7"),
                Refused(opens(algorithm=7), "algorithm is 7; write a function"),
                Refused(opens(bind=7), "bind is of type int"),
                Refused(opens(members=7), "7 is no group"),
                Refused(opens(members=[7]), "user name is 7"),
                Refused(opens(timing=7), "timing is of type int"),
                Refused(opens(seed="x"), "seed is of type str"),
                Refused(opens(trace=7), "trace is of type int"),
            ),
            raising=the_algorithm_raises,
            forked=OWN,
        ),
        "DirectPeer.multicast": Row(
            call=multicast,
            large=(Refused(lambda s: s.eve.multicast(LARGE), "67108865 bytes; at most 65536"),),
            wrong=(
                Refused(lambda s: s.eve.multicast("text"), "of type str; it must be bytes"),
                Refused(lambda s: s.eve.multicast(b"x", 7), "7 is no group"),
            ),
            raising=NO_FUNCTION,
        ),
        "DirectPeer.receive": Row(
            call=multicast, large=NO_ARGUMENTS, wrong=NO_ARGUMENTS, raising=NO_FUNCTION
        ),
        "DirectPeer.next_event": Row(
            call=next_event, large=NO_ARGUMENTS, wrong=NO_ARGUMENTS, raising=NO_FUNCTION
        ),
        "DirectPeer.leave": Row(
            call=open_and_leave,
            large=NO_ARGUMENTS,
            wrong=NO_ARGUMENTS,
            raising=NO_FUNCTION,
            forked_call=lambda s: s.eve.leave(),
        ),
        "DirectPeer.set_minimum_delay": of_faults(
            "set_minimum_delay",
            0.0,
            more=(
                Refused(lambda s: s.eve.set_minimum_delay("fay", "x"), "seconds is 'x'"),
                Refused(
                    lambda s: s.eve.set_minimum_delay("fay", 1e6), "it must be 0 to", ConfigError
                ),
            ),
        ),
        "DirectPeer.set_faults": of_faults(
            "set_faults",
            more=(
                Refused(lambda s: s.eve.set_faults("fay", loss="x"), "loss is x", ConfigError),
                Refused(
                    lambda s: s.eve.set_faults("fay", reorder=65), "must be 0 to 64", ConfigError
                ),
            ),
        ),
        "DirectPeer.hold": of_faults(
            "hold",
            0.001,
            more=(
                Refused(lambda s: s.eve.hold("fay", "x"), "seconds is 'x'"),
                Refused(lambda s: s.eve.hold("fay", 1e300), "seconds is 1e.300; at most 86400"),
            ),
        ),
        "DirectPeer.cut": of_faults("cut"),
        "DirectPeer.mend": of_faults("mend"),
    },
    forms=("trio",),
)
