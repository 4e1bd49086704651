"""Clients of Spread at daemons of ours: each function and each kind of message of their protocol.

docs/spread-clients.md has the table of these.
"""

import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, closing
from typing import TypeVar

import pytest
import trio

from groupcomm.events import Message
from groupcomm.level import ServiceLevel
from groupcomm.session.spread.session import HELD_BYTES
from groupcomm_client import Connection
from groupcomm_client import connect as connect_own
from groupcomm_client.end_to_end import KeyChanged, SharedSecret, Unreadable
from groupcomm_tools.local_cluster import LocalCluster
from tests.groupcommd import spread_client as spread
from tests.groupcommd.spread_client import SpreadClient, connect

E = TypeVar("E")

GONE = spread.REGULAR_VIEW | spread.BY_DISCONNECT


class Site:
    """Daemons, and clients at them in turn."""

    def __init__(self, cluster: LocalCluster, stack: AsyncExitStack) -> None:
        self.cluster = cluster
        self._stack = stack
        self._names = sorted(cluster.daemons)
        self._count = 0

    def _next(self) -> str:
        self._count += 1
        return self._names[(self._count - 1) % len(self._names)]

    async def client(
        self, user: str, *, views: bool = True, big_endian: bool = False
    ) -> SpreadClient:
        """Return a client at the next daemon."""
        where = self.cluster[self._next()].spread
        client = await connect(where, user, views=views, big_endian=big_endian)
        return await self._stack.enter_async_context(client)

    async def own(self, user: str) -> Connection:
        """Return one of our own clients at the next daemon."""
        where = str(self.cluster[self._next()].unix)
        return await self._stack.enter_async_context(connect_own(where, user=user))


