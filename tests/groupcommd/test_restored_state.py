"""State folders as operators leave them: restored, deleted, copied to a second host."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from groupcomm_client import connect
from groupcomm_tools.local_cluster import LocalCluster, LocalDaemon


def folder_of(cluster: LocalCluster, name: str) -> Path:
    return cluster.folder / f"{name}.state"


def restore(cluster: LocalCluster, name: str, backup: Path) -> None:
    shutil.rmtree(folder_of(cluster, name))
    shutil.copytree(backup, folder_of(cluster, name))


async def deliver(cluster: LocalCluster, names: str) -> None:
    """A message of each daemon's program comes to all others."""
    for name in names:
        async with connect(str(cluster[name].unix)) as sender:
            for other in names:
                async with connect(str(cluster[other].unix)) as receiver:
                    await receiver.join("g")
                    await sender.multicast("g", name.encode())
                    with trio.fail_after(10):
                        async for message in receiver.messages():
                            assert message.data == name.encode()
                            break


async def together(cluster: LocalCluster, names: str) -> None:
    """Wait until these daemons are in one view, with whomever else."""
    while True:
        views = [cluster[name].view for name in names]
        if views.count(views[0]) == len(views) and set(names) <= set(views[0][1]):
            return
        await trio.sleep(0.01)


def said(cluster: LocalCluster, text: str, name: str = "a") -> bool:
    return any(text in line["text"] for line in cluster[name].lines())


def no_traceback(cluster: LocalCluster) -> None:
    for daemon in cluster.daemons.values():
        assert "Traceback" not in daemon.log.read_text()


async def test_a_daemon_with_a_restored_backup_is_in_the_view(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    async with LocalCluster("abc") as cluster:
        await cluster.settle("abc")
        shutil.copytree(folder_of(cluster, "a"), backup)
        for _ in range(2):
            cluster["a"].kill()
            await cluster["a"].start()
            await cluster.settle("abc")
        cluster["a"].kill()
        restore(cluster, "a", backup)
        await cluster["a"].start()
        await cluster.settle("abc")
        async with connect(str(cluster["a"].unix)) as connection:
            assert (await connection.ask("status"))["restarts"] == 2
        assert said(cluster, "a has counted 2 starts, and its start before this one 3", "b")
        await deliver(cluster, "abc")
        no_traceback(cluster)


async def test_a_daemon_whose_folder_was_deleted_is_left_out_until_it_starts_again() -> None:
    async with LocalCluster("abc") as cluster:
        await cluster.settle("abc")
        shutil.rmtree(folder_of(cluster, "a"))
        with trio.fail_after(60):
            while not said(cluster, "No such file or directory; without it"):
                cluster["b"].kill()  # a view change may need the disk
                await cluster["b"].start()
                await together(cluster, "bc")
        cluster["a"].kill()
        await cluster["a"].start()
        await cluster.settle("abc")
        await deliver(cluster, "abc")
        no_traceback(cluster)


async def test_a_daemon_whose_disk_is_lost_while_others_are_restarted_is_in_the_view() -> None:
    """The daemon a remembers its earlier start, and those that were restarted do not."""
    async with LocalCluster("abcd") as cluster:
        await cluster.settle("abcd")
        cluster["b"].kill()
        for name in "cd":
            cluster[name].kill()
            await cluster[name].start()
            await together(cluster, "acd")
        shutil.rmtree(folder_of(cluster, "b"))
        await cluster["b"].start()
        await cluster.settle("abcd")
        await deliver(cluster, "ab")
        no_traceback(cluster)


@asynccontextmanager
async def cloned(cluster: LocalCluster, name: str) -> AsyncIterator[LocalDaemon]:
    """A host is copied, and the copy runs beside it at another address."""
    other = cluster.folder / "clone"
    other.mkdir(mode=0o700)
    shutil.copytree(folder_of(cluster, name), other / f"{name}.state")
    clone = LocalDaemon(other, name, cluster.config, ("--port", "0"))
    await clone.start()
    try:
        yield clone
    finally:
        clone.stop()


async def test_a_clone_at_another_address_is_alone_and_disturbs_nobody() -> None:
    async with LocalCluster("abc") as cluster:
        await cluster.settle("abc")
        before = cluster["b"].view
        async with cloned(cluster, "a") as clone:
            with trio.fail_after(10):
                while not clone.view[0]:
                    await trio.sleep(0.01)
            await deliver(cluster, "abc")
            assert clone.view[1] == ("a",)
        assert [cluster[name].view for name in "abc"] == [before] * 3
        await deliver(cluster, "abc")
        no_traceback(cluster)
