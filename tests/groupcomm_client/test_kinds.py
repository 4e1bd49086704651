"""The behaviour of every kind of connection: trio, asyncio, blocking."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final

import pytest

from groupcomm.errors import CannotConnect, LocalProtocolError, OrderUnknown, SessionEnded
from groupcomm.events import Cause, DaemonView, GroupView, Message, Undeliverable
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm_client import blocking
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.kinds import (
    PATIENCE_S,
    Kind,
    next_of,
    once_sent,
    played,
    until_accepted,
)

MOMENT_S: Final = 0.2


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("ab") as running:
        yield running


@played
async def test_all_levels_reach_all_members(kind: Kind, cluster: RunningCluster) -> None:
    async with (
        kind.connect(cluster.address("a"), "ann") as ann,
        kind.connect(cluster.address("b"), "bob") as bob,
    ):
        view = await ann.join("levels")
        assert view.members == (ann.member,)
        await bob.join("levels")
        for level in LEVELS:
            await ann.multicast("levels", level.name.encode(), level=level, type=int(level))
        for each in (ann, bob):
            got = [await next_of(kind, each, Message) for _ in LEVELS]
            assert {(m.level, m.type, m.data, m.sender) for m in got} == {
                (level, int(level), level.name.encode(), ann.member) for level in LEVELS
            }
        assert list(bob.groups) == ["levels"]
        assert bob.view.daemons == ("a", "b")


@played
async def test_a_program_that_has_only_joined_has_nothing_in_doubt(
    kind: Kind, cluster: RunningCluster
) -> None:
    """It had -1 messages in doubt: joins are numbered as messages are."""
    async with kind.connect(cluster.address("a")) as ann:
        await ann.join("joined")
        assert ann.in_doubt == 0


@played
async def test_the_place_of_a_message_is_reported(kind: Kind, cluster: RunningCluster) -> None:
    async with kind.connect(cluster.address("a")) as ann:
        await ann.join("places")
        place = await ann.multicast_ordered("places", b"x", level=ServiceLevel.SAFE)
        message = await next_of(kind, ann, Message)
        assert (message.position, place.transitional) == (place.position, False)
        await until_accepted(kind, ann)


@pytest.mark.parametrize("reconnect", [False, True])
@played
async def test_who_asks_learns_the_causes_of_messages(
    kind: Kind, cluster: RunningCluster, reconnect: bool
) -> None:
    async with (
        kind.connect(cluster.address("a"), causes=True, reconnect=reconnect) as ann,
        kind.connect(cluster.address("b")) as bob,
    ):
        for each in (ann, bob):
            await each.join("causes")
        await bob.multicast("causes", b"1", level=ServiceLevel.RELIABLE)
        told = (await next_of(kind, ann, Message)).causes
        assert (told.packet > 0, told.agreed, told.heard) == (True, None, ())
        assert (await next_of(kind, bob, Message)).causes is None
        await bob.multicast("causes", b"2", level=ServiceLevel.CAUSAL)
        causal = (await next_of(kind, ann, Message)).causes
        assert causal.packet > told.packet
        assert causal.heard[0] >= told.packet, "bob was delivered his own message"
        assert causal.agreed.time > 0


@played
async def test_large_and_many_messages_arrive_whole_and_in_order(
    kind: Kind, cluster: RunningCluster
) -> None:
    large = bytes(range(256)) * 12_000
    many = [b"%d" % number for number in range(5_000)]
    async with (
        kind.connect(cluster.address("a")) as ann,
        kind.connect(cluster.address("b")) as bob,
    ):
        await bob.join("large")
        await ann.multicast("large", large)
        assert (await next_of(kind, bob, Message)).data == large
        assert await ann.multicast_many("large", many) == len(many)
        got: list[bytes] = []
        while len(got) < len(many):
            got += [e.data for e in await bob.receive_batch() if isinstance(e, Message)]
        assert got == many


@played
async def test_what_was_taken_before_its_maker_failed_is_sent(
    kind: Kind, cluster: RunningCluster
) -> None:
    def made() -> Iterator[bytes]:
        yield from (b"1", b"2", b"3")
        raise ValueError("there is no fourth")

    async with kind.connect(cluster.address("a")) as ann:
        await ann.join("made")
        with pytest.raises(ValueError, match="no fourth"):
            await ann.multicast_many("made", made())
        await ann.multicast("made", b"5")
        got = [await next_of(kind, ann, Message) for _ in range(4)]
        assert [message.data for message in got] == [b"1", b"2", b"3", b"5"]
        first = got[0].number
        assert [message.number for message in got] == list(range(first, first + 4))
        await until_accepted(kind, ann)


def test_what_makes_messages_may_send_itself(cluster: RunningCluster) -> None:
    with blocking.connect(cluster.address("a")) as ann:
        ann.join("made")

        def made() -> Iterator[bytes]:
            for number in range(3):
                ann.multicast("made", b"about to make %d" % number)
                yield b"%d" % number

        assert ann.multicast_many("made", made()) == 3
        got: list[bytes] = []
        while len(got) < 6:
            event = ann.receive(PATIENCE_S)
            got += [event.data] if isinstance(event, Message) else []
        told = [b"about to make %d" % number for number in range(3)]
        assert got == [*told, b"0", b"1", b"2"]


def test_a_place_in_the_order_that_another_thread_reads_at_once_is_not_lost(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor() as threads, blocking.connect(cluster.address("a")) as ann:
        others: list[Future[object]] = []
        requests = ann.protocol._requests
        expect_order = requests.expect_order

        def late(number: int) -> Any:
            monkeypatch.undo()
            others.append(threads.submit(ann.multicast, "made", b"it writes both"))
            others.append(threads.submit(ann.ask, "groups"))  # this thread reads the answers to all
            wait(others, MOMENT_S)
            return expect_order(number)

        monkeypatch.setattr(requests, "expect_order", late)
        ordered = threads.submit(ann.multicast_ordered, "made", b"placed")
        done, _ = wait([ordered], PATIENCE_S)
        assert done, "nothing tells of its place"
        assert [other.exception() for other in others] == [None, None]


@played
async def test_private_messages_reach_one_or_come_back(kind: Kind, cluster: RunningCluster) -> None:
    async with kind.connect(cluster.address("a")) as ann:
        await ann.join("private")
        async with kind.connect(cluster.address("b")) as bob:
            await bob.join("private")
            while len(ann.groups["private"].members) < 2:  # until its daemon knows of bob
                await next_of(kind, ann, GroupView)
            await ann.multicast(bob.name, b"psst")
            assert (await next_of(kind, bob, Message)).data == b"psst"
            name = bob.name
        await ann.multicast(name, b"too late")
        assert (await next_of(kind, ann, Undeliverable)).target == name


@played
async def test_coming_and_going_members_are_reported_with_the_cause(
    kind: Kind, cluster: RunningCluster
) -> None:
    async with kind.connect(cluster.address("a")) as ann:
        await ann.join("room")
        async with kind.connect(cluster.address("b")) as bob:
            async with bob.group("room"):
                pass
            await bob.join("room")
        causes = [(await next_of(kind, ann, GroupView)).cause for _ in range(5)]
        assert causes == [Cause.JOIN, Cause.JOIN, Cause.LEAVE, Cause.JOIN, Cause.DISCONNECT]
        await ann.leave("room")
        assert ann.groups == {}


@played
async def test_a_call_that_is_given_up_loses_nothing(kind: Kind, cluster: RunningCluster) -> None:
    async with kind.connect(cluster.address("a")) as ann:
        await ann.join("patience")
        got: list[bytes] = []
        for number in range(100):
            await ann.multicast("patience", b"%d" % number)
            event = await kind.receive(ann, 0.0005)
            got += [event.data] if isinstance(event, Message) else []
        while len(got) < 100:
            got.append((await next_of(kind, ann, Message)).data)
        assert got == [b"%d" % number for number in range(100)]


@played
async def test_what_is_wrong_is_reported_and_changes_nothing(
    kind: Kind, cluster: RunningCluster
) -> None:
    async with kind.connect(cluster.address("a"), "eve") as eve:
        await eve.join("wrong")
        with pytest.raises(LocalProtocolError, match="has joined"):
            await eve.join("wrong")
        with pytest.raises(LocalProtocolError, match="it must be 0 to 65535"):
            await eve.multicast("wrong", b"", type=70_000)
        with pytest.raises(SessionEnded, match="has a session of user 'eve' already"):
            async with kind.connect(cluster.address("a"), "eve"):
                pass
        assert (await eve.ask("groups"))["groups"] == {"wrong": 1}
    with pytest.raises(CannotConnect, match="is the daemon running"):
        async with kind.connect(cluster.address("a") + ".nobody"):
            pass
    with pytest.raises(CannotConnect, match="Connection refused"):
        async with kind.connect("127.0.0.1:1"):
            pass


def test_the_end_of_the_daemon_is_reported(kind: Kind) -> None:
    async def scenario(kind: Kind, alone: RunningCluster) -> None:
        async with kind.connect(alone.address("a")) as ann:
            await ann.join("g")
            await next_of(kind, ann, DaemonView)
            alone.pause("a")
            with once_sent(ann, lambda: alone.kill("a")), pytest.raises(OrderUnknown):
                await ann.multicast_ordered("g", b"x")
            with pytest.raises(SessionEnded, match="connection to the daemon was lost"):
                await next_of(kind, ann, Undeliverable)
            with pytest.raises(SessionEnded):
                await ann.multicast("g", b"x")

    with RunningCluster(1) as alone:
        kind.run(scenario, alone)
