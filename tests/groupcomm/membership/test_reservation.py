"""View counters: what may be used, what the disk is asked for, and when."""

from math import inf

import pytest

from groupcomm.config.view import Incarnation, Start
from groupcomm.membership.reservation import (
    LEAD_US,
    LONGEST_RETRY_S,
    MOST_LEAD_US,
    RENEW_S,
    SPARE,
    Reservation,
    count_start,
    reserved_by,
)

MARK = LEAD_US


def microseconds(now: float) -> int:
    """Physical time that began with the monotonic one."""
    return int(now * 1e6)


def reservation(mark: int = MARK, write_s: float = 0.0) -> Reservation:
    return Reservation(0, mark, microseconds, 0.0, write_s)


def write(disk: Reservation, at: float, takes_s: float = 0.0) -> float:
    """Store the wanted mark; return the time at which that is done."""
    assert disk.to_store is not None
    disk.stored(disk.to_store, at + takes_s)
    return at + takes_s


# ---- starts ----


def test_a_start_is_above_all_that_was_reserved_and_above_physical_time() -> None:
    assert count_start(0, 5_000_000, 7)[0] == 5_000_000, "an empty disk"
    assert count_start(9_000_000, 5_000_000, 7)[0] == 9_000_007, "the clock was set back"
    assert count_start(3_000_000, 5_000_000, 7)[0] == 5_000_000


@pytest.mark.parametrize("mark", [0, 4_999_999, 5_000_000, 7_000_000, 9_000_000])
def test_a_start_reserves_counters_for_its_first_views(mark: int) -> None:
    used, reserved = count_start(mark, 5_000_000, 7)
    assert reserved >= used + SPARE
    assert reserved >= 5_000_000 + LEAD_US, "so that starts of others at about this time fit"


def test_starts_in_quick_succession_do_not_run_away_from_physical_time() -> None:
    mark = 0
    for number in range(1000):
        reading = number * SPARE
        used, mark = count_start(mark, reading, 7)
        assert used <= reading + LEAD_US
        assert mark <= reading + LEAD_US + SPARE


def test_what_the_start_has_reserved_may_be_used_at_once() -> None:
    who = Incarnation(1, 1)
    disk = reserved_by(Start(name="a", incarnation=who, counter=70, mark=90), microseconds, 5.0)
    assert (disk.used, disk.mark) == (70, 90)
    assert disk.may_use(71, 5.0)
    assert disk.to_store is None


def test_a_start_that_has_reserved_nothing_begins_at_physical_time() -> None:
    who = Incarnation(1, 1)
    disk = reserved_by(Start(name="a", incarnation=who, counter=70), microseconds, 5.0)
    assert (disk.used, disk.mark) == (5_000_000, 70)
    assert not disk.may_use(disk.used + 1, 5.0)


# ---- what views need ----


def test_a_counter_above_the_mark_is_reserved_first() -> None:
    disk = reservation()
    assert disk.may_use(MARK, 1.0)
    assert disk.to_store is None
    assert not disk.may_use(MARK + 1, 1.0)
    assert disk.is_short
    assert disk.to_store is not None
    assert disk.to_store >= MARK + 1 + SPARE
    write(disk, 1.0)
    assert not disk.is_short
    assert disk.may_use(MARK + 1, 1.0)


def test_what_is_needed_while_a_write_is_under_way_is_written_behind_it() -> None:
    disk = reservation()
    assert not disk.may_use(MARK + 1, 1.0)
    first = disk.to_store
    far = 10**12
    assert not disk.may_use(far, 1.1)
    assert disk.to_store == first, "one write at a time"
    write(disk, 1.2)
    assert disk.is_short
    assert disk.to_store is not None
    assert disk.to_store >= far
    write(disk, 1.3)
    assert disk.may_use(far, 1.3)


