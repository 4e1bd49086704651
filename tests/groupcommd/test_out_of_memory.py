"""A daemon without memory: it ends and says so, or goes on with whole steps only."""

import signal
import threading
from typing import Final

import pytest
import trio

from groupcomm.errors import GroupCommError
from groupcomm_client import connect
from groupcomm_tools.local_cluster import LocalCluster
from groupcommd import cli
from groupcommd.host.process import NO_THREAD, is_out_of_memory
from tests.verification.campaigns.chaos.hosts import limit_memory

SPARE_BYTES: Final = 10_000_000
"""Enough for small objects: C code of libraries may not bear to get no memory at all."""

LARGE_BYTES: Final = 60_000_000


@pytest.mark.long  # what is allocated last is chance
async def test_a_daemon_without_memory_ends_and_says_so() -> None:
    async with LocalCluster("ab") as cluster:
        await cluster.settle("ab")
        daemon = cluster["a"]
        limit_memory(daemon.pid, SPARE_BYTES)
        with trio.fail_after(60):
            while daemon.running:
                try:
                    async with connect(str(daemon.unix)) as connection:
                        await connection.join("g")
                        await connection.multicast("g", bytes(LARGE_BYTES))
                        await connection.receive_batch()
                except* GroupCommError:
                    await trio.sleep(0.01)
        status = await daemon.ended()
        assert status in (cli.FAILED, -signal.SIGSEGV)  # C code of a library may get no memory
        if status == cli.FAILED:
            assert daemon.last_words == f"groupcommd: {cli.OUT_OF_MEMORY}"
        assert "Traceback" not in daemon.log.read_text()
        await cluster.settle("b")


def test_it_is_known_among_errors_that_came_together() -> None:
    both = ExceptionGroup("", [ValueError(), ExceptionGroup("", [MemoryError()])])
    assert is_out_of_memory(both)
    assert not is_out_of_memory(ExceptionGroup("", [ValueError()]))


def test_a_lack_of_threads_is_one_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "_start_new_thread", _thread_that_cannot_start)
    with pytest.raises(RuntimeError) as lack:
        threading.Thread(target=print).start()
    assert is_out_of_memory(lack.value)
    assert not is_out_of_memory(RuntimeError("another"))


def _thread_that_cannot_start(*_: object) -> None:
    raise RuntimeError(NO_THREAD)
