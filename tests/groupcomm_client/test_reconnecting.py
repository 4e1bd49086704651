"""A connection that outlasts its daemon, and says what may have been missed: all three kinds."""

import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import trio

from groupcomm.errors import CannotConnect, LocalProtocolError, OrderUnknown, SessionEnded
from groupcomm.events import GroupView, Message
from groupcomm_client import Reconnected
from groupcomm_tools.local_cluster import LocalCluster, LocalDaemon
from tests.groupcomm_client.kinds import Kind, once_sent, played, until_accepted

PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with closing(LocalCluster("ab")) as running:
        for name in "ab":
            trio.run(running[name].start)
        trio.run(running.settle, "ab")
        yield running


def starting(daemon: LocalDaemon) -> threading.Thread:
    """Start a daemon while the test goes on."""
    thread = threading.Thread(target=trio.run, args=(daemon.start,))
    thread.start()
    return thread


def settle(cluster: LocalCluster) -> None:
    """Wait until both daemons are in one view, so that each program's messages reach the other."""
    thread = threading.Thread(target=trio.run, args=(cluster.settle, "ab"))
    thread.start()
    thread.join()


async def until(kind: Kind, connection: Any, wanted: type) -> list[Any]:
    """All events up to the first of a class."""
    found: list[Any] = []
    while not found or not isinstance(found[-1], wanted):
        found.append(await kind.receive(connection, PATIENCE_S))
        assert found[-1] is not None, f"no {wanted.__name__} comes behind {found}"
    return found


@played
async def test_groups_are_joined_again_and_the_gap_is_reported(
    kind: Kind, cluster: LocalCluster
) -> None:
    async with (
        kind.connect(str(cluster["a"].unix), "ann", reconnect=True) as ann,
        kind.connect(str(cluster["b"].unix), "bob") as bob,
    ):
        await ann.join("g")
        first = ann.member
        await bob.multicast("g", b"one")
        one = (await until(kind, ann, Message))[-1]
        cluster["a"].kill()
        await bob.multicast_ordered("g", b"missed")
        starting(cluster["a"]).join()
        settle(cluster)
        told = (await until(kind, ann, Reconnected))[-1]
        assert told.last == one.position
        assert "lost" in told.why
        assert (told.member.name, told.member != first) == (first.name, True)
        assert (await until(kind, ann, GroupView))[-1].members == (told.member,)
        await bob.multicast("g", b"two")
        assert (await until(kind, ann, Message))[-1].data == b"two"


@played
async def test_what_was_sent_is_in_doubt_until_it_is_accepted(
    kind: Kind, cluster: LocalCluster
) -> None:
    async with kind.connect(str(cluster["a"].unix), reconnect=True) as ann:
        await ann.join("g")
        await ann.multicast("g", b"x")
        await until(kind, ann, Message)
        await until_accepted(kind, ann)
        cluster["a"].signal(signal.SIGSTOP)
        with once_sent(ann, cluster["a"].kill), pytest.raises(OrderUnknown):
            await ann.multicast_ordered("g", b"y")
        start = starting(cluster["a"])
        await ann.multicast("g", b"z")  # this message waits for the next session
        start.join()
        assert (await until(kind, ann, Reconnected))[-1].in_doubt == 1
        assert (await until(kind, ann, Message))[-1].data == b"z"


@played
async def test_many_tasks_share_one_attempt(kind: Kind, cluster: LocalCluster) -> None:
    async with kind.connect(str(cluster["a"].unix), reconnect=True) as ann:
        await ann.join("g")
        events: list[Any] = []

        async def listen() -> None:  # while the others send
            while sum(isinstance(event, Message) for event in events) < 19:
                events.extend(await until(kind, ann, Message))

        async def send(number: int) -> None:
            await ann.multicast("g", b"%d" % number)

        await until(kind, ann, GroupView)
        await until_accepted(kind, ann)
        cluster["a"].kill()
        starting(cluster["a"]).join()
        # The first message may go to the daemon that is dead.
        await kind.together(listen, *(lambda n=n: send(n) for n in range(20)))
        (told,) = [event for event in events if isinstance(event, Reconnected)]
        assert told.in_doubt <= 1, "the others waited for the next session"
        assert not any(isinstance(event, Message) for event in events[: events.index(told)])


@played
async def test_giving_up_while_there_is_no_session_loses_nothing(
    kind: Kind, cluster: LocalCluster
) -> None:
    async with kind.connect(str(cluster["a"].unix), reconnect=True) as ann:
        for group in ("g", "h"):
            await ann.join(group)
        await ann.leave("h")
        cluster["a"].kill()
        waited = 0
        while waited < 3:  # earlier events come first
            waited += await kind.receive(ann, 0.05) is None
        start = starting(cluster["a"])
        events: list[Any] = []
        wait_s = 0.002
        while not events or not isinstance(events[-1], GroupView):
            event = await kind.receive(ann, wait_s)
            wait_s = min(1.0, 1.2 * wait_s)  # a call that is given up begins anew
            events += [event] if event is not None else []
        start.join()
        assert [type(event) for event in events].count(Reconnected) == 1
        assert events[-1].members == (ann.member,)
        assert list(ann.groups) == ["g"]
        await ann.multicast("g", b"here")
        assert (await until(kind, ann, Message))[-1].data == b"here"


@played
async def test_what_is_refused_leaves_the_groups_as_they_were(
    kind: Kind, cluster: LocalCluster
) -> None:
    async with kind.connect(str(cluster["a"].unix), reconnect=True) as ann, ann.group("g"):
        for name in ("g", "#bad"):
            with pytest.raises(LocalProtocolError):
                await ann.join(name)
        with pytest.raises(LocalProtocolError):
            await ann.leave("never joined")
        cluster["a"].kill()
        starting(cluster["a"]).join()
        await until(kind, ann, Reconnected)
        assert list(ann.groups) == ["g"]


@played
async def test_closing_it_ends_what_waits(kind: Kind, cluster: LocalCluster) -> None:
    for reconnect in (True, False):
        async with kind.connect(str(cluster["a"].unix), reconnect=reconnect) as ann:
            await ann.join("g")

            async def read_all(connection: Any) -> None:
                while await kind.receive(connection, PATIENCE_S) is not None:
                    continue

            async def listen(connection: Any = ann) -> None:
                with pytest.raises(SessionEnded):
                    await read_all(connection)

            async def close(connection: Any = ann) -> None:
                await connection.aclose()

            await kind.together(listen, close)


@played
async def test_without_a_daemon_the_first_session_fails(kind: Kind, cluster: LocalCluster) -> None:
    with pytest.raises(CannotConnect):
        async with kind.connect(str(cluster.folder / "no.sock"), reconnect=True):
            pass
