"""Votes of real daemons: two hosts of which one is stopped or lost, and a third that only votes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio

from groupcomm_client import connect
from groupcomm_client.coordination import MutexLost, join_mutex
from groupcomm_tools.local_cluster import LocalCluster
from tests.groupcommd.hosts import run

WAIT_S = 60.0
"""What must happen has happened by then, also on a machine that does much else."""


@asynccontextmanager
async def running(names: str) -> AsyncIterator[LocalCluster]:
    async with LocalCluster(list(names)) as cluster:
        await cluster.settle(list(names))
        yield cluster


async def ask(cluster: LocalCluster, through: str, *words: object) -> str:
    """Run `groupcomm daemons`; return what it says."""
    status, output, told = await run("daemons", *words, "--through", cluster[through].unix)
    assert status == 0, told
    return output + told


async def enters(cluster: LocalCluster, name: str) -> None:
    """Enter a mutex as a program of a daemon; its part of the cluster may act, or this fails.

    The view of before a loss may still be there at first: who enters in it loses the mutex.
    """
    with trio.fail_after(WAIT_S):
        async with (
            connect(str(cluster[name].unix)) as connection,
            join_mutex(connection, "press") as mutex,
        ):
            held = False
            while not held:
                with suppress(MutexLost):
                    async with mutex:
                        held = True


async def does_not_enter(cluster: LocalCluster, name: str) -> None:
    """Wait until the daemon's part may not act, and see that its program does not enter."""
    with trio.fail_after(WAIT_S):
        while "has NO majority" not in await ask(cluster, name, "list"):
            await trio.sleep(0.02)
    with trio.move_on_after(2) as scope:
        await enters(cluster, name)
    assert scope.cancelled_caught


async def test_of_two_daemons_one_is_stopped_in_order_and_the_other_goes_on() -> None:
    async with running("ab") as cluster:
        assert "who leaves in order is not missing" in await ask(
            cluster, "a", "policy", "--orderly", "yes"
        )
        assert await cluster["b"].leave() == 0
        await enters(cluster, "a")
        assert "has left in order" in await ask(cluster, "a", "list")
        cluster["a"].kill()
        await cluster["a"].ended()
        await cluster["b"].start()
        await does_not_enter(cluster, "b")
        await cluster["a"].start()
        await enters(cluster, "b")


async def test_of_two_daemons_the_tie_breaker_goes_on_when_the_other_is_lost() -> None:
    async with running("ab") as cluster:
        await ask(cluster, "a", "policy", "--tie-breaker", "a")
        cluster["b"].kill()
        await enters(cluster, "a")
        await cluster["b"].start()
        await enters(cluster, "b")
        cluster["a"].kill()
        await does_not_enter(cluster, "b")


async def test_of_two_daemons_and_a_witness_any_one_may_be_lost() -> None:
    async with running("abw") as cluster:
        for lost in "abw":
            cluster[lost].kill()
            for name in "ab".replace(lost, ""):
                await enters(cluster, name)
            await cluster[lost].start()
            await cluster.settle("abw")
        cluster["a"].kill()
        cluster["w"].kill()
        await does_not_enter(cluster, "b")
        await cluster["w"].start()
        await enters(cluster, "b")


async def test_one_host_runs_witnesses_of_several_clusters() -> None:
    async with running("abw") as one, running("abw") as other:
        for cluster in (one, other):
            cluster["a"].kill()
            await enters(cluster, "b")
        other["w"].kill()
        await does_not_enter(other, "b")
        await enters(one, "b")


async def test_votes_are_given_and_listed() -> None:
    async with running("ab") as cluster:
        await ask(cluster, "a", "votes", "a", 2)
        with trio.fail_after(WAIT_S):
            while "in the view, 2 votes" not in await ask(cluster, "b", "list"):
                await trio.sleep(0.02)
        cluster["b"].kill()
        await enters(cluster, "a")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("votes", "z", 1), "daemon z is not in the roster"),
        (("votes", "a", 17), "daemons votes"),
        (("policy",), "nothing to change"),
        (("policy", "--tie-breaker", "z"), "daemon z is not in the roster"),
    ],
)
async def test_what_cannot_be_is_refused_with_the_reason(words: Any, reason: str) -> None:
    async with running("a") as cluster:
        status, _, told = await run("daemons", *words, "--through", cluster["a"].unix)
        assert (status, reason in told) == (1, True), told
