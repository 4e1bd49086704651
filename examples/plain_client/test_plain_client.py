"""The plain client talks to real daemons, beside programs of the library."""

import json
import random
import ssl
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from examples.plain_client import plain_client as plain
from examples.plain_client.talk import open_stream
from groupcomm.errors import Code
from groupcomm.events import GroupView, Message, Undeliverable
from groupcomm.level import ServiceLevel
from groupcomm_client import Connection, connect
from groupcomm_tools.certificates import issue, make_authority
from groupcomm_tools.local_cluster import LocalCluster
from groupcommd.programs.token_file import add_token

VECTORS = Path(__file__).parents[2] / "docs" / "protocol" / "vectors"
in_thread = trio.to_thread.run_sync


@pytest.fixture
async def daemons() -> AsyncIterator[LocalCluster]:
    # The longest timeouts: a busy machine must not part the daemons.
    async with LocalCluster("ab", 'preset = "wan"', tcp=True) as running:
        await running.settle("ab")
        yield running


def client_of(address: str, user: str) -> plain.Client:
    """Return a client that is connected to a path or HOST:PORT."""
    return plain.Client(open_stream(address), user)


def until(client: plain.Client, wanted: Callable[[plain.Event], bool]) -> plain.Event:
    """Return the first event that is wanted."""
    while True:
        event = client.receive(20)
        assert event is not None, "nothing has come for 20 s"
        if wanted(event):
            return event


def is_event(name: str) -> Callable[[plain.Event], bool]:
    return lambda event: event["event"] == name


def is_view_of(count: int) -> Callable[[plain.Event], bool]:
    return lambda event: event["event"] == "view" and len(event["members"]) == count


def collect(client: plain.Client, count: int) -> list[plain.Event]:
    """Return the next messages."""
    return [until(client, is_event("message")) for _ in range(count)]


async def library_until(connection: Connection, wanted: Callable[[Any], bool]) -> Any:
    """Return the first event of a connection of the library that is wanted."""
    with trio.fail_after(20):
        while not wanted(event := await connection.receive()):
            pass
    return event


async def join_all(clients: list[plain.Client], carl: Connection) -> GroupView:
    """Have clients join one after the other; return the view that Carl has then."""
    for count, client in enumerate(clients, 2):
        client.join("g")
        await in_thread(until, client, is_view_of(count))
    view: GroupView = await library_until(
        carl, lambda e: isinstance(e, GroupView) and len(e.members) == 1 + len(clients)
    )
    return view


def test_it_reads_the_frames_of_the_test_vectors_and_refuses_the_broken_ones() -> None:
    content = json.loads((VECTORS / "session-daemon.json").read_text())
    known = [v for v in content["vectors"] if bytes.fromhex(v["bytes"])[4] in plain.FRAMES]
    for vector in known:
        event, fields = plain.decode(bytes.fromhex(vector["bytes"])[4:]), vector["fields"]
        if "place" in fields:
            assert event["position"] == tuple(fields["place"] or (0, 0, 0))
            assert event["placed"] == (fields["place"] is not None)
        shared = event.keys() & fields.keys() - {
            "sender",
            "cause",
            "verb",
            "level",
            "bound",
            "majority",
        }
        for key in shared - {"members", "changed", "together"}:
            told = json.loads(json.dumps(event[key], default=bytes.hex))
            assert told == fields[key], (vector["name"], key)
        for key in event.keys() & fields.keys() & {"sender", "members", "changed", "together"}:
            wanted = fields[key] if isinstance(fields[key], list) else [fields[key]]
            told = event[key] if isinstance(event[key], list) else [event[key]]
            assert told == [(each["name"], each["connection"]) for each in wanted]
    assert len(known) == 20
    other = {"welcome of version 2", "a bundle limit of 299"}  # for the session to refuse
    other |= {"a position with a message without one"}
    other |= {"causes with a ring too few", "a daemon twice"}  # of frames that it does not ask for
    for vector in content["refused"]:
        if vector["name"] not in other:
            with pytest.raises((ValueError, struct.error)):
                plain.decode(bytes.fromhex(vector["bytes"])[4:])


