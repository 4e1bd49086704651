"""Shared work under trio, asyncio and threads, on real daemons."""

import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import pytest

from groupcomm.errors import LocalProtocolError, SessionEnded
from groupcomm.events import Message
from groupcomm_client.blocking import connect
from groupcomm_client.connection import Connection
from groupcomm_client.coordination import Job, JobLost, RulesDiffer, Worker
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.history.archives import STEADY
from tests.groupcomm_client.kinds import PATIENCE_S, Kind, played


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("ab", settings=STEADY) as running:
        yield running


def awaited(connection: Any) -> Connection:
    """The connection with awaited calls; of threads, the one behind the blocking one."""
    found: Connection = connection.wrapped.awaited if hasattr(connection, "wrapped") else connection
    return found


def working(connection: Any, group: str, **options: Any) -> AbstractAsyncContextManager[Worker]:
    return awaited(connection).work(group, name="set", **options)


async def until_there(worker: Worker, count: int) -> None:
    await worker.driver.until(lambda: len(worker.workers) == count)


def is_idle(watcher: Any) -> bool:
    """Return whether the set knows that all jobs are done: one that is not is another's soon."""
    return not watcher.waiting and not any(watcher.workers.values())


@played
async def test_each_job_goes_to_one_worker(kind: Kind, cluster: RunningCluster) -> None:
    done: list[tuple[str, bytes]] = []
    async with (
        kind.connect(cluster.address("a")) as one,
        kind.connect(cluster.address("b")) as other,
        kind.connect(cluster.address("b")) as sender,
    ):

        async def be(daemon: str, connection: Any) -> None:
            async def do(job: Job) -> None:
                done.append((daemon, job.data))

            async with working(connection, "each", at_once=2) as worker:
                await worker.work_off(do)

        async def send() -> None:
            async with working(sender, "each", at_once=0) as watcher:
                await until_there(watcher, 2)
                await sender.multicast_many("each", [b"%d" % n for n in range(20)])
                await watcher.driver.until(lambda: len(done) >= 20 and is_idle(watcher))
            for connection in (one, other):
                await connection.aclose()

        await kind.together(lambda: be("a", one), lambda: be("b", other), send)
    assert sorted(int(data) for _, data in done) == list(range(20))
    assert {daemon for daemon, _ in done} == {"a", "b"}


@played
async def test_a_job_that_is_left_is_not_given_after_the_end(
    kind: Kind, cluster: RunningCluster
) -> None:
    async with (
        kind.connect(cluster.address("a")) as one,
        working(one, "left", at_once=2) as worker,
    ):
        await until_there(worker, 1)
        await one.multicast("left", b"x")
        await worker.driver.until(lambda: worker.sharing.has_job)
        awaited(one).close_socket()
        await worker.driver.until(lambda: worker.driver.ended is not None)
        assert worker.sharing.has_job
        with pytest.raises(SessionEnded):
            await worker.next()


@played
async def test_each_set_gets_each_job(kind: Kind, cluster: RunningCluster) -> None:
    async with (
        kind.connect(cluster.address("a")) as one,
        kind.connect(cluster.address("b")) as other,
        awaited(one).work("both", name="left") as left,
        awaited(other).work("both", name="right") as right,
    ):
        await until_there(left, 1)
        await until_there(right, 1)
        await one.multicast("both", b"x", type=7)
        for worker in (left, right):
            job = await worker.next()
            assert (job.data, job.type, job.sender, job.attempt) == (b"x", 7, one.member, 1)
            job.done()
            job.fail("too late to say so")


@played
async def test_the_block_of_a_job_ends_with_the_session(
    kind: Kind, cluster: RunningCluster
) -> None:
    async def begin(one: Any, third: Any) -> None:
        async with working(one, "lost") as worker:
            await one.multicast("lost", b"x")
            async with await worker.next():
                awaited(one).close_socket()
                while True:
                    await third.receive()

    async with (
        kind.connect(cluster.address("a")) as one,
        kind.connect(cluster.address("b")) as other,
        kind.connect(cluster.address("b")) as third,
        working(other, "lost", at_once=0) as keeper,
    ):
        with pytest.raises(JobLost):
            await begin(one, third)
        await keeper.driver.until(lambda: keeper.waiting == 1)


