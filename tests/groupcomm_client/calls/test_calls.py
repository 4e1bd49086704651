"""All public calls in six kinds of trouble, in the three loops: one real daemon, two programs that
must go on, and those of the scene."""

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

import pytest

from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.calls.forms import FORMS, Form, done
from tests.groupcomm_client.calls.rows_connection import CONNECTIONS
from tests.groupcomm_client.calls.rows_coordination import (
    ELECTIONS,
    MUTEXES,
    REPLICAS,
    REQUESTS,
)
from tests.groupcomm_client.calls.rows_objects import KEPT, OBJECTS
from tests.groupcomm_client.calls.rows_other import FLUSH, PEERS, SPREAD
from tests.groupcomm_client.calls.rows_work import BATCHES, SHARED_WORK, SUBSCRIPTIONS
from tests.groupcomm_client.calls.stage import MOMENT_S, PATIENCE_S, Stage, stage
from tests.groupcomm_client.calls.table import (
    ELSEWHERE,
    Refused,
    Row,
    Scene,
    is_elsewhere,
    public_calls,
)

SCENES: Final[dict[str, Scene]] = {
    "connections": CONNECTIONS,
    "requests": REQUESTS,
    "mutexes": MUTEXES,
    "elections": ELECTIONS,
    "replicas": REPLICAS,
    "objects": OBJECTS,
    "kept": KEPT,
    "work": SHARED_WORK,
    "subscriptions": SUBSCRIPTIONS,
    "batches": BATCHES,
    "Spread": SPREAD,
    "flush": FLUSH,
    "peers": PEERS,
}

PROGRAM: Final = "tests.groupcomm_client.calls.forked_program"


def long_alone(scene: Scene, long: Sequence[str]) -> bool:
    """Return whether a scene has these forms only."""
    return set(scene.forms) <= set(long)


def cases(*long: str) -> pytest.MarkDecorator:
    """Mark a test to be run with each scene, in each form that has its calls; some forms are long
    where another one has them, too."""
    found = [
        pytest.param(
            *(form, scene),
            marks=[pytest.mark.long] * (form.name in long and not long_alone(scene, long)),
            id=f"{name}, {form.name}",
        )
        for name, scene in SCENES.items()
        for form in FORMS
        if form.name in scene.forms
    ]
    return pytest.mark.parametrize(("form", "scene"), found)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("a") as running:
        yield running


def test_each_public_call_has_a_row_and_each_row_a_call() -> None:
    calls = {*public_calls()}
    rows = {name for scene in SCENES.values() for name in scene.rows}
    assert {name for name in calls if not is_elsewhere(name)} == rows
    stale = [each for each in ELSEWHERE if not any(name.startswith(each) for name in calls)]
    assert not stale


def play(
    form: Form,
    scene: Scene,
    address: str,
    act: Callable[[Stage, Row], Awaitable[None]],
) -> None:
    """Act with each row of a scene; the two programs must go on after each."""

    async def scenario() -> None:
        async with stage(form, address) as s, scene.build(s):
            for name, row in scene.rows.items():
                try:
                    await act(s, row)
                    await s.goes_on()
                except BaseException as error:
                    error.add_note(f"with {name}")
                    raise

    form.run(scenario)


@cases("asyncio", "threads")
def test_what_is_too_large_or_wrong_is_an_error_at_the_call(
    form: Form, scene: Scene, cluster: RunningCluster
) -> None:
    async def act(s: Stage, row: Row) -> None:
        for refused in (*_of(row.large), *_of(row.wrong)):
            with pytest.raises(refused.error, match=refused.text):
                await done(refused.call(s))
        await done(row.call(s))

    play(form, scene, cluster.address("a"), act)


def _of(told: tuple[Refused, ...] | str) -> tuple[Refused, ...]:
    return () if isinstance(told, str) else told


@cases("trio", "threads")
def test_a_function_that_raises_ends_at_most_its_call(
    form: Form, scene: Scene, cluster: RunningCluster
) -> None:
    async def act(s: Stage, row: Row) -> None:
        if not isinstance(row.raising, str):
            await row.raising(s)
            await done(row.call(s))

    play(form, scene, cluster.address("a"), act)


@cases("trio", "asyncio")
def test_a_call_waits_for_what_is_slow(form: Form, scene: Scene, cluster: RunningCluster) -> None:
    async def act(s: Stage, row: Row) -> None:
        if row.slow is None:
            await while_the_daemon_stands_still(s, row)
        elif not isinstance(row.slow, str):
            await row.slow(s)
            await done(row.call(s))

    async def while_the_daemon_stands_still(s: Stage, row: Row) -> None:
        ended = s.loop.event()

        async def call() -> None:
            await done(row.call(s))
            ended.set()

        cluster.pause("a")
        try:
            s.tasks.start(call)
            await s.loop.sleep(MOMENT_S)
        finally:
            cluster.resume("a")
        assert await s.loop.timeout(PATIENCE_S, ended.wait), "it waits for ever"

    play(form, scene, cluster.address("a"), act)


@cases("trio", "threads")
def test_a_call_that_was_cancelled_can_be_made_again(
    form: Form, scene: Scene, cluster: RunningCluster
) -> None:
    async def act(s: Stage, row: Row) -> None:
        if row.cancelled is None:
            for seconds in (0.0, MOMENT_S / 5):
                await s.loop.timeout(seconds, lambda: done(row.call(s)))
            await done(row.call(s))

    play(form, scene, cluster.address("a"), act)


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(form, marks=[pytest.mark.long] * (form.name != "trio"), id=form.name)
        for form in FORMS
    ],
)
def test_a_forked_process_is_told_that_the_session_is_not_its_own(
    form: Form, cluster: RunningCluster
) -> None:
    found = subprocess.run(
        [sys.executable, "-m", PROGRAM, form.name, cluster.address("a")],
        stdout=subprocess.PIPE,
        text=True,
        timeout=5 * PATIENCE_S,
        check=True,
    )
    assert json.loads(found.stdout) == {
        name: row.forked.__name__
        for scene in SCENES.values()
        if form.name in scene.forms
        for name, row in scene.rows.items()
        if not isinstance(row.forked, str)
    }
