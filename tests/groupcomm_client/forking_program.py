"""A program that forks within a session, in a chosen form; tests run it as a process.

    python -m tests.groupcomm_client.forking_program FORM ACTS ADDRESS

FORM: trio, asyncio, threads, spread, peer. ACTS, with commas between them, are what a child does:
`use` tries the session's calls and opens another one; `leave` ends by an exception through all
blocks; `exit` ends at once; `multiprocessing` is `use` in a process of multiprocessing; `outlive`
sleeps for long, while the parent waits to be killed. In the end the parent sends itself a message,
and prints what happened as JSON.
"""

import asyncio
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

import trio

from groupcomm.errors import ForkedSession, GroupCommError
from groupcomm.events import Message
from groupcomm_client import aio, blocking, connect
from groupcomm_client.coordination import blocking as coordination
from groupcomm_client.coordination import join_mutex
from groupcomm_client.spread_api import (
    SP_connect,
    SP_disconnect,
    SP_join,
    SP_kill,
    SP_multicast,
    SP_poll,
    SP_receive,
    SpreadError,
)
from groupcomm_lessons.direct import open as open_peer

GROUP: Final = "forks"
WAIT_S: Final = 20.0


def fork(acts: str, use: Callable[[], list[str]]) -> dict[str, Any]:
    """Have children do something, one after the other; return what they tell."""
    return {act: fork_once(act, use) for act in acts.split(",")}


def fork_once(act: str, use: Callable[[], list[str]]) -> object:
    """Have a child do something; return what it tells, or else its exit status."""
    told, end = os.pipe()

    def tell() -> None:
        os.write(end, json.dumps(use()).encode())

    if act == "multiprocessing":
        process = multiprocessing.get_context("fork").Process(target=tell)
        process.start()
        os.close(end)
        process.join()
        status = process.exitcode
    else:
        pid = os.fork()
        if not pid:
            os.close(told)
            child(act, tell)
        os.close(end)
        if act == "outlive":
            print(json.dumps({"child": pid}), flush=True)
            return 0
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with os.fdopen(told) as found:
        return json.loads(found.read() or "null") or status


def child(act: str, tell: Callable[[], None]) -> None:
    """Do what the child is to do."""
    if act == "leave":
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - an event loop may complain
        sys.exit(0)
    if act == "outlive":
        time.sleep(1000)
    if act == "use":
        try:
            tell()
        except BaseException:
            traceback.print_exc()
            os._exit(9)
    os._exit(0)


def error_of(call: Callable[[], object]) -> str:
    """Return the class of the error of a call, and whether it names this process's parent."""
    try:
        call()
    except (ForkedSession, SpreadError) as error:
        known = f"belongs to process {os.getppid()}, which has forked this one" in str(error)
        return f"{type(error).__name__} {getattr(error, 'code', '')} {known}"
    except GroupCommError as error:
        return repr(error)
    return "none"


def anew(address: str) -> str:
    """Open a session in this process, and use it; return whether that works."""
    with blocking.connect(address) as connection, connection.group("other"):
        connection.multicast("other", b"from the child")
        return next(connection.messages()).data.decode()


def use_awaited(connection: Any, address: str) -> list[str]:
    """Try calls of a connection of an event loop, which end at their first step."""

    def step(call: Any) -> Callable[[], object]:
        return lambda: call.send(None)

    calls = (
        connection.multicast(GROUP, b"x"),
        connection.multicast_many(GROUP, [b"x"]),
        connection.receive(),
        connection.join("more"),
        connection.ask("status"),
    )
    return [*(error_of(step(call)) for call in calls), anew(address)]


async def run_trio(acts: str, address: str) -> dict[str, Any]:
    """Fork within a connection and a mutex of trio."""
    async with (
        connect(address, reconnect=True) as connection,
        connect(address) as own,
        connection.group(GROUP),
        join_mutex(own, "press") as mutex,
        mutex,
    ):
        found = fork(acts, lambda: use_awaited(connection, address))
        if acts == "outlive":
            await trio.sleep_forever()
        await connection.multicast(GROUP, b"still here")
        with trio.fail_after(WAIT_S):
            got = await anext(connection.messages())
    return {**found, "got": got.data.decode()}