@pytest.fixture(scope="module", params=["a", "abc"])
def daemons(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """One daemon, or three in one view."""
    with closing(LocalCluster(request.param)) as running:
        trio.run(running.__aenter__)
        trio.run(running.settle, request.param)
        yield running


@pytest.fixture
async def site(daemons: LocalCluster) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        yield Site(daemons, stack)
    async with await connect(daemons["a"].spread, "last") as last:
        await last.join("room")  # the next test finds the group empty
        while (await last.view()).groups != (last.name,):
            pass


@pytest.fixture(scope="module")
def alone() -> Iterator[LocalCluster]:
    """A daemon where clients of Spread may connect by TCP, too."""
    with closing(LocalCluster("a", clients="spread = true")) as running:
        trio.run(running.__aenter__)
        yield running


async def joined(group: str, clients: Sequence[SpreadClient]) -> list[spread.Received]:
    """Have clients join one after the other; return the views of the last join, one from each."""
    for count, client in enumerate(clients, 1):
        await client.join(group)
        views = [await member.view(group) for member in clients[:count]]
    return views


async def test_views_tell_of_joins_and_leaves_and_ends(site: Site) -> None:
    ann, ben, cat = [await site.client(user) for user in ("ann", "ben", "cat")]
    views = await joined("room", [ann, ben, cat])
    members = tuple(sorted((c.name for c in (ann, ben, cat)), key=by_daemon))
    for view in views:
        assert (view.type, view.sender) == (spread.REGULAR_VIEW | spread.BY_JOIN, "room")
        assert view.groups == members
        assert view.sets == [(cat.name,)]
        assert view.own_set == (cat.name,)
    assert len({view.group_id for view in views}) == 1

    await cat.leave("room")
    own = await cat.receive()
    assert (own.type, own.sender, own.groups, own.data) == (spread.BY_LEAVE, "room", (), b"")
    left = [await client.view() for client in (ann, ben)]
    for view in left:
        assert view.type == spread.REGULAR_VIEW | spread.BY_LEAVE
        assert view.groups == tuple(name for name in members if name != cat.name)
        assert view.sets == [(cat.name,)]
    assert left[0].group_id == left[1].group_id != views[0].group_id

    await ben.disconnect()
    view = await ann.view()
    assert view.type == spread.REGULAR_VIEW | spread.BY_DISCONNECT
    assert (view.groups, view.sets) == ((ann.name,), [(ben.name,)])

    await cat.join("room")
    await ann.view()
    await cat.close()  # an end without a word looks like a goodbye
    view = await ann.view()
    assert (view.type, view.sets) == (spread.REGULAR_VIEW | spread.BY_DISCONNECT, [(cat.name,)])


def by_daemon(name: str) -> list[str]:
    return name.split("#")[::-1]


async def test_messages_of_all_services_come_as_they_were_sent(site: Site) -> None:
    ann = await site.client("ann")
    ben = await site.client("ben", big_endian=True)
    await joined("room", [ann, ben])
    services = [1 << bit for bit in range(6)]
    for tag, service in zip((0, 1, 0x7FFF, 0x8000, 0xFFFF, 0x1234), services, strict=True):
        for sender, swapped in ((ann, False), (ben, True)):
            await sender.multicast("room", b"%d" % service, service, tag)
            for receiver, big in ((ann, False), (ben, True)):
                found = await receiver.text()
                assert (found.type, found.sender, found.groups) == (service, sender.name, ("room",))
                assert (found.tag, found.data) == (tag, b"%d" % service)
                assert found.mismatch == (swapped != big)
    await ann.multicast("room", b"", spread.SAFE | spread.SELF_DISCARD)
    found = await ben.text()
    assert (found.type, found.data) == (spread.SAFE | spread.SELF_DISCARD, b"")
    await ann.multicast(ann.name, b"to myself")
    assert (await ann.text()).data == b"to myself"  # the message before does not come


async def test_groups_and_private_names_each_get_a_message_once(site: Site) -> None:
    ann, ben, eve = [await site.client(user) for user in ("ann", "ben", "eve")]
    await joined("one", [ann, ben])
    await joined("two", [ben])
    groups = ["one", "two", ben.name, "none", "#nobody#a", "#x"]
    await eve.multicast(groups, b"to all", tag=5)
    for client in (ann, ben):
        found = await client.text()
        assert (found.sender, found.data, found.tag) == (eve.name, b"to all", 5)
        assert found.groups == ("one", "two", ben.name, "none", "#nobody#a")
    await eve.raw(eve.message(spread.AGREED, []))  # a message to no group reaches nobody
    await eve.multicast(ben.name, b"alone", spread.FIFO)
    found = await ben.text()
    assert (found.groups, found.data, found.type) == ((ben.name,), b"alone", spread.FIFO)


async def test_a_hundred_groups_and_the_largest_message_arrive(site: Site) -> None:
    ann, ben = await site.client("ann"), await site.client("ben")
    short = [f"g{number}" for number in range(100)]
    await joined(short[-1], [ann])
    await ben.multicast(short, b"x" * (144_000 - 3200))
    found = await ann.text()
    assert (found.groups, len(found.data)) == (tuple(short), 144_000 - 3200)
    long = [f"{number:031}" for number in range(100)]  # their names fill more than a packet
    await joined(long[0], [ann])
    await joined(long[-1], [ann])
    await ben.multicast(long, b"y" * 5000)
    await ben.multicast(long[-1], b"behind it")
    found = await ann.text()
    assert (found.data, long[0] in found.groups) == (b"y" * 5000, True)
    assert (await ann.text()).data == b"behind it"  # the message came once, whatever its parts
    await ben.multicast("g99", b"z" * (144_000 - 32))
    assert (await ann.text()).data == b"z" * (144_000 - 32)


async def test_who_wants_no_views_gets_messages_alone(site: Site) -> None:
    ann, ben = await site.client("ann", views=False), await site.client("ben")
    await ann.join("room")
    await ann.multicast(ann.name, b"mine")
    assert (await ann.receive()).data == b"mine"  # its join is ordered by now
    await joined("room", [ben])
    await ben.multicast("room", b"hello")
    assert (await ann.receive()).data == b"hello"
    await ann.leave("room")
    assert (await ben.view()).type == spread.REGULAR_VIEW | spread.BY_LEAVE
    await ann.multicast(ann.name, b"last")
    assert (await ann.receive()).data == b"last"


async def test_joining_twice_and_leaving_nothing_changes_nothing(site: Site) -> None:
    ann = await site.client("ann")
    await ann.leave("room")
    await ann.join("room")
    await ann.join("room")
    await ann.join("#x")  # no group here can have such a name
    await ann.raw(ann.message(spread.JOIN, []) + ann.message(spread.LEAVE, []))
    await ann.multicast("room", b"once", spread.SAFE)
    found = [await ann.receive() for _ in range(2)]
    assert [message.type for message in found] == [0x1100, spread.SAFE]


async def test_both_kinds_of_programs_share_a_group(site: Site) -> None:
    ann, ben = await site.client("ann"), await site.own("a-name-longer-than-theirs")
    await joined("room", [ann])
    await ben.join("room")
    view = await ann.view()
    alias = next(name for name in view.groups if name != ann.name)
    assert len(alias) <= 31
    assert view.sets == [(alias,)]
    await ann.multicast("room", b"hello", spread.FIFO, tag=9)
    heard = await message_of(ben)
    assert (heard.data, heard.type, heard.groups) == (b"hello", 9, ("room",))
    assert heard.sender.name == ann.name
    assert heard.level is ServiceLevel.AGREED  # programs may rely on this level
    assert (await ann.text()).data == b"hello"

    await ben.multicast("room", b"x" * 500_000, level=ServiceLevel.CAUSAL, type=3)
    found = await ann.text()
    assert (found.type, found.sender, found.tag) == (spread.CAUSAL, alias, 3)
    assert found.data == b"x" * 500_000
    await message_of(ben)

    await ann.multicast(alias, b"to you")
    assert (await message_of(ben)).data == b"to you"
    await ben.multicast(ann.name, b"to you, too")
    found = await ann.text()
    assert (found.data, found.groups) == (b"to you, too", (ann.name,))


async def test_no_message_of_ours_ends_a_client_of_spread(alone: LocalCluster) -> None:
    daemon = alone["a"]
    async with (
        await connect(daemon.spread, "ann") as ann,
        await connect(daemon.spread, "cat") as cat,
        connect_own(str(daemon.unix), user="ben") as ben,
    ):
        await joined("room", [ann, cat])
        await ben.multicast("room", b"before")
        await ben.multicast(["room", ann.name], b"x" * (HELD_BYTES + 1))
        await ben.multicast("room", b"behind")
        for client in (ann, cat):
            assert [(await client.text()).data for _ in range(2)] == [b"before", b"behind"]
    with trio.fail_after(20):
        while sum("client of Spread, does not get" in line["text"] for line in daemon.lines()) < 2:
            await trio.sleep(0.01)


async def test_who_has_no_secret_gets_sealed_bytes_and_nothing_breaks(site: Site) -> None:
    secret, words = SharedSecret(b"s" * 32), b"we meet at noon"
    ann, eve, ben = await site.own("ann"), await site.client("eve"), await site.own("ben")
    await ann.join("room", secret=secret)
    await eve.join("room")
    await ben.join("room", secret=secret)
    await key_of(ann, readers=2)
    await key_of(ben, readers=2)
    await ann.multicast("room", words, type=7)
    assert (await message_of(ben)).data == words
    while (found := await eve.text()).tag != 7:  # messages of the key agreement arrive sealed, too
        assert words not in found.data
    assert len(found.data) > len(words)
    assert words not in found.data

    await eve.multicast("room", b"in the clear")  # members do not receive it as a message
    for member in (ann, ben):
        unreadable = await event_of(member, Unreadable)
        assert unreadable.message.data == b"in the clear"
    await eve.leave("room")
    await ann.multicast("room", b"later")
    assert (await message_of(ben)).data == b"later"
    while (left := await eve.receive()).type != spread.BY_LEAVE:
        assert b"later" not in left.data


async def key_of(connection: Connection, *, readers: int) -> None:
    """Wait until this many have the key."""
    while len((await event_of(connection, KeyChanged)).readers) != readers:
        pass


async def event_of(connection: Connection, kind: type[E]) -> E:
    """Return the next event of a kind, at one of our own clients; skip others."""
    with trio.fail_after(20):
        async for event in connection:
            if isinstance(event, kind):
                return event
    raise AssertionError("the connection has ended")


async def message_of(connection: Connection) -> Message:
    """Return the next message at one of our own clients."""
    return await event_of(connection, Message)


@pytest.mark.parametrize("version", [(3, 14), (3, 15, 0), (3, 17, 4), (4, 4, 0), (5, 0, 1)])
async def test_libraries_of_all_versions_are_admitted(
    alone: LocalCluster, version: tuple[int, ...]
) -> None:
    for where in (alone["a"].spread, alone["a"].spread_tcp):
        for flags in (0x00, 0x10):
            async with await connect(where, "ann", version=version, flags=flags) as ann:
                assert ann.name == "#ann#a"
                assert ann.version == (5, 0, 1)[: len(version)]
                await ann.join("room")
                assert (await ann.view()).groups == ("#ann#a",)


@pytest.mark.parametrize("version", [b"\4\4\0", b"\3\x0e"])
async def test_a_name_in_use_is_refused_in_place_of_the_methods(
    alone: LocalCluster, version: bytes
) -> None:
    """A client in pure Perl waits for its own answer to any list, and would wait for ever."""
    for where in (alone["a"].spread, alone["a"].spread_tcp):
        async with await connect(where, "ann"), await spread.open_stream(where) as second:
            with trio.fail_after(spread.WAIT_S):
                await second.send_all(version + b"\1\3ann")
                assert await second.receive_some() == b"\xfa"
                assert await second.receive_some() == b""


async def test_joins_of_several_programs_keep_the_order_in_which_they_came(
    alone: LocalCluster,
) -> None:
    """Also if all have come before the daemon reads any of them; an event loop mixes them."""
    daemon = alone["a"]
    async with AsyncExitStack() as stack:
        users = [f"u{number}" for number in range(6)]
        programs = [
            await stack.enter_async_context(await connect(daemon.spread, user)) for user in users
        ]
        for group, order in (("up", programs), ("down", programs[::-1])):
            os.kill(daemon.pid, signal.SIGSTOP)
            try:
                for program in order:
                    await program.join(group)
            finally:
                os.kill(daemon.pid, signal.SIGCONT)
            shown = [await order[0].view(group) for _ in order]
            assert [view.groups for view in shown] == [
                tuple(sorted(each.name for each in order[: count + 1]))
                for count in range(len(order))
            ]


async def test_who_is_not_admitted_learns_their_code(alone: LocalCluster) -> None:
    where = alone["a"].spread
    async with await connect(where, "ann"), await connect(where), await connect(where):
        for user, version, methods, code in (
            ("ann", (4, 4, 0), (b"NULL",), -6),
            ("a#b", (4, 4, 0), (b"NULL",), -5),
            ("a b", (4, 4, 0), (b"NULL",), -5),
            ("elevenbytes", (4, 4, 0), (b"NULL",), -5),
            ("ben", (2, 0, 0), (b"NULL",), -7),
            ("ben", (4, 4, 0), (), -9),
            ("ben", (4, 4, 0), (b"NULL", b"JUNK"), -9),
            ("ben", (4, 4, 0), (b"IP",), -9),
        ):
            with pytest.raises(spread.Rejected) as refused:
                await connect(where, user, version=version, methods=methods)
            assert refused.value.code == code, user
    for chosen in ((b"NULL",) * 3, (b"NULL", b"", b"JUNK")):
        async with await connect(where, "ben", methods=chosen) as ben:
            assert ben.name == "#ben#a"


async def test_a_name_is_free_as_soon_as_its_session_has_ended(alone: LocalCluster) -> None:
    for count in range(20):
        ann = await connect(alone["a"].spread, "ann")
        assert ann.name == "#ann#a"
        await (ann.disconnect() if count % 2 else ann.close())


async def test_a_lost_daemon_shows_as_a_transition_and_a_view_of_the_rest() -> None:
    async with LocalCluster("abc") as cluster, AsyncExitStack() as stack:
        await cluster.settle("abc")
        clients: list[SpreadClient] = []
        for daemon in "abcab":
            user = f"u{len(clients)}"
            client = await connect(cluster[daemon].spread, user)
            clients.append(await stack.enter_async_context(client))
        before = await joined("room", clients)
        await joined("near", clients[:2])  # it loses no member, and hears of nothing
        path = cluster["c"].spread
        cluster["c"].kill()
        assert path.exists()  # the daemon has to replace it when it starts again
        survivors = [client for client in clients if not client.name.endswith("#c")]
        views = []
        for client in survivors:
            found = await client.receive()
            assert (found.type, found.sender, found.groups) == (spread.TRANSITION, "room", ())
            assert found.data == before[0].group_id
            views.append(await client.receive())
        names = tuple(sorted((client.name for client in survivors), key=by_daemon))
        for view in views:
            assert (view.type, view.sender) == (spread.REGULAR_VIEW | spread.BY_NETWORK, "room")
            assert view.groups == names
            assert [set(names) for names in view.sets] == [set(view.groups)]
            assert view.own_set == view.sets[0]
        assert len({view.group_id for view in views}) == 1
        await cluster["c"].start()
        await cluster.settle("abc")
        back = await stack.enter_async_context(await connect(cluster["c"].spread, "u2"))
        await back.join("room")
        for client in survivors:
            while (view := await client.view()).type != spread.REGULAR_VIEW | spread.BY_JOIN:
                check_sets(view, client)
            assert view.groups == before[0].groups
        assert await cluster["c"].leave() == 0
        assert not path.exists()
        for client in survivors:  # the sessions ended before the daemon left
            while (view := await client.view("room")).type != GONE:
                check_sets(view, client)
            assert view.sets == [(back.name,)]


def check_sets(view: spread.Received, client: SpreadClient) -> None:
    """Check that sets have each member once, and clients of one daemon together.

    On a slow machine two daemons that stay may lose each other for a moment: two sets, then.
    """
    assert sorted(name for names in view.sets for name in names) == sorted(view.groups)
    daemons = [{name.split("#")[2] for name in names} for names in view.sets]
    assert sum(map(len, daemons)) == len(set().union(*daemons))
    assert client.name in view.own_set
    assert view.own_set in view.sets
