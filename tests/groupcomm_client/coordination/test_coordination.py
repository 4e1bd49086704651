"""The coordination library on real daemons, as programs use it."""

import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing

import pytest
import trio

from groupcomm.errors import ConfigError, SessionEnded
from groupcomm.events import MemberId
from groupcomm_client import Connection, connect
from groupcomm_client.coordination import (
    CallFailed,
    LeadershipLost,
    Mutex,
    MutexLost,
    NoReply,
    OutcomeUnknown,
    Replicated,
    Request,
    calling,
    join_mutex,
    keep_resource,
    replicate,
    serve,
    stand,
    use,
)
from groupcomm_client.coordination.mutex import FORMS
from groupcomm_tools.local_cluster import LocalCluster
from tests.groupcomm_client.coordination.ledger import Ledger

NAMES = "abc"
WAIT_S = 20.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with closing(LocalCluster(NAMES)) as running:
        for name in NAMES:
            trio.run(running[name].start)
        trio.run(running.settle, NAMES)
        yield running


@pytest.fixture(autouse=True)
async def in_time() -> AsyncIterator[None]:
    with trio.fail_after(WAIT_S):
        yield


def at(cluster: LocalCluster, daemon: str) -> str:
    return str(cluster[daemon].unix)


async def test_replicas_are_equal_and_a_joiner_gets_the_state(cluster: LocalCluster) -> None:
    first, second = Ledger(), Ledger()
    async with (
        connect(at(cluster, "a")) as one,
        connect(at(cluster, "b")) as other,
        replicate(one, "ledger", first) as here,
    ):
        assert await here.submit(b'["x", 5]') == 5
        async with replicate(other, "ledger", second) as there:
            await there.until_current()
            assert second.numbers == {"x": 5, "members": 2}
            assert await there.submit(b'["x", -2]') == 3
            assert await here.submit(b'["y", 1]') == 1
            await there.driver.until(lambda: second.numbers == first.numbers)


async def test_a_command_waits_for_enough_replicas(cluster: LocalCluster) -> None:
    async with AsyncExitStack() as stack:
        found = []
        for daemon in "ab":
            connection = await stack.enter_async_context(connect(at(cluster, daemon)))
            replica = await stack.enter_async_context(
                replicate(connection, "few", Ledger(), replicas=3)
            )
            found.append(replica)
        with trio.move_on_after(0.2) as scope:
            await found[0].submit(b'["x", 1]')
        assert scope.cancelled_caught
        assert not found[0].is_current
        async with (
            connect(at(cluster, "c")) as last,
            replicate(last, "few", Ledger(), replicas=3) as third,
        ):
            await third.submit(b'["x", 1]')
        assert await found[0].submit(b'["x", 1]') == 2  # two of three are enough to continue


async def test_the_end_of_a_session_is_reported_to_waiting_callers_and_at_the_end() -> None:
    async def submit_for_ever(replica: Replicated) -> None:
        while True:
            await replica.submit(b'["x", 1]')

    async def replicate_alone(alone: LocalCluster, ended: list[bool]) -> None:
        async with (
            connect(at(alone, "a")) as connection,
            replicate(connection, "g", Ledger()) as replica,
        ):
            await replica.submit(b'["x", 1]')
            assert replica.is_current
            alone["a"].kill()
            with pytest.raises((OutcomeUnknown, SessionEnded)):
                await submit_for_ever(replica)
            with pytest.raises(SessionEnded):
                await replica.submit(b'["x", 1]')
            ended.append(replica.is_current)

    async with LocalCluster("a") as alone:
        ended: list[bool] = []
        with pytest.raises(SessionEnded):
            await replicate_alone(alone, ended)
        assert ended == [False]


@asynccontextmanager
async def competitors(cluster: LocalCluster, form: str) -> AsyncIterator[list[Mutex]]:
    async with AsyncExitStack() as stack:
        found = []
        for daemon in "abca":
            connection = await stack.enter_async_context(connect(at(cluster, daemon)))
            mutex = join_mutex(connection, f"mutex {form}", form=form)
            found.append(await stack.enter_async_context(mutex))
        yield found


