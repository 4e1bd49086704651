"""A program of `vanished_hosts`: says on standard output what befalls it; a process of its own.

Runs with ROLE, ADDRESSES and USER. A line is a word and the name of the program's session.
"""

import http.client
import os
import ssl
import sys

import trio

import groupcomm_client as gc
from groupcomm_client import GroupView, Reconnected
from groupcomm_client.coordination import join_mutex
from tests.groupcommd import spread_client

SEND_S = 0.01


def say(word: str, connection: gc.Connection) -> None:
    """Print a line."""
    print(word, connection.name, flush=True)


async def hold(connection: gc.Connection) -> None:
    """Hold the mutex for ever."""
    async with join_mutex(connection, "m") as mutex, mutex:
        say("holds", connection)
        await trio.sleep_forever()


async def idle(connection: gc.Connection) -> None:
    """Wait for events."""
    await connection.join("g")
    say("in", connection)
    while True:
        if isinstance(await connection.receive(), Reconnected):
            say("moved", connection)


async def send(connection: gc.Connection) -> None:
    """Send, and never receive."""
    say("in", connection)
    name = connection.name
    while True:
        await connection.multicast("other", bytes(1000))
        if connection.name != name:
            name = connection.name
            say("moved", connection)
        await trio.sleep(SEND_S)


async def watch(connection: gc.Connection) -> None:
    """Say whenever a member has come to the group `s`, or has gone."""
    await connection.join("s")
    size = 0
    while True:
        event = await connection.receive()
        if isinstance(event, GroupView):
            say("comes" if len(event.members) > size else "gone", connection)
            size = len(event.members)


async def flood(connection: gc.Connection) -> None:
    """The same, and send to the group, so that output waits for whoever has vanished."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, connection)
        while True:
            await connection.multicast("s", bytes(1000))
            await trio.sleep(SEND_S)


async def spread(address: str, user: str) -> None:
    """Be in the group `s` as a program of Spread, and read what comes."""
    async with await spread_client.connect(address, user) as client:
        await client.join("s")
        print("in", user, flush=True)
        while True:
            await client.receive(patient=True)


def read(address: str) -> None:
    """Watch a daemon by HTTP, as a page does, for ever."""
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context(cafile=os.environ["GROUPCOMM_CA"])
    context.load_cert_chain(os.environ["GROUPCOMM_CERTIFICATE"], os.environ["GROUPCOMM_KEY"])
    connection = http.client.HTTPSConnection(host, int(port), context=context)
    connection.request("GET", "/events")
    answer = connection.getresponse()
    print("in", answer.status, flush=True)
    while answer.readline():
        continue


ROLES = {"hold": hold, "idle": idle, "send": send, "stay": idle, "watch": watch, "flood": flood}


async def main(*arguments: str) -> None:
    """Connect, and play a role; only holders and those that stay do not reconnect."""
    role, addresses, user = arguments
    if role == "read":
        read(addresses)
        return
    if role == "spread":
        await spread(addresses, user)
        return
    reconnect = role in ("idle", "send")
    async with gc.connect(addresses, user=user, reconnect=reconnect) as connection:
        await ROLES[role](connection)


if __name__ == "__main__":
    gc.run(main, *sys.argv[1:])