async def test_it_speaks_at_all_levels_with_the_library(daemons: LocalCluster) -> None:
    ann = await in_thread(client_of, str(daemons["a"].unix), "ann")
    bob = await in_thread(client_of, daemons["b"].tcp, "bob")
    async with connect(str(daemons["b"].unix), user="carl") as carl:
        await carl.join("g")
        view = await join_all([ann, bob], carl)
        assert [(m.name, m.connection) for m in view.members][1:] == [ann.me, bob.me]
        levels = range(plain.RELIABLE, plain.SAFE + 1)
        for level in levels:
            await in_thread(ann.multicast, ["g"], b"ann %d" % level, level)
            await in_thread(bob.multicast, ["g"], b"bob %d" % level, level)
            await carl.multicast("g", b"carl %d" % level, level=ServiceLevel(level))
        at_ann = await in_thread(collect, ann, 15)
        at_bob = await in_thread(collect, bob, 15)
        at_carl: list[Message] = [
            await library_until(carl, lambda e: isinstance(e, Message)) for _ in range(15)
        ]
        seen = [[(e["data"], e["level"], e["position"]) for e in each] for each in (at_ann, at_bob)]
        seen.append([(m.data, m.level, tuple(m.position or ())) for m in at_carl])
        for messages in seen:
            assert {data for data, _, _ in messages} == {
                b"%b %d" % (who, level) for who in (b"ann", b"bob", b"carl") for level in levels
            }
            agreed = [each for each in messages if each[1] >= plain.AGREED]
            assert agreed == sorted(agreed, key=lambda each: each[2])
            assert agreed == [each for each in seen[0] if each[1] >= plain.AGREED]
            for sender in (b"ann", b"bob", b"carl"):
                ordered = [each for each in messages if each[1] >= plain.FIFO]
                own = [data for data, _, _ in ordered if data.startswith(sender)]
                assert own == sorted(own)
        await in_thread(ann.close)
        await in_thread(bob.close)


async def test_it_sends_to_names_leaves_and_is_told_what_became_of_it(
    daemons: LocalCluster,
) -> None:
    ann = await in_thread(client_of, str(daemons["a"].unix), "ann")
    bob = await in_thread(client_of, daemons["b"].tcp, "bob")
    async with connect(str(daemons["b"].unix), user="carl") as carl:
        await carl.join("g")
        await join_all([ann, bob], carl)
        ann.multicast(["#bob#b", "#carl#b"], b"private", type=7)
        private = await in_thread(until, bob, is_event("message"))
        assert (private["sender"], private["groups"]) == (ann.me, ["#bob#b", "#carl#b"])
        assert (private["type"], private["data"]) == (7, b"private")
        await library_until(carl, lambda e: isinstance(e, Message) and e.data == b"private")
        await carl.multicast("#ann#a", b"answer")
        answer = await in_thread(until, ann, is_event("message"))
        assert answer["data"] == b"answer"
        ann.multicast(["g"], b"not to me", flags=1)
        number = ann.multicast(["g"], b"when?", plain.SAFE, ordered=1)
        asked = await in_thread(until, ann, is_event("message"))
        place = await in_thread(until, ann, is_event("ordered"))
        assert (asked["data"], asked["number"]) == (b"when?", number)
        assert (place["number"], place["position"]) == (number, asked["position"])
        await in_thread(ann.multicast, ["g"], b"perhaps", plain.UNRELIABLE)
        ann.leave("g")
        left = await in_thread(until, ann, is_view_of(2))
        assert (left["cause"], left["own"]) == (1, 1)
        await in_thread(ann.close)
        await carl.multicast("#ann#a", b"too late")
        await library_until(carl, lambda event: isinstance(event, Undeliverable))
        bob.multicast(["#nobody#a"], b"")
        assert (await in_thread(until, bob, is_event("undeliverable")))["target"] == "#nobody#a"
        bob.query("members g")
        assert b"#carl#b" in (await in_thread(until, bob, is_event("answer")))["data"]
        await in_thread(bob.close)


async def test_it_connects_by_tls_with_a_token(tmp_path: Path) -> None:
    make_authority(tmp_path / "pki", 1.0)
    issue(tmp_path / "pki", "press", ["127.0.0.1"], 1.0)
    token = add_token(tmp_path / "tokens", "ann")
    files = 'certificate = "{0}/press.pem", key = "{0}/press.key"'.format(tmp_path / "pki")
    settings = f'tokens = "{tmp_path}/tokens"\ntls = {{address = "127.0.0.1:0", {files}}}'
    async with LocalCluster("a", clients=settings) as daemons:

        def greet(its_token: str) -> plain.Client:
            context = ssl.create_default_context(cafile=tmp_path / "pki" / "ca.pem")
            stream = open_stream(daemons["a"].tls)
            secret = context.wrap_socket(stream, server_hostname="127.0.0.1")
            return plain.Client(secret, "ann", its_token)

        def talk() -> plain.Event:
            client = greet(token)
            client.multicast(["#ann#a"], bytes(100_000))
            message = until(client, is_event("message"))
            client.close()
            with pytest.raises(plain.SessionClosed, match=r"code -9\)"):
                greet(token + "x")
            return message

        assert (await in_thread(talk))["data"] == bytes(100_000)