def test_the_disk_is_kept_ahead_of_numbers_that_connections_have() -> None:
    disk = reservation()
    disk.keep_ahead(MARK - SPARE // 2, 0.0)
    assert disk.to_store is None
    disk.keep_ahead(MARK - SPARE // 2 + 1, 0.0)
    assert disk.to_store is not None
    assert disk.to_store >= MARK + SPARE // 2
    disk.failed("No space left on device", 0.0)
    disk.keep_ahead(MARK, 0.0)
    assert disk.to_store is None, "it is tried again when that is due"


def test_a_disk_is_kept_ahead_of_numbers_far_above_physical_time() -> None:
    disk = reservation()
    far = 10**12
    disk.keep_ahead(far, 0.0)
    assert disk.to_store == far + SPARE


def test_nobody_uses_a_counter_that_is_not_reserved() -> None:
    disk = reservation()
    disk.use(MARK)
    assert disk.used == MARK
    with pytest.raises(AssertionError, match="above the mark"):
        disk.use(MARK + 1)


def test_a_view_with_another_daemon_needs_both_disks() -> None:
    disk = reservation(mark=100)
    disk.use(50)
    assert disk.allows_view_with(40, 51, 0.0)
    assert not disk.allows_view_with(40, 50, 0.0), "the other one cannot go above 50"
    assert disk.allows_view_with(99, 100, 0.0)
    assert not disk.allows_view_with(99, 99, 0.0), "nor above what it has used itself"
    assert disk.to_store is None
    assert not disk.allows_view_with(100, 10**6, 0.0)
    assert disk.to_store is not None, "this one can, once its disk has answered"


# ---- when the disk is written ----


def test_a_disk_that_is_well_is_asked_now_and_then_although_nobody_needs_it() -> None:
    disk = reservation()
    disk.step(RENEW_S - 0.1)
    assert disk.to_store is None
    disk.step(disk.due)
    assert disk.to_store == microseconds(RENEW_S) + LEAD_US
    assert disk.due == inf, "until it has answered"
    assert write(disk, RENEW_S, 0.005) + RENEW_S == disk.due


def test_a_new_view_renews_the_mark_in_the_background() -> None:
    disk = reservation()
    disk.renew(0.5)
    assert disk.to_store is None, "it is far ahead still"
    disk.renew(1.5)
    assert disk.to_store == 1_500_000 + LEAD_US


@pytest.mark.parametrize("write_s", [0.1, 0.5, 1.0, 2.0])
def test_the_mark_of_a_slow_disk_is_always_above_those_of_disks_that_are_well(
    write_s: float,
) -> None:
    """Else each start of another daemon would take it to a counter that is not reserved."""
    disk = reservation(write_s=write_s)
    now, leads = 0.0, []
    while now < 100.0:
        disk.step(max(now, disk.due))
        before = disk.mark
        now = write(disk, disk.asked_at, write_s)
        leads.append(before - microseconds(now))
        assert disk.mark <= microseconds(now) + MOST_LEAD_US
    assert min(leads[2:]) >= LEAD_US, "also just before the next mark is stored"
    assert len(leads) <= 100.0 / 2 + 3, "and the disk has time for others"


def test_a_disk_that_cannot_keep_up_with_time_is_not_kept_busy() -> None:
    disk = reservation(write_s=10.0)
    assert disk.due == RENEW_S


def test_a_disk_that_was_slow_once_is_trusted_again_by_and_by() -> None:
    disk = reservation(write_s=1.0)
    now = 0.0
    for _ in range(8):
        now = max(now, disk.due)
        disk.step(now)
        now = write(disk, now, 0.001)
    assert disk.due == now + RENEW_S


def test_a_disk_that_has_hung_once_is_kept_ahead_after_its_next_write() -> None:
    disk = reservation()
    disk.step(disk.due)
    now = write(disk, RENEW_S, 60.0)
    assert disk.due == now + RENEW_S, "it might be hopeless"
    disk.step(disk.due)
    now = write(disk, disk.asked_at, 0.1)
    assert disk.due < now + RENEW_S, "it is not"


def test_time_in_which_the_daemon_itself_stood_still_is_not_the_disks() -> None:
    disk = reservation()
    disk.step(disk.due)
    asked_at, mark = disk.asked_at, disk.to_store
    assert mark is not None
    disk.excuse(5.0)
    assert disk.asked_at == asked_at + 5.0, "so nobody says that the disk has not answered for 5 s"
    disk.stored(mark, asked_at + 5.1)
    assert disk.write_s == pytest.approx(0.1)
    disk = reservation()
    disk.step(disk.due)
    assert disk.to_store is not None
    disk.stored(disk.to_store, disk.asked_at + 104.0, took_s=0.001)
    assert disk.write_s == 0.001, "the answer waited for the daemon"


# ---- failures ----


def test_a_write_that_failed_is_begun_again_at_growing_intervals() -> None:
    disk = reservation()
    assert not disk.may_use(MARK + 1, 0.0)
    now, waits = 0.0, []
    for _ in range(7):
        disk.failed("No space left on device", now)
        assert disk.error == "No space left on device"
        assert not disk.may_use(MARK + 1, now), "nor does need shorten the wait"
        assert disk.to_store is None
        waits.append(round(disk.due - now, 6))
        now = disk.due
        disk.step(now)
        assert disk.to_store is not None
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, LONGEST_RETRY_S, LONGEST_RETRY_S]
    assert disk.mark == MARK, "what is not known to last is not used"
    write(disk, now)
    assert disk.error is None
    assert disk.may_use(MARK + 1, now)
    assert not disk.may_use(disk.mark + 1, now)
    disk.failed("Input/output error", now)
    assert disk.due == now + 0.1, "it begins anew"
