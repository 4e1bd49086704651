"""A program's imports and calls: one namespace, options, errors that name the right form."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import groupcomm_client as gc
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.kinds import Kind, next_of, played


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("a") as running:
        yield running


def modules_after(statement: str) -> set[str]:
    """Return the top-level modules of a new process after a statement."""
    script = f"{statement}; import sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    found = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    return set(found.stdout.split())


@pytest.mark.parametrize(
    "module", ["groupcomm_client", "groupcomm_client.aio", "groupcomm_client.blocking"]
)
def test_only_programs_that_use_trio_load_it(module: str) -> None:
    loaded = modules_after(f"import {module}")
    assert loaded.isdisjoint({"trio", "groupcommd", "cryptography"})


def test_threads_load_no_event_loop() -> None:
    assert modules_after("import groupcomm_client.blocking").isdisjoint({"asyncio", "trio"})


def test_every_name_is_there() -> None:
    for package in (gc, gc.filters, gc.end_to_end):
        for name in package.__all__:
            assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        getattr(gc, "conect")  # noqa: B009 - mypy knows that it is not there


@played
async def test_messages_skips_all_other_events_and_ends_with_the_session(
    kind: Kind, cluster: RunningCluster
) -> None:
    async with kind.connect(cluster.address("a")) as ann:
        await ann.join("g")
        for number in range(3):
            await ann.multicast("g", b"%d" % number)
        found = []
        async for message in kind.messages(ann):
            found.append(message.data)
            if len(found) == 3:
                await ann.aclose()
        assert found == [b"0", b"1", b"2"]


@played
async def test_a_receive_whose_time_is_over_raises_timeout_error(
    kind: Kind, cluster: RunningCluster
) -> None:
    for reconnect in (False, True):
        async with kind.connect(cluster.address("a"), reconnect=reconnect) as ann:
            await next_of(kind, ann, gc.DaemonView)
            for receive in (ann.receive, ann.receive_batch):
                with pytest.raises(TimeoutError, match="no event has arrived in"):
                    await receive(timeout_s=0.01)
            await ann.join("g")
            assert isinstance(await ann.receive(timeout_s=0), gc.GroupView)
            await ann.multicast_ordered("g", b"x")
            (message,) = await ann.receive_batch(timeout_s=0)
            assert message.data == b"x"


@played
async def test_a_reconnecting_connection_has_the_same_contract(
    kind: Kind, cluster: RunningCluster
) -> None:
    async with kind.connect(cluster.address("a"), reconnect=True) as ann:
        view = await ann.join("g")
        assert view.members == (ann.member,)
        assert (await ann.ask("groups"))["groups"] == {"g": 1}
        assert await ann.multicast_many("g", [b"0", b"1"]) == 2
        place = await ann.multicast_ordered("g", b"2")
        assert place.position.view == ann.groups["g"].id.view
        found: list[bytes] = []
        while len(found) < 3:
            events = await ann.receive_batch()
            found += [event.data for event in events if isinstance(event, gc.Message)]
        assert found == [b"0", b"1", b"2"]
        await ann.request_membership("g", join=False)
        while ann.groups:
            await next_of(kind, ann, gc.GroupView)


@played
async def test_a_member_is_a_destination(kind: Kind, cluster: RunningCluster) -> None:
    async with kind.connect(cluster.address("a")) as ann:
        await ann.multicast(ann.member, b"alone")
        await ann.multicast_ordered([ann.member, "elsewhere"], b"among others")
        for data in (b"alone", b"among others"):
            message = await next_of(kind, ann, gc.Message)
            assert (message.data, message.groups[0]) == (data, ann.name)


WRONG: list[tuple[tuple[Any, Any], dict[str, Any], str]] = [
    (("g", b""), {"level": "SAFE"}, "level is 'SAFE'; write ServiceLevel.SAFE"),
    (("g", b""), {"level": "fast"}, "write ServiceLevel.AGREED, or another"),
    (("g", "hello"), {}, r"a str, and messages are bytes: write b'hello', or text.encode\(\)"),
    (("g", 7), {}, "a message is of type int; write bytes"),
    (("g", b""), {"type": "7"}, "type is '7'; write a number"),
    ((7, b""), {}, "7 is not a destination: write the name of a group"),
    ((["g", 7], b""), {}, "is not a destination"),
]


@pytest.mark.parametrize("filtered", [False, True])
@played
async def test_arguments_of_another_type_raise_what_to_write(
    kind: Kind, cluster: RunningCluster, filtered: bool
) -> None:
    chosen = [gc.filters.compression] if filtered else []
    async with kind.connect(cluster.address("a"), filters=chosen) as ann:
        for (groups, data), options, said in WRONG:
            for send in (ann.multicast, ann.multicast_ordered):
                with pytest.raises(gc.LocalProtocolError, match=said):
                    await send(groups, data, **options)
        with pytest.raises(gc.LocalProtocolError, match="messages are bytes"):
            await ann.multicast_many("g", ["hello"])
        assert ann.in_doubt == 0, "nothing was sent"


def test_a_program_without_trio_learns_what_to_import() -> None:
    async def scenario() -> None:
        async with gc.connect():
            pass

    with pytest.raises(gc.LocalProtocolError, match=r"use connect of groupcomm_client\.aio"):
        asyncio.run(scenario())


def test_events_have_a_short_text(cluster: RunningCluster) -> None:
    with gc.blocking.connect(cluster.address("a"), user="ann") as ann:
        view = ann.join("g")
        ann.multicast("g", b"hello" * 100, level=gc.ServiceLevel.SAFE)
        message = next(ann.messages())
        me = ann.member
        assert str(view) == f"view of g after JOIN {me}: {me}"
        assert str(message).startswith(f"SAFE from {me} to g: b'hellohello")
        assert str(message).endswith("' and 460 bytes more")
        assert "of daemons a" in str(ann.view)


@pytest.mark.parametrize("module", [gc, gc.aio], ids=["trio", "asyncio"])
def test_who_uses_connect_without_a_block_learns_how(module: Any) -> None:
    connection = module.connect()
    says = "write 'async with connect"
    with pytest.raises(gc.LocalProtocolError, match=says):
        connection.multicast("chat", b"hello")
    with pytest.raises(gc.LocalProtocolError, match=says):
        next(connection.__await__())
    with pytest.raises(gc.LocalProtocolError, match=says), connection:
        pass
    assert not hasattr(connection, "join")


def test_who_uses_connect_of_threads_without_a_block_learns_how() -> None:
    connection: Any = gc.blocking.connect()
    with pytest.raises(gc.LocalProtocolError, match="write 'with connect"):
        connection.join("chat")
