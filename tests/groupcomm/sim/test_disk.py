"""Simulated disks: the durable records, their times, and the effects of faults."""

from random import Random

import pytest

from groupcomm.sim.cluster.disk import FASTEST_US, SLOWEST_US, Ailment, Disk, DiskRecord
from groupcomm.sim.virtual_time import SECOND, Loop


class Written:
    """A disk, and which of its writes were confirmed."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = Loop()
        self.disk = Disk(self.loop, Random(seed))
        self.confirmed: list[int] = []
        self.failures: list[str] = []

    def write(self, restarts: int, mark: int = 0) -> None:
        record = DiskRecord(restarts=restarts, mark=mark)
        self.disk.write(record, lambda: self.confirmed.append(restarts), self.failures.append)

    def write_all(self, count: int) -> None:
        for restarts in range(1, count + 1):
            self.write(restarts)
            self.loop.run(self.loop.now + SLOWEST_US)


@pytest.mark.parametrize("seed", range(20))
def test_a_write_takes_its_time_and_then_lasts(seed: int) -> None:
    written = Written(seed)
    written.write(1, mark=70)
    written.loop.run(FASTEST_US - 1)
    assert written.confirmed == []
    assert written.disk.record == DiskRecord()
    written.loop.run(SLOWEST_US)
    assert written.confirmed == [1]
    assert written.disk.record == DiskRecord(restarts=1, mark=70)


def test_two_writes_at_a_time_are_a_mistake() -> None:
    written = Written()
    written.write(1)
    with pytest.raises(AssertionError, match="two writes"):
        written.write(2)


def test_a_write_under_way_at_a_crash_may_last_or_not_and_is_never_confirmed() -> None:
    left = []
    for seed in range(40):
        written = Written(seed)
        written.write_all(1)
        written.write(2)
        written.disk.crash()
        written.loop.run(written.loop.now + SECOND)
        assert written.confirmed == [1]
        left.append(written.disk.record.restarts)
    assert 10 < left.count(1) < 30
    assert left.count(1) + left.count(2) == 40


def test_the_next_start_writes_as_if_nothing_had_happened() -> None:
    written = Written()
    written.write(1)
    written.disk.crash()
    written.write(5)
    written.loop.run(SECOND)
    assert written.confirmed == [5]
    assert written.disk.record.restarts == 5


def test_a_lost_disk_is_empty() -> None:
    written = Written()
    written.write_all(3)
    written.disk.lose()
    assert written.disk.record == DiskRecord()
    written.disk.roll_back()
    assert written.disk.record == DiskRecord(), "there is nothing to go back to"


def test_a_disk_rolls_back_to_any_earlier_record() -> None:
    found = set()
    for seed in range(60):
        written = Written(seed)
        written.write_all(4)
        written.disk.roll_back()
        found.add(written.disk.record.restarts)
    assert found == {0, 1, 2, 3}


def test_a_clone_starts_with_the_same_record_and_goes_its_own_way() -> None:
    written = Written()
    written.write_all(2)
    clone = written.disk.copy()
    assert clone.record == written.disk.record
    clone.write(DiskRecord(restarts=9), lambda: None, written.failures.append)
    written.loop.run(written.loop.now + SECOND)
    assert clone.record.restarts == 9
    assert written.disk.record.restarts == 2


# ---- disks that are unwell ----


def test_a_slow_disk_takes_its_time_for_each_write() -> None:
    written = Written()
    written.disk.ail(Ailment.SLOW, 3 * SECOND)
    written.write(1)
    written.loop.run(3 * SECOND - 1)
    assert written.confirmed == []
    written.loop.run(3 * SECOND)
    assert written.confirmed == [1]


def test_a_write_on_a_disk_that_hangs_ends_once_it_is_well_again() -> None:
    written = Written()
    written.disk.ail(Ailment.HUNG)
    written.write(1)
    written.loop.run(100 * SECOND)
    assert (written.confirmed, written.failures, written.disk.record.restarts) == ([], [], 0)
    written.disk.recover()
    written.loop.run(100 * SECOND + SLOWEST_US)
    assert written.confirmed == [1]


def test_a_disk_that_hangs_and_is_slow_then_goes_on() -> None:
    written = Written()
    written.disk.ail(Ailment.HUNG)
    written.write(1)
    written.disk.ail(Ailment.SLOW, 9 * SECOND)
    written.loop.run(SECOND)
    assert written.confirmed == [1], "the write that hung is over; the next one is slow"


def test_writes_on_a_full_disk_fail_and_leave_nothing() -> None:
    written = Written()
    written.disk.ail(Ailment.FULL)
    written.write_all(20)
    assert written.confirmed == []
    assert written.failures == ["No space left on device"] * 20
    assert written.disk.record.restarts == 0
    written.disk.recover()
    written.write_all(1)
    assert written.confirmed == [1]


def test_writes_that_fail_may_have_lasted() -> None:
    written = Written()
    written.disk.ail(Ailment.BROKEN)
    lasted = 0
    for restarts in range(1, 41):
        written.write(restarts)
        written.loop.run(written.loop.now + SLOWEST_US)
        lasted += written.disk.record.restarts == restarts
    assert written.confirmed == []
    assert len(written.failures) == 40
    assert 10 < lasted < 30


@pytest.mark.parametrize("seed", range(5))
def test_a_disk_can_be_rolled_back_by_whole_starts(seed: int) -> None:
    written = Written(seed)
    for restarts, mark in ((1, 10), (1, 20), (2, 20), (2, 30), (2, 40)):
        written.write(restarts, mark)
        written.loop.run(written.loop.now + SLOWEST_US)
    written.disk.roll_back(starts=True)
    assert written.disk.record.restarts < 2
