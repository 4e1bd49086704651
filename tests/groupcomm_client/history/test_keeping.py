"""Messages that archives keep, with real daemons and archives, in all three loops."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from groupcomm.errors import LocalProtocolError
from groupcomm.events import Message
from groupcomm_client import EARLIEST, CaughtUp, NotKept, blocking
from groupcomm_tools.running_cluster import RunningCluster
from tests.groupcomm_client.coordination.test_three_loops import awaited
from tests.groupcomm_client.history.archives import STEADY, ArchiveProcess
from tests.groupcomm_client.kinds import Kind, played


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster("ab", settings=STEADY) as running:
        yield running


@pytest.fixture(scope="module")
def archives(
    cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[ArchiveProcess]]:
    """Two of three that there are to be."""
    folder = tmp_path_factory.mktemp("archives")
    with (
        ArchiveProcess(cluster.address("a"), folder / "1", ["g"], "--archives", "3") as one,
        ArchiveProcess(cluster.address("b"), folder / "2", ["g"]) as other,
    ):
        one.until_live()
        other.until_live()
        yield [one, other]


@played
async def test_a_call_returns_once_a_majority_of_disks_has_the_message(
    kind: Kind, cluster: RunningCluster, archives: list[ArchiveProcess]
) -> None:
    async with (
        kind.connect(cluster.address("a")) as sending,
        kind.connect(cluster.address("b")) as reading,
        awaited(sending).keeping() as sender,
    ):
        kept = [await sender.multicast("g", b"%d" % number) for number in range(3)]
        assert {each.copies for each in kept} == {2}
        assert sorted(each.position for each in kept) == [each.position for each in kept]
        got: list[Any] = []
        async with awaited(reading).subscribe("g", start=EARLIEST) as subscription:
            async for event in subscription:
                if isinstance(event, CaughtUp):
                    break
                if isinstance(event, Message):
                    got.append(event.position)
        assert got[-3:] == [each.position for each in kept]


@played
async def test_too_few_disks_are_an_error_that_says_how_many(
    kind: Kind, cluster: RunningCluster, archives: list[ArchiveProcess]
) -> None:
    async with (
        kind.connect(cluster.address("a")) as sending,
        awaited(sending).keeping() as sender,
    ):
        with pytest.raises(NotKept, match="is on 2 disks, and not known to be on 3") as raised:
            await sender.multicast("g", b"x", copies=3, within_s=0.7)
        assert raised.value.copies == 2
        assert raised.value.position is not None
        with pytest.raises(NotKept, match="on 0 disks, and not known to be on a majority"):
            await sender.multicast("nobody records it", b"x", within_s=0.3)
        with pytest.raises(LocalProtocolError, match="copies is 0"):
            await sender.multicast("g", b"x", copies=0)
        assert (await sender.multicast("g", b"y", copies=1)).copies >= 1


def test_a_disk_counts_once_however_often_its_archive_is_started(
    cluster: RunningCluster, archives: list[ArchiveProcess], tmp_path: Path
) -> None:
    def started() -> ArchiveProcess:
        archive = ArchiveProcess(cluster.address("b"), tmp_path, ["g"])
        archive.until_live()
        return archive

    with (
        blocking.connect(cluster.address("a")) as connection,
        connection.keeping() as sender,
        ThreadPoolExecutor() as threads,
    ):
        with started():
            assert sender.multicast("g", b"x", copies=3).copies == 3
            waiting = threads.submit(sender.multicast, "g", b"x", copies=4, within_s=4.0)
            assert sender.multicast("g", b"y", copies=3).copies == 3
        with started():
            assert sender.multicast("g", b"z", copies=3).copies == 3
            error = waiting.exception()
    assert isinstance(error, NotKept)
    assert error.copies == 3, "the folder has answered at both starts"


def test_an_answer_to_an_earlier_program_of_the_name_keeps_no_message_of_the_next_one(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    late = ArchiveProcess(cluster.address("b"), tmp_path, ["late"])
    late.until_live()
    os.kill(late.pid, signal.SIGSTOP)
    with late:
        with (
            blocking.connect(cluster.address("a"), user="program") as connection,
            connection.keeping() as sender,
            pytest.raises(NotKept),
        ):
            sender.multicast("late", b"first", copies=1, within_s=0.5)
        with (
            blocking.connect(cluster.address("a"), user="program") as connection,
            connection.keeping() as sender,
            ThreadPoolExecutor() as threads,
        ):
            # No archive is of these groups, and this one answers what it was asked before.
            waiting = threads.submit(
                sender.multicast, "of no archive", b"second", copies=1, within_s=2.0
            )
            os.kill(late.pid, signal.SIGCONT)
            error = waiting.exception()
    assert isinstance(error, NotKept)
    assert error.copies == 0


def test_without_a_number_of_archives_copies_must_be_said(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    with (
        ArchiveProcess(cluster.address("b"), tmp_path, ["alone"]) as archive,
        blocking.connect(cluster.address("a")) as connection,
        connection.keeping() as sender,
    ):
        archive.until_live()
        with pytest.raises(NotKept, match=r"on 1 disks, .* on a majority.*--archives N"):
            sender.multicast("alone", b"x", within_s=0.7)
        assert sender.multicast("alone", b"x", copies=1).copies == 1