@played
async def test_a_job_that_fails_too_often_is_set_aside_and_put_back(
    kind: Kind, cluster: RunningCluster
) -> None:
    async def fail(job: Job) -> None:
        async with job:
            raise ValueError("torn")

    async with (
        kind.connect(cluster.address("a")) as connection,
        working(connection, "bad", tries=2) as worker,
    ):
        await connection.multicast("bad", b"x")
        for attempt in (1, 2):
            job = await worker.next()
            assert job.attempt == attempt
            with pytest.raises(ValueError, match="torn"):
                await fail(job)
        aside = await worker.next_set_aside()
        assert worker.set_aside == [aside]
        assert (aside.data, aside.failures, aside.why) == (b"x", 2, "ValueError: torn")
        worker.put_back([aside.id])
        async with await worker.next() as job:
            assert job.attempt == 3
        await worker.flush()
        assert worker.set_aside == []
        assert worker.waiting == 0


@played
async def test_a_late_job_is_given_to_another_worker(kind: Kind, cluster: RunningCluster) -> None:
    async def hang(job: Job, third: Any) -> None:
        async with job:
            while True:
                await third.receive()

    async with (
        kind.connect(cluster.address("a")) as one,
        kind.connect(cluster.address("b")) as other,
        kind.connect(cluster.address("b")) as third,
        working(one, "slow", deadline_s=0.2, at_once=1) as slow,
    ):
        await one.multicast("slow", b"x")
        first = await slow.next()
        async with working(other, "slow", deadline_s=0.2) as quick:
            with pytest.raises(JobLost):
                await hang(first, third)
            second = await quick.next()
            assert (second.id, first.lost) == (first.id, True)
            assert second.attempt >= 2, "more if this machine stood still for a deadline"
            second.extend()
            second.done()
            await quick.flush()
            assert quick.waiting == 0


@played
async def test_jobs_of_one_key_wait_for_each_other(kind: Kind, cluster: RunningCluster) -> None:
    def key(message: Message) -> bytes:
        return message.data[:1]

    async with (
        kind.connect(cluster.address("a")) as connection,
        working(connection, "keys", key=key) as worker,
    ):
        await connection.multicast_many("keys", [b"a1", b"a2", b"b1"])
        first, other = await worker.next(), await worker.next()
        assert (first.data, other.data, other.key) == (b"a1", b"b1", b"b")
        first.done()
        assert (await worker.next()).data == b"a2"


@played
async def test_other_rules_and_impossible_ones_are_errors(
    kind: Kind, cluster: RunningCluster
) -> None:
    async with (
        kind.connect(cluster.address("a")) as one,
        kind.connect(cluster.address("b")) as other,
        kind.connect(cluster.address("b"), reconnect=True, resume=True) as again,
        working(one, "rules") as first,
    ):
        await until_there(first, 1)
        async with working(other, "rules", tries=9) as second:
            with pytest.raises(RulesDiffer, match="tries=5"):
                await second.next()
        for options in ({"at_once": -1}, {"tries": 0}, {"deadline_s": 0}, {"name": ""}):
            with pytest.raises(LocalProtocolError):
                async with awaited(other).work("x", **{"name": "s", **options}):  # type: ignore[arg-type]
                    pass
        with pytest.raises(LocalProtocolError, match="without resume"):
            async with working(again, "x"):
                pass


def test_threads_share_a_worker(cluster: RunningCluster) -> None:
    done: list[bytes] = []

    def work_off() -> None:
        with suppress(SessionEnded):
            for job in worker:
                with job:
                    done.append(job.data)

    with (
        connect(cluster.address("a")) as connection,
        connect(cluster.address("b")) as sender,
        connection.work("threads", name="set", at_once=3) as worker,
    ):
        worker.until_current()
        threads = [threading.Thread(target=work_off) for _ in range(3)]
        for thread in threads:
            thread.start()
        sender.multicast_many("threads", [b"%d" % number for number in range(30)])
        while len(done) < 30:
            sender.ask("groups")
        worker.flush()
        assert (worker.waiting, worker.refused, worker.set_aside) == (0, 0, [])
        assert worker.workers == {connection.member: 0}
        connection.close()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert sorted(map(int, done)) == list(range(30))