async def test_long_messages_pass_both_ways_while_both_ends_write() -> None:
    """Both write more than their streams hold: none waits for ever for the other one to read."""
    data = [bytes((n,)) * 800_000 for n in range(2)]
    async with LocalCluster("a") as daemons:
        ann = await in_thread(client_of, str(daemons["a"].unix), "ann")
        async with connect(str(daemons["a"].unix), user="carl") as carl:
            await carl.join("g")
            await join_all([ann], carl)

            def send_all() -> None:
                for each in data:
                    ann.multicast(["g"], each, plain.FIFO)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(in_thread, send_all)
                for each in data:
                    await carl.multicast("g", each, level=ServiceLevel.FIFO)
                    await library_until(carl, lambda e: isinstance(e, Message))
            got = await in_thread(collect, ann, 4)
            for sender in ("#ann#a", "#carl#a"):
                assert [e["data"] for e in got if e["sender"][0] == sender] == data
            await in_thread(ann.close)


def closed_after(address: str, raw: bytes) -> int:
    """Return the code with which the daemon ends a session that sends these bytes; 1 for none."""
    client = client_of(address, "max")
    try:
        client.join("g")
        until(client, is_view_of(1))
        client.send_raw(raw)
        client.query("members g")
        until(client, is_event("answer"))
        client.close()
    except plain.SessionClosed as error:
        return error.code
    return 1


def bundle(*head: int, groups: bytes = b"\1g", payload: bytes = b"", ordered: int = 0) -> bytes:
    """Return a BUNDLE frame: kind, level, flags, message, index, count."""
    body = struct.pack("!BBBQIIH", *head, len(groups)) + groups + payload
    return struct.pack("!IBB", len(body) + 2, 2, ordered) + body


ONE = struct.pack("!HI", 0, 1) + b"x"
QUESTION = b"\0\0\0\7\4status"
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
    "a name that is not UTF-8": (
        bundle(0, 4, 0, 2, 0, 1, groups=b"\1\xff", payload=ONE),
        Code.NET_ERROR,
    ),
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
        bundle(0, 4, 0, 2, 0, 1, payload=struct.pack("!HI", 0, 62_000) + bytes(62_000)),
        Code.MESSAGE_TOO_LONG,
    ),
    "a payload that does not add up": (bundle(0, 4, 0, 2, 0, 1, payload=ONE + b"y"), 1),
}


async def test_broken_bytes_are_answered_as_the_document_says() -> None:
    async with LocalCluster("a") as daemons:
        address = str(daemons["a"].unix)
        codes = {
            what: await in_thread(closed_after, address, raw) for what, (raw, _) in BROKEN.items()
        }
        assert codes == {what: code for what, (_, code) in BROKEN.items()}
        rng, found = random.Random(7), set()
        valid = [bundle(0, 4, 0, 2, 0, 1, payload=ONE), bundle(4, 4, 0, 2, 0, 1), QUESTION]
        for _ in range(40):
            raw = bytearray(rng.choice(valid))
            for _ in range(rng.randint(1, 3)):
                raw[rng.randrange(4, len(raw))] = rng.randrange(256)
            found.add(await in_thread(closed_after, address, bytes(raw)))
        assert found <= {1, *(int(code) for code in Code if code < 0)}
        assert {1, int(Code.NET_ERROR), int(Code.ILLEGAL_MESSAGE)} <= found
        assert daemons["a"].running


async def test_the_command_joins_and_prints_what_comes() -> None:
    command = [sys.executable, "-m", "examples.plain_client.talk", "--user", "bob", "--count", "2"]
    async with LocalCluster("a") as daemons:
        words = ["--address", str(daemons["a"].unix), "hello", "again"]
        done = await in_thread(
            lambda: subprocess.run(
                [*command, *words],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
                cwd=Path(__file__).parents[2],
            )
        )
        assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "this is #bob#a"
    assert lines[-2:] == ["AGREED from #bob#a: 'hello'", "AGREED from #bob#a: 'again'"]
    assert "view of talk after JOIN: #bob#a" in lines