async def run_asyncio(acts: str, address: str) -> dict[str, Any]:
    """Fork within a connection and a mutex of asyncio."""
    async with (
        aio.connect(address, reconnect=True) as connection,
        aio.connect(address) as own,
        connection.group(GROUP),
        join_mutex(own, "press") as mutex,
        mutex,
    ):
        found = fork(acts, lambda: use_awaited(connection, address))
        if acts == "outlive":
            await asyncio.sleep(1000)
        await connection.multicast(GROUP, b"still here")
        async with asyncio.timeout(WAIT_S):
            got = await anext(connection.messages())
    return {**found, "got": got.data.decode()}


def run_threads(acts: str, address: str) -> dict[str, Any]:
    """Fork within a connection and a mutex of threads."""

    def use() -> list[str]:
        calls: list[Callable[[], object]] = [
            lambda: connection.multicast(GROUP, b"x"),
            lambda: connection.multicast_many(GROUP, [b"x"]),
            connection.receive,
            lambda: connection.join("more"),
            lambda: connection.ask("status"),
        ]
        return [*map(error_of, calls), anew(address)]

    with ExitStack() as stack:
        connection = stack.enter_context(blocking.connect(address, reconnect=True))
        own = stack.enter_context(blocking.connect(address))
        stack.enter_context(connection.group(GROUP))
        stack.enter_context(stack.enter_context(coordination.join_mutex(own, "press")))
        found = fork(acts, use)
        if acts == "outlive":
            time.sleep(1000)
        connection.multicast(GROUP, b"still here")
        while not isinstance(event := connection.receive(WAIT_S), Message):
            continue
    return {**found, "got": event.data.decode()}


def run_spread(acts: str, address: str) -> dict[str, Any]:
    """Fork within a mailbox of Spread's functions."""
    mbox, _ = SP_connect(address)

    def use() -> list[str]:
        calls: list[Callable[[], object]] = [
            lambda: SP_multicast(mbox, 0x20, GROUP, 0, b"x"),
            lambda: SP_join(mbox, "more"),
            lambda: SP_receive(mbox),
            lambda: SP_poll(mbox),
        ]
        found = [*map(error_of, calls), anew(address)]
        SP_disconnect(mbox)
        return found

    SP_join(mbox, GROUP)
    SP_receive(mbox)  # the first view
    found = fork(acts, use)
    if acts == "outlive":
        time.sleep(1000)
    SP_multicast(mbox, 0x20, GROUP, 0, b"still here")
    got = SP_receive(mbox, WAIT_S)
    assert got is not None
    SP_kill(mbox)
    return {**found, "got": got.message.decode()}


async def run_peer(acts: str, address: str) -> dict[str, Any]:
    """Fork within a direct peer."""
    async with (
        open_peer("ann", members={"ann": None, "bob": None}, bind="127.0.0.1:0") as ann,
        open_peer("bob", members={"ann": ann.address, "bob": None}, bind="127.0.0.1:0") as bob,
    ):

        def use() -> list[str]:
            call = ann.multicast(b"x")

            def steps() -> None:
                while True:
                    call.send(None)

            try:
                steps()
            except ForkedSession:
                return ["ForkedSession", anew(address)]
            return ["none"]

        await bob.multicast(b"first")
        await ann.receive()
        found = fork(acts, use)
        await ann.multicast(b"still here")
        with trio.fail_after(WAIT_S):
            while (got := await bob.receive()).data == b"first":
                continue
    return {**found, "got": got.data.decode()}


def main() -> None:
    """Run the form of the command line."""
    form, acts, address = sys.argv[1:]
    pid = os.getpid()
    if acts == "outlive":
        signal.alarm(300)
    if form == "threads":
        found = run_threads(acts, address)
    elif form == "spread":
        found = run_spread(acts, address)
    elif form == "asyncio":
        found = asyncio.run(run_asyncio(acts, address))
    else:
        found = trio.run({"trio": run_trio, "peer": run_peer}[form], acts, address)
    if os.getpid() == pid:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