@pytest.mark.parametrize("form", FORMS)
async def test_one_at_a_time_is_in(cluster: LocalCluster, form: str) -> None:
    inside: list[int] = []
    entered = [0] * 4

    async def compete(number: int, mutex: Mutex) -> None:
        for _ in range(10):
            async with mutex:
                inside.append(number)
                await trio.sleep(0)
                assert inside == [number]
                inside.clear()
                entered[number] += 1

    async with competitors(cluster, form) as found, trio.open_nursery() as nursery:
        for number, mutex in enumerate(found):
            nursery.start_soon(compete, number, mutex)
            nursery.start_soon(compete, number, mutex)  # two tasks of one program
    assert entered == [20] * 4


@pytest.mark.parametrize("form", FORMS)
async def test_a_holder_that_goes_is_succeeded(cluster: LocalCluster, form: str) -> None:
    async with competitors(cluster, form) as (first, second, *_):

        async def hold_and_go() -> None:
            async with first:
                first.driver.connection.close_socket()
                async with second:
                    pass
                await trio.sleep_forever()

        with pytest.raises(MutexLost):
            await hold_and_go()


@pytest.mark.long
@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("form", FORMS)
async def test_a_holder_whose_daemon_stood_still_is_told_so(form: str, *, released: bool) -> None:
    """Its next view has all daemons again; meanwhile another one was in, and may still be."""
    async with (
        LocalCluster(NAMES) as cluster,
        competitors(cluster, form) as (first, second, *_),
        trio.open_nursery() as nursery,
    ):
        entered, leave = trio.Event(), trio.Event()

        async def be_second() -> None:
            async with second:
                entered.set()
                await leave.wait()

        async def hold() -> None:
            async with first:
                nursery.start_soon(be_second)
                await cluster.settle(NAMES)
                cluster["a"].signal(signal.SIGSTOP)
                await entered.wait()
                if released:
                    leave.set()
                    async with second:  # behind the other task, which has left by now
                        pass
                cluster["a"].signal(signal.SIGCONT)
                await trio.sleep_forever()

        with pytest.raises(MutexLost):
            await hold()
        # Not `second.holds`, which is False while a view of daemons waits to be handled there.
        assert second.contender.holds is not released
        leave.set()
        async with first:  # behind the second one
            assert not second.holds


async def test_who_gives_up_is_not_waited_for(cluster: LocalCluster) -> None:
    async with competitors(cluster, "agreed") as (first, second, third, _):
        async with first:
            with trio.move_on_after(0.05) as scope:
                async with second:
                    raise AssertionError("two are in")
            assert scope.cancelled_caught
        async with third:
            assert third.queue == (third.driver.connection.member,)


@pytest.mark.parametrize("form", ["agreed", "acknowledged"])
async def test_the_resource_lets_only_the_holder_in(cluster: LocalCluster, form: str) -> None:
    uses: list[tuple[MemberId, bytes]] = []

    def on_use(user: MemberId, data: bytes) -> None:
        uses.append((user, data))

    async with (
        connect(at(cluster, "a")) as one,
        connect(at(cluster, "b")) as other,
        connect(at(cluster, "c")) as press,
        keep_resource(press, f"press {form}", on_use, form=form) as resource,
        join_mutex(one, f"press {form}", form=form) as first,
        join_mutex(other, f"press {form}", form=form) as second,
    ):
        async with first:
            await use(second, b"me, too")
            await use(first, b"mine")
        async with second:
            await use(second, b"now")
        while len(uses) < 2 or not resource.refused:
            await trio.sleep(0.01)
        assert uses == [(one.member, b"mine"), (other.member, b"now")]
        assert (resource.used, resource.refused) == (2, [other.member])


async def test_a_resource_needs_an_agreed_queue(cluster: LocalCluster) -> None:
    async with connect(at(cluster, "a")) as connection:
        with pytest.raises(ConfigError, match="needs agreed or acknowledged"):
            async with keep_resource(connection, "m", lambda who, data: None, form="lamport"):
                pass


async def test_an_unknown_form_is_refused(cluster: LocalCluster) -> None:
    async with connect(at(cluster, "a")) as connection:
        with pytest.raises(ConfigError, match="one of agreed, acknowledged, lamport"):
            async with join_mutex(connection, "m", form="best"):
                pass
        with pytest.raises(ConfigError, match="it is for the form 'agreed' only"):
            async with join_mutex(connection, "m", form="lamport", programs=3):
                pass


