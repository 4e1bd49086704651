"""Every part of coordination on connections that reconnect: the end of a session is noticed at
once, and the part goes on in the next one. Under trio, asyncio and threads, on real daemons."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from groupcomm.errors import LocalProtocolError
from groupcomm_client.connection import Connection
from groupcomm_client.coordination import (
    JobLost,
    LeadershipLost,
    MutexLost,
    NoReply,
    OutcomeUnknown,
    RulesDiffer,
    calling,
    join_mutex,
    keep_resource,
    replicate,
    serve,
    stand,
    use,
)
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.coordination.ledger import Ledger
from tests.groupcomm_client.kinds import Kind, played


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("abc") as running:
        yield running


def awaited(connection: Any) -> Connection:
    found: Connection = connection.wrapped.awaited if hasattr(connection, "wrapped") else connection
    return found


class Stage:
    """Connections to daemon a that reconnect, and others to daemon b."""

    def __init__(self, kind: Kind, cluster: RunningCluster, stack: AsyncExitStack) -> None:
        self.kind = kind
        self.cluster = cluster
        self._stack = stack

    async def here(self) -> Connection:
        block = self.kind.connect(self.cluster.address("a"), reconnect=True)
        return awaited(await self._stack.enter_async_context(block))

    async def there(self) -> Connection:
        block = self.kind.connect(self.cluster.address("b"))
        return awaited(await self._stack.enter_async_context(block))

    async def wait(self, connection: Connection) -> None:
        """Wait until the block around this ends."""
        while True:
            await connection.receive()

    def kill(self) -> None:
        self.cluster.kill("a")

    def again(self) -> None:
        self.cluster.start("a")
        self.cluster.settle()


async def lose_mutex(stage: Stage) -> None:
    here, there, idle = await stage.here(), await stage.there(), await stage.there()
    async with join_mutex(here, "press") as mine, join_mutex(there, "press") as theirs:
        with pytest.raises(LocalProtocolError, match="token"):
            assert mine.token

        async def hold() -> None:
            async with mine:
                stage.kill()
                await stage.wait(idle)

        with pytest.raises(MutexLost):
            await hold()
        assert not mine.holds
        first = mine.token
        async with theirs:
            assert theirs.token > first
            assert not mine.holds
        stage.again()
        async with mine:
            assert mine.holds
            assert mine.token > theirs.token


async def lose_lead(stage: Stage) -> None:
    here, there, idle = await stage.here(), await stage.there(), await stage.there()
    async with stand(here, "leaders") as mine, stand(there, "leaders") as theirs:

        async def lead() -> None:
            async with mine.leading():
                stage.kill()
                await stage.wait(idle)

        with pytest.raises(LeadershipLost):
            await lead()
        assert (mine.leads, mine.leader) == (False, None)
        async with theirs.leading():
            assert theirs.term > mine.term
        stage.again()
        assert await mine.until_changed(None) == there.member
        assert not mine.leads
    async with stand(here, "leaders") as mine, mine.leading():
        assert mine.term > theirs.term


async def lose_state(stage: Stage) -> None:
    here, there = await stage.here(), await stage.there()
    one, other = Ledger(), Ledger()
    async with replicate(here, "ledger", one) as mine, replicate(there, "ledger", other) as theirs:
        await mine.submit(b'["x", 1]')
        stage.kill()
        await mine.driver.until(lambda: mine.driver.session is None)
        assert not mine.is_current
        await theirs.submit(b'["x", 2]')
        stage.again()
        await mine.until_current()
        assert one.numbers["x"] == 3
        assert await mine.submit(b'["x", 4]') == 7


async def lose_outcome(stage: Stage) -> None:
    here, there = await stage.here(), await stage.there()
    async with (
        replicate(here, "few", Ledger(), replicas=3) as mine,
        replicate(there, "few", Ledger(), replicas=3),
        replicate(await stage.there(), "few", Ledger(), replicas=3),
    ):
        await mine.submit(b'["x", 1]')
        stage.cluster.pause("b")
        stage.cluster.pause("c")

        async def submit() -> None:
            with pytest.raises(OutcomeUnknown):
                await mine.submit(b'["x", 1]')

        async def end() -> None:
            await mine.driver.until(lambda: bool(mine._calls))
            stage.kill()
            stage.cluster.resume("b")
            stage.cluster.resume("c")
            stage.again()

        await stage.kind.together(submit, end)
        assert await mine.submit(b'["y", 1]') == 1


async def lose_server_and_caller(stage: Stage) -> None:
    server, caller, looks = await stage.here(), await stage.here(), await stage.there()

    async def answer(request: Any) -> bytes:
        if request.data == b"kill":
            stage.kill()
        return bytes(request.data) * 2

    async def be() -> None:
        with pytest.raises(Exception, match="closed the connection"):
            await serve(server, "echo", answer)

    async def ask() -> None:
        while not (await looks.ask("members echo"))["members"]:
            continue
        async with calling(caller) as mine:
            assert await mine.call("echo", b"a") == b"aa"
            with pytest.raises(NoReply, match="the session ended"):
                await mine.call("echo", b"kill")
            stage.again()
            while not (await looks.ask("members echo"))["members"]:
                continue
            assert await mine.call("echo", b"b") == b"bb"
        await server.aclose()

    await stage.kind.together(be, ask)


async def lose_job(stage: Stage) -> None:
    here, there, idle = await stage.here(), await stage.there(), await stage.there()
    async with (
        here.work("jobs", name="set", at_once=1) as mine,
        there.work("jobs", name="set", at_once=0) as theirs,
    ):
        await theirs.driver.until(lambda: theirs.is_current and len(theirs.workers) >= 1)
        await there.multicast("jobs", b"one")
        job = await mine.next()

        async def do() -> None:
            async with job:
                stage.kill()
                await stage.wait(idle)

        with pytest.raises(JobLost):
            await do()
        stage.again()
        again = await mine.next()
        assert (again.data, again.attempt) == (b"one", 2)
        again.done()
        await mine.flush()
        await theirs.driver.until(lambda: not theirs.waiting)


async def lose_resource(stage: Stage) -> None:
    here, there = await stage.here(), await stage.there()
    used: list[bytes] = []
    async with (
        keep_resource(here, "printer", lambda _, data: used.append(data)) as resource,
        join_mutex(there, "printer") as mutex,
    ):
        async with mutex:
            await use(mutex, b"one")
        await resource_has(stage, used, 1)
        stage.kill()
        stage.again()
        while len((await there.ask("members printer"))["members"]) < 2:
            continue
        async with mutex:
            await use(mutex, b"two")
        await resource_has(stage, used, 2)
        assert used == [b"one", b"two"]
        assert resource.refused == []


async def resource_has(stage: Stage, used: list[bytes], count: int) -> None:
    there = await stage.there()
    while len(used) < count:
        await there.ask("groups")


SCENES = (
    lose_mutex,
    lose_lead,
    lose_state,
    lose_outcome,
    lose_server_and_caller,
    lose_job,
    lose_resource,
)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
@pytest.mark.long
@played
async def test_a_part_goes_on_in_the_next_session(
    kind: Kind, cluster: RunningCluster, scene: Any
) -> None:
    async with AsyncExitStack() as stack:
        await scene(Stage(kind, cluster, stack))


@played
async def test_the_mutex_goes_on_in_the_next_session(kind: Kind, cluster: RunningCluster) -> None:
    """The quick form; the long one has all parts."""
    async with AsyncExitStack() as stack:
        await lose_mutex(Stage(kind, cluster, stack))


@played
async def test_different_forms_in_one_group_are_errors_on_both_sides(
    kind: Kind, cluster: RunningCluster
) -> None:
    async with AsyncExitStack() as stack:
        stage = Stage(kind, cluster, stack)
        one, other = await stage.there(), await stage.there()
        async with join_mutex(one, "m") as first:
            async with first:
                pass
            async with join_mutex(other, "m", form="acknowledged") as second:
                for mutex in (first, second):
                    contender = mutex.contender
                    await mutex.driver.until(lambda c=contender: c.conflict is not None)  # type: ignore[misc]
                    with pytest.raises(RulesDiffer, match=r"form='a.* Give the same form"):
                        await mutex.__aenter__()
            await first.driver.until(lambda: first.contender.conflict is None)
            async with first:  # the other one has left
                pass

        async def keep() -> None:
            async with keep_resource(other, "m2", lambda _, __: None) as _:
                await stage.wait(await stage.there())

        async with join_mutex(one, "m2", programs=2) as first:
            with pytest.raises(RulesDiffer, match="programs=2"):
                await keep()
