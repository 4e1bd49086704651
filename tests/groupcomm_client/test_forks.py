"""A session is that of the process that opened it: forked processes neither use nor disturb it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import cast

import pytest

from groupcomm_client.blocking import connect
from groupcomm_client.coordination.blocking import join_mutex
from groupcomm_client.history.channel_reader import ChannelReader
from groupcomm_client.history.streams import CloseChannel
from groupcomm_client.history.subscriber import Subscriber
from groupcomm_client.spread_api.constants import ILLEGAL_SESSION
from groupcomm_client.trio_loop import TrioLoop
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


FORKS_WITH_A_TRACE = """
import os, sys
from pathlib import Path
from groupcomm.host.trace_file import TraceFile
from groupcomm.trace.events import Ask
trace = TraceFile(Path(sys.argv[1]))
trace.record(Ask(t=1, c="ann", what="connect", group="", m=0))
if not os.fork():
    trace.record(Ask(t=2, c="ann", what="crash", group="", m=0))
    trace.close()
    os._exit(0)
os.wait()
trace.close()
"""


def test_a_child_writes_nothing_to_the_trace_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    subprocess.run([sys.executable, "-c", FORKS_WITH_A_TRACE, str(path)], check=True)
    assert len(path.read_bytes().splitlines()) == 1


async def test_the_channel_of_a_subscriber_is_not_shut_down_by_a_child() -> None:
    archive, ours = socket.socketpair()
    with archive, ours, closing(ours.dup()) as copy:
        archive.setblocking(False)
        reader = ChannelReader(TrioLoop(), nullcontext(), cast(Subscriber, None), lambda: None)
        reader._socket = copy
        reader.forsake()
        reader.do(CloseChannel())
        assert copy.fileno() == -1
        with pytest.raises(BlockingIOError):  # it has not ended
            archive.recv(1)