async def test_the_oldest_leads_and_is_succeeded(cluster: LocalCluster) -> None:
    async with (
        connect(at(cluster, "a")) as one,
        connect(at(cluster, "b")) as other,
        stand(one, "leaders") as first,
        stand(other, "leaders") as second,
    ):

        async def lead_and_go() -> None:
            async with first.leading():
                one.close_socket()
                await second.until_leading()
                await trio.sleep_forever()

        async with first.leading():
            assert await second.until_changed(None) == one.member
            assert not second.leads
        with pytest.raises(LeadershipLost):
            await lead_and_go()
        assert first.leader is None


@asynccontextmanager
async def servers(cluster: LocalCluster, group: str) -> AsyncIterator[list[Connection]]:
    async def double(request: Request) -> bytes:
        if request.data == b"hang":
            await trio.sleep_forever()
        return b"%d" % (2 * int(request.data))

    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        found = []
        for daemon in NAMES:
            connection = await stack.enter_async_context(connect(at(cluster, daemon)))
            found.append(connection)

            async def run(connection: Connection = connection) -> None:
                try:
                    await serve(connection, group, double)
                except SessionEnded:
                    return

            nursery.start_soon(run)
        async with connect(at(cluster, "a")) as look:
            while len((await look.ask(f"members {group}"))["members"]) < len(NAMES):
                await trio.sleep(0.01)
        yield found
        nursery.cancel_scope.cancel()


async def test_servers_share_requests(cluster: LocalCluster) -> None:
    async with (
        servers(cluster, "doubler") as found,
        connect(at(cluster, "b")) as connection,
        calling(connection) as caller,
    ):
        assert [await caller.call("doubler", b"%d" % n) for n in range(9)] == [
            b"%d" % (2 * n) for n in range(9)
        ]
        replies = await caller.call_all("doubler", b"4")
        assert replies.data == {server.member: b"8" for server in found}
        assert (replies.failed, replies.missing) == ({}, ())
        with pytest.raises(CallFailed, match="ValueError: invalid literal"):
            await caller.call("doubler", b"four")
        assert len((await caller.call_all("doubler", b"x")).failed) == 3


async def test_a_server_that_goes_is_succeeded(cluster: LocalCluster) -> None:
    async with (
        servers(cluster, "hangers") as found,
        connect(at(cluster, "b")) as connection,
        calling(connection) as caller,
        trio.open_nursery() as nursery,
    ):
        replies = []

        async def call() -> None:
            with pytest.raises(NoReply):
                await caller.call("hangers", b"hang", timeout_s=1.0)
            replies.append(await caller.call_all("hangers", b"1"))

        nursery.start_soon(call)
        await trio.sleep(0.05)
        found[0].close_socket()
        found[1].close_socket()
        while not replies:
            await trio.sleep(0.01)
        assert list(replies[0].data) == [found[2].member]


async def test_a_late_reply_to_an_earlier_block_is_no_reply_to_the_next_one(
    cluster: LocalCluster,
) -> None:
    may_reply = trio.Event()

    async def echo(request: Request) -> bytes:
        if request.data == b"slow":
            await may_reply.wait()
        return request.data

    async with (
        connect(at(cluster, "a")) as server,
        connect(at(cluster, "b")) as connection,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(serve, server, "echo", echo)
        async with calling(connection) as caller:
            while not (await server.ask("members echo"))["members"]:
                await trio.sleep(0.01)
            with pytest.raises(NoReply):
                await caller.call("echo", b"slow", timeout_s=0.1)
        async with calling(connection) as caller:
            may_reply.set()
            assert await caller.call("echo", b"other") == b"other"
        nursery.cancel_scope.cancel()


async def test_without_a_server_the_call_says_so(cluster: LocalCluster) -> None:
    async with connect(at(cluster, "b")) as connection, calling(connection) as caller:
        with pytest.raises(NoReply, match="no reply of group 'nobody'"):
            await caller.call("nobody", b"", timeout_s=0.05)
