"""Connections and joins without views: of every kind, with real daemons."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from groupcomm.errors import LocalProtocolError
from groupcomm.events import Cause, GroupView, Message
from groupcomm_client import Connection, connect
from groupcomm_client.coordination.election import stand
from groupcomm_client.coordination.mutex.mutex import join_mutex
from groupcomm_client.coordination.replicated import replicate
from groupcomm_client.end_to_end import SharedSecret
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.kinds import Kind, next_of, played


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("ab") as running:
        yield running


@pytest.mark.parametrize("of_connection", [True, False], ids=["connect", "join"])
@played
async def test_who_joins_without_views_gets_messages_alone_and_nobody_gets_a_view_of_it(
    kind: Kind, cluster: RunningCluster, of_connection: bool
) -> None:
    wish = {"views": False} if of_connection else {}
    async with (
        kind.connect(cluster.address("a"), "ann") as ann,
        kind.connect(cluster.address("b"), "bob", **wish) as bob,
        kind.connect(cluster.address("b"), "cat") as cat,
    ):
        await ann.join("news")
        view = await bob.join("news", **({} if of_connection else {"views": False}))
        assert view.own
        assert (view.members, view.changed) == ((bob.member,), (bob.member,))
        assert list(bob.groups) == ["news"]
        await cat.join("news")
        await cat.leave("news")
        await ann.multicast("news", b"x")
        message = await kind.receive(bob, 20.0)
        while not isinstance(message, Message):
            assert not isinstance(message, GroupView)
            message = await kind.receive(bob, 20.0)
        assert message.data == b"x"
        await bob.multicast("news", b"from a reader")
        await bob.leave("news")
        assert bob.groups == {}
        await next_of(kind, ann, GroupView)  # its own join
        changes = [await next_of(kind, ann, GroupView) for _ in range(2)]
        assert [view.cause for view in changes] == [Cause.JOIN, Cause.LEAVE]
        assert all(view.changed == (cat.member,) for view in changes)
        assert (await next_of(kind, ann, Message)).data == b"x"
        assert (await next_of(kind, ann, Message)).sender == bob.member
        assert (await bob.join("news", views=not of_connection)).own, "once more"


@played
async def test_a_block_may_be_without_views_and_the_next_session_is_as_the_one_before(
    kind: Kind, cluster: RunningCluster
) -> None:
    async with (
        kind.connect(cluster.address("a"), "ann", reconnect=True, views=False) as ann,
        kind.connect(cluster.address("b"), "bob") as bob,
    ):
        async with ann.group("block") as view:
            assert view.members == (ann.member,)
            assert (await bob.join("block")).members == (bob.member,)
        assert ann.groups == {}


async def begin_mutex(connection: Connection) -> None:
    async with join_mutex(connection, "g"):
        pass


async def begin_election(connection: Connection) -> None:
    async with stand(connection, "g"):
        pass


async def begin_replica(connection: Connection) -> None:
    some: Any = print  # nobody calls them
    machine = SimpleNamespace(apply=some, snapshot=some, restore=some, members_changed=some)
    async with replicate(connection, "g", machine):
        pass


async def begin_work(connection: Connection) -> None:
    async with connection.work("g", name="w"):
        pass


async def begin_subscription(connection: Connection) -> None:
    async with connection.subscribe("g", start="now"):
        pass


async def begin_secret(connection: Connection) -> None:
    await connection.join("g", secret=SharedSecret(b"s" * 32))


@pytest.mark.parametrize(
    "begin",
    [
        begin_mutex,
        begin_election,
        begin_replica,
        begin_work,
        begin_subscription,
        begin_secret,
    ],
)
@pytest.mark.parametrize("reconnect", [False, True])
async def test_what_needs_views_refuses_a_connection_without_them(
    cluster: RunningCluster, begin: Any, reconnect: bool
) -> None:
    address = cluster.address("a")
    async with connect(address, views=False, reconnect=reconnect) as connection:
        with trio.fail_after(20), pytest.raises(LocalProtocolError, match="views"):
            await begin(connection)
        assert not connection.groups


async def test_a_connection_that_resumes_needs_views(cluster: RunningCluster) -> None:
    with pytest.raises(LocalProtocolError, match="views=False"):
        async with connect(cluster.address("a"), views=False, reconnect=True, resume=True):
            pass
    async with connect(cluster.address("a"), reconnect=True, resume=["other"]) as connection:
        with pytest.raises(LocalProtocolError, match="without views"):
            await connection.join("other", views=False)
        await connection.join("g", views=False)
