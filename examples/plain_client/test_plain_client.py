"""The plain client talks to real daemons, beside programs of the library."""

import random
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from examples.plain_client import plain_client as plain
from groupcomm.errors import Code
from groupcomm.events import GroupView, Message, Undeliverable
from groupcomm.level import ServiceLevel
from groupcomm_client import Connection, connect
from groupcomm_tools.local_cluster import LocalCluster

HERE = Path(__file__).parent
in_thread = trio.to_thread.run_sync


@pytest.fixture
async def daemons() -> AsyncIterator[LocalCluster]:
    async with LocalCluster("ab", tcp=True) as running:
        await running.settle("ab")
        yield running


def until(client: plain.Client, wanted: Callable[[plain.Event], bool]) -> list[plain.Event]:
    """Return the events up to the first one that is wanted."""
    found = []
    while not found or not wanted(found[-1]):
        event = client.receive(20)
        assert event is not None, found
        found.append(event)
    return found


def is_view_of(count: int) -> Callable[[plain.Event], bool]:
    return lambda event: event["event"] == "view" and len(event["members"]) == count


async def library_until(connection: Connection, wanted: Callable[[Any], bool]) -> list[Any]:
    found: list[Any] = []
    with trio.fail_after(20):
        while not found or not wanted(found[-1]):
            found.append(await connection.receive())
    return found


async def test_it_speaks_at_all_levels_with_the_library(daemons: LocalCluster) -> None:
    def end(event: plain.Event) -> bool:
        return event["event"] == "message" and event["data"] == b"end"

    ann = await in_thread(plain.Client, str(daemons["a"].unix), "ann")
    bob = await in_thread(plain.Client, daemons["b"].tcp, "bob")
    async with connect(str(daemons["b"].unix), user="carl") as carl:
        await carl.join("g")
        await library_until(carl, lambda event: isinstance(event, GroupView))
        for client, count in ((ann, 2), (bob, 3)):
            client.join("g")
            await in_thread(until, client, is_view_of(count))
        view = (await library_until(carl, lambda e: isinstance(e, GroupView) and len(e.members) == 3))[-1]
        for level in range(1, 6):
            await in_thread(ann.multicast, ["g"], b"ann %d" % level, level)
            await in_thread(bob.multicast, ["g"], b"bob %d" % level, level)
            await carl.multicast("g", b"carl %d" % level, level=ServiceLevel(level), type=level)
        ann.multicast(["#bob#b", "#carl#b"], b"private", type=7)
        number = ann.multicast(["g"], b"end", plain.SAFE, ordered=1)
        at_ann = await in_thread(until, ann, end)
        at_bob = await in_thread(until, bob, end)
        at_carl = await library_until(carl, lambda e: isinstance(e, Message) and e.data == b"end")
        ordered = (await in_thread(until, ann, lambda e: e["event"] == "ordered"))[-1]
        assert (ordered["number"], ordered["position"]) == (number, at_ann[-1]["position"])

        expected = {b"%b %d" % (who, level) for who in (b"ann", b"bob", b"carl") for level in range(1, 6)}
        seen = [
            [(e["data"], e["level"], e["position"]) for e in events if e["event"] == "message"]
            for events in (at_ann, at_bob)
        ]
        seen.append(
            [(e.data, e.level, tuple(e.position)[1:]) for e in at_carl if isinstance(e, Message)]
        )
        for messages in seen:
            assert {data for data, _, _ in messages} - {b"private"} == expected | {b"end"}
            agreed = [m for m in messages if m[1] >= plain.AGREED and m[0] != b"private"]
            assert agreed == sorted(agreed, key=lambda message: message[2])
            assert agreed == [m for m in seen[0] if m[1] >= plain.AGREED]
        for sender in (b"ann", b"bob", b"carl"):
            own = [data for data, level, _ in seen[1] if data.startswith(sender) and level >= plain.FIFO]
            assert own == sorted(own)
        private = next(e for e in at_bob if e.get("data") == b"private")
        assert (private["sender"], private["groups"]) == (ann.me, ["#bob#b", "#carl#b"])
        assert private["type"] == 7
        assert [(m.name, m.connection) for m in view.members][1:] == [ann.me, bob.me]

        await carl.multicast("#ann#a", b"answer")
        assert (await in_thread(until, ann, lambda e: e["event"] == "message"))[-1]["data"] == b"answer"
        ann.leave("g")
        left = (await in_thread(until, ann, lambda e: e["event"] == "view"))[-1]
        assert (left["cause"], left["own"], len(left["members"])) == (1, 1, 2)
        await in_thread(ann.close)
        await carl.multicast("#ann#a", b"too late")
        await library_until(carl, lambda event: isinstance(event, Undeliverable))
        bob.multicast(["#nobody#a"], b"")
        lost = (await in_thread(until, bob, lambda e: e["event"] == "undeliverable"))[-1]
        assert lost["target"] == "#nobody#a"
        bob.query("members g")
        answer = (await in_thread(until, bob, lambda e: e["event"] == "answer"))[-1]
        assert b"#carl#b" in answer["data"]
        await in_thread(bob.close)


async def test_large_messages_pass_both_ways_while_everybody_writes(daemons: LocalCluster) -> None:
    data = [bytes((n,)) * 3_000_000 for n in range(3)]
    ann = await in_thread(plain.Client, str(daemons["a"].unix), "ann")
    async with connect(str(daemons["b"].unix), user="carl") as carl:
        ann.join("g")
        await carl.join("g")
        await in_thread(until, ann, is_view_of(2))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(in_thread, lambda: [ann.multicast(["g"], each, plain.FIFO) for each in data])
            for each in data:
                await carl.multicast("g", each, level=ServiceLevel.FIFO)
        got: list[plain.Event] = []
        while len(got) < 6:
            got.append((await in_thread(until, ann, lambda e: e["event"] == "message"))[-1])
        for sender in ("#ann#a", "#carl#b"):
            assert [e["data"] for e in got if e["sender"][0] == sender] == data
        await in_thread(ann.close)


