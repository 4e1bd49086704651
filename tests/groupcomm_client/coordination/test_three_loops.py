"""Coordination under trio, asyncio and threads: the same scenarios, on real daemons."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from groupcomm.errors import SessionEnded
from groupcomm_client.blocking import BlockingConnection, connect
from groupcomm_client.connection import Connection
from groupcomm_client.coordination import (
    CallFailed,
    LeadershipLost,
    MutexLost,
    Request,
    blocking,
    calling,
    join_mutex,
    replicate,
    serve,
    stand,
)
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.coordination.ledger import Ledger
from tests.groupcomm_client.kinds import PATIENCE_S, Kind, played


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("ab") as running:
        yield running


def awaited(connection: Any) -> Connection:
    """The connection that coordination takes; of threads, the one behind the blocking one."""
    found: Connection = connection.wrapped.awaited if hasattr(connection, "wrapped") else connection
    return found


@played
async def test_one_holder_at_a_time(kind: Kind, cluster: RunningCluster) -> None:
    inside: list[str] = []
    most = 0

    async def compete(daemon: str) -> None:
        nonlocal most
        async with (
            kind.connect(cluster.address(daemon)) as connection,
            join_mutex(awaited(connection), "press") as mutex,
        ):
            for _ in range(5):
                async with mutex:
                    inside.append(daemon)
                    most = max(most, len(inside))
                    await connection.ask("groups")  # other tasks get their turn
                    inside.remove(daemon)

    await kind.together(lambda: compete("a"), lambda: compete("b"))
    assert most == 1


@played
async def test_replicas_apply_the_same_commands(kind: Kind, cluster: RunningCluster) -> None:
    first, second = Ledger(), Ledger()
    async with (
        kind.connect(cluster.address("a")) as one,
        kind.connect(cluster.address("b")) as other,
        replicate(awaited(one), "ledger", first) as here,
    ):
        assert await here.submit(b'["x", 5]') == 5
        async with replicate(awaited(other), "ledger", second) as there:
            await there.until_current()
            assert await there.submit(b'["x", -2]') == 3
            await here.driver.until(lambda: first.numbers == second.numbers)
            assert first.numbers == {"x": 3, "members": 2}


@played
async def test_the_next_candidate_leads_when_the_leader_goes(
    kind: Kind, cluster: RunningCluster
) -> None:
    async with kind.connect(cluster.address("b")) as other:
        async with (
            kind.connect(cluster.address("a")) as one,
            stand(awaited(one), "leaders") as first,
            first.leading(),
            stand(awaited(other), "leaders") as second,
        ):
            assert await second.until_changed(None) == one.member
            assert not second.leads
        async with stand(awaited(other), "leaders") as second:
            await second.until_leading()
            assert second.leader == other.member


@pytest.mark.parametrize("held", ["mutex", "leadership"])
@played
async def test_what_a_block_waits_for_ends_when_the_session_does(
    kind: Kind, cluster: RunningCluster, held: str
) -> None:
    async def hold_mutex(mine: Connection, other: Any) -> None:
        async with join_mutex(mine, "lost") as mutex, mutex:
            mine.close_socket()
            await until_cancelled(other)

    async def hold_leadership(mine: Connection, other: Any) -> None:
        async with stand(mine, "lost") as election, election.leading():
            mine.close_socket()
            await until_cancelled(other)

    async def until_cancelled(other: Any) -> None:
        while True:
            await other.receive()

    async with (
        kind.connect(cluster.address("a")) as other,
        kind.connect(cluster.address("a")) as connection,
    ):
        mine = awaited(connection)
        lost = MutexLost if held == "mutex" else LeadershipLost
        hold = hold_mutex if held == "mutex" else hold_leadership
        with pytest.raises(lost):
            await hold(mine, other)


@played
async def test_requests_are_done_by_one_or_by_all(kind: Kind, cluster: RunningCluster) -> None:
    async def double(request: Request) -> bytes:
        return b"%d" % (2 * int(request.data))

    async with (
        kind.connect(cluster.address("a")) as one,
        kind.connect(cluster.address("b")) as other,
        kind.connect(cluster.address("b")) as asking,
    ):

        async def work(connection: Any) -> None:
            with pytest.raises(SessionEnded):
                await serve(awaited(connection), "doubler", double)

        async def ask() -> None:
            while len((await asking.ask("members doubler"))["members"]) < 2:
                continue
            async with calling(awaited(asking)) as caller:
                for number in range(20):
                    assert await caller.call("doubler", b"%d" % number) == b"%d" % (2 * number)
                replies = await caller.call_all("doubler", b"21")
                assert replies.data == {one.member: b"42", other.member: b"42"}
                with pytest.raises(CallFailed, match="ValueError: invalid literal"):
                    await caller.call("doubler", b"x")
            for connection in (one, other):
                await connection.aclose()

        await kind.together(lambda: work(one), lambda: work(other), ask)


def test_threads_find_the_same_with_calls_that_wait(cluster: RunningCluster) -> None:
    with ExitStack() as stack, ThreadPoolExecutor() as threads:
        one, other, third = (
            stack.enter_context(connect(cluster.address("ab"[at % 2]))) for at in range(3)
        )
        order: list[bytes] = []
        with (
            blocking.keep_resource(
                third, "printer", lambda _, data: order.append(data)
            ) as resource,
            blocking.join_mutex(one, "printer") as mutex,
        ):
            with mutex:
                assert (mutex.holds, mutex.queue) == (True, (one.member,))
                first = mutex.token
                blocking.use(mutex, b"page")
            with mutex:
                blocking.use(mutex, b"another page")
                assert mutex.token > first
            while resource.used < 2:
                one.ask("groups")
            assert (order, resource.refused) == ([b"page", b"another page"], [])
        with blocking.replicate(one, "book", Ledger()) as book:
            book.until_current()
            assert (book.is_current, book.submit(b'["x", 7]')) == (True, 7)
        with blocking.stand(one, "first") as election:
            election.until_leading()
            with election.leading():
                assert (election.leads, election.leader) == (True, one.member)
                assert election.term > first
            assert election.until_changed(None) == one.member
        server = threads.submit(blocking.serve, other, "echo", lambda request: request.data * 2)
        with blocking.calling(one) as caller:
            while not (one.ask("groups"))["groups"].get("echo"):
                continue
            assert caller.call("echo", b"ab") == b"abab"
            assert caller.call_all("echo", b"c").data == {other.member: b"cc"}
        other.close()
        assert isinstance(server.exception(PATIENCE_S), SessionEnded)


def test_a_thread_that_holds_the_mutex_keeps_others_of_its_program_out(
    cluster: RunningCluster,
) -> None:
    inside, most = 0, 0
    lock = threading.Lock()

    def go_in(connection: BlockingConnection, mutex: blocking.BlockingMutex) -> None:
        nonlocal inside, most
        with mutex:
            with lock:
                inside += 1
                most = max(most, inside)
            connection.ask("groups")
            with lock:
                inside -= 1

    with (
        connect(cluster.address("a")) as ann,
        blocking.join_mutex(ann, "threads") as mutex,
        ThreadPoolExecutor(4) as threads,
    ):
        for done in [threads.submit(go_in, ann, mutex) for _ in range(8)]:
            done.result(PATIENCE_S)
    assert (inside, most) == (0, 1)
