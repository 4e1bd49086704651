"""A session is that of the process that opened it: forked processes neither use nor disturb it."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from groupcomm_client.blocking import connect
from groupcomm_client.coordination.blocking import join_mutex
from groupcomm_client.spread_api.constants import ILLEGAL_SESSION
from groupcomm_tools.running_cluster import RunningCluster

PATIENCE_S = 60.0
ACTS = ("use", "leave", "exit", "multiprocessing")
ANEW = "from the child"
USED = {
    **{form: [*["ForkedSession  True"] * 5, ANEW] for form in ("trio", "asyncio", "threads")},
    "spread": [*[f"SpreadError {ILLEGAL_SESSION} True"] * 4, ANEW],
    "peer": ["ForkedSession", ANEW],
}
"""What a child is told that uses the session of its parent, and opens one itself."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with RunningCluster("a") as cluster:
        yield cluster.address("a")


def command(form: str, acts: str, address: str) -> list[str]:
    return [sys.executable, "-m", "tests.groupcomm_client.forking_program", form, acts, address]


@pytest.mark.parametrize("form", USED)
def test_a_child_neither_uses_nor_disturbs_the_session_of_its_parent(
    form: str, address: str
) -> None:
    done = subprocess.run(
        command(form, ",".join(ACTS), address),
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["use"] == found["multiprocessing"] == USED[form]
    assert found["exit"] == 0
    assert found["leave"] in (0, 1)  # trio may make a group of the exit, which is its own affair
    assert found["got"] == "still here"


@pytest.mark.parametrize(
    "form",
    ["trio", *(pytest.param(form, marks=pytest.mark.long) for form in ("asyncio", "threads"))],
)
def test_a_lock_is_free_when_its_holder_is_killed_though_a_child_of_it_lives(
    form: str, address: str
) -> None:
    holder = subprocess.Popen(command(form, "outlive", address), stdout=subprocess.PIPE)
    assert holder.stdout is not None
    child = json.loads(holder.stdout.readline())["child"]
    timer = threading.Timer(PATIENCE_S, os.kill, (child, signal.SIGKILL))
    timer.start()
    try:
        with connect(address) as connection, join_mutex(connection, "press") as mutex:
            holder.kill()
            with mutex:
                os.kill(child, 0)  # it lives
    finally:
        timer.cancel()
        os.kill(child, signal.SIGKILL)
        holder.kill()
        holder.communicate()