def closed_after(address: str, raw: bytes) -> int:
    """Return the code with which the daemon ends a session that sends these bytes; 1 for none."""
    client = plain.Client(address, "max")
    try:
        client.join("g")
        until(client, is_view_of(1))
        client.send_raw(raw)
        client.query("members g")
        until(client, lambda event: event["event"] == "answer")
        client.close()
    except plain.SessionClosed as error:
        return error.code
    return 1


def bundle(*head: int, groups: bytes = b"\1g", payload: bytes = b"", ordered: int = 0) -> bytes:
    """Return a BUNDLE frame: kind, level, flags, message, index, count."""
    body = struct.pack("!BBBQIIH", *head, len(groups)) + groups + payload
    return struct.pack("!IBB", len(body) + 2, 2, ordered) + body


ONE = struct.pack("!HI", 0, 1) + b"x"
BROKEN = {
    "a length of 0": (b"\0\0\0\0", Code.NET_ERROR),
    "a frame that is too long": (struct.pack("!IB", 66_561, 2), Code.NET_ERROR),
    "a frame of a daemon": (b"\0\0\0\1\x18", Code.ILLEGAL_SESSION),
    "an unknown kind": (b"\0\0\0\1\x63", Code.ILLEGAL_SESSION),
    "a second hello": (b"\0\0\0\x0a\1\1\0\0\0\0\3max", Code.ILLEGAL_SESSION),
    "ordered is 2": (bundle(0, 4, 0, 2, 0, 1, payload=ONE, ordered=2), Code.NET_ERROR),
    "a frame in which another one begins": (
        bundle(0, 4, 0, 2, 0, 1, payload=ONE)[:-3],
        Code.NET_ERROR,
    ),
    "heads beyond the payload": (bundle(0, 4, 0, 2, 0, 9, payload=ONE), Code.NET_ERROR),
    "level 6": (bundle(0, 6, 0, 2, 0, 1, payload=ONE), Code.NET_ERROR),
    "no groups": (bundle(0, 4, 0, 2, 0, 1, groups=b"", payload=ONE), Code.NET_ERROR),
    "a name that is not UTF-8": (bundle(0, 4, 0, 2, 0, 1, groups=b"\1\xff", payload=ONE), Code.NET_ERROR),
    "a name with an invisible character": (
        bundle(0, 4, 0, 2, 0, 1, groups=b"\3\xe2\x80\x8b", payload=ONE),
        Code.NET_ERROR,
    ),
    "a number that is too high": (bundle(0, 4, 0, 3, 0, 1, payload=ONE), Code.ILLEGAL_MESSAGE),
    "a number again": (bundle(0, 4, 0, 1, 0, 1, payload=ONE), Code.ILLEGAL_MESSAGE),
    "a connect": (bundle(2, 4, 0, 2, 0, 1, groups=b""), Code.ILLEGAL_MESSAGE),
    "a fragment that is not the first": (
        bundle(1, 4, 0, 2, 1, 2, payload=struct.pack("!HQ", 0, 9) + b"x"),
        Code.ILLEGAL_MESSAGE,
    ),
    "ordered at FIFO": (bundle(0, 2, 0, 2, 0, 1, payload=ONE, ordered=1), Code.ILLEGAL_SERVICE),
    "a join of two groups": (bundle(3, 4, 0, 2, 0, 1, groups=b"\1g\1h"), Code.NET_ERROR),
    "a bundle beyond the limit": (
        bundle(0, 4, 0, 2, 0, 1, payload=struct.pack("!HI", 0, 2000) + bytes(2000)),
        Code.MESSAGE_TOO_LONG,
    ),
    "a payload that does not add up": (bundle(0, 4, 0, 2, 0, 1, payload=ONE + b"y"), 1),
}


async def test_broken_bytes_are_answered_as_the_document_says(daemons: LocalCluster) -> None:
    address = str(daemons["a"].unix)
    found = {what: await in_thread(closed_after, address, raw) for what, (raw, _) in BROKEN.items()}
    assert found == {what: code for what, (_, code) in BROKEN.items()}
    rng = random.Random(7)
    valid = [bundle(0, 4, 0, 2, 0, 1, payload=ONE), bundle(4, 4, 0, 2, 0, 1), b"\0\0\0\7\4status"]
    codes = set()
    for _ in range(60):
        raw = bytearray(rng.choice(valid))
        for _ in range(rng.randint(1, 3)):
            raw[rng.randrange(4, len(raw))] = rng.randrange(256)
        codes.add(await in_thread(closed_after, address, bytes(raw)))
    allowed = {1, *(int(c) for c in Code if c < 0)}
    assert codes <= allowed, codes
    assert {1, int(Code.NET_ERROR), int(Code.ILLEGAL_MESSAGE)} <= codes
    assert daemons["a"].running


async def test_the_command_joins_and_prints_what_comes(daemons: LocalCluster) -> None:
    command = [sys.executable, str(HERE / "talk.py"), "--address", str(daemons["a"].unix)]
    done = await in_thread(
        lambda: subprocess.run(
            [*command, "--user", "bob", "--count", "2", "hello", "again"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "this is #bob#a"
    assert lines[-2:] == ["AGREED from #bob#a: 'hello'", "AGREED from #bob#a: 'again'"]
    assert "view of talk after JOIN: #bob#a" in lines
