"""The numbers of views and connections: on one line, reserved on disk, above all that was used."""

import pytest

from groupcomm.engine import ClientOpened
from groupcomm.engine.delivery import highest_used
from groupcomm.membership.proposal import LEAD_US
from groupcomm.membership.reservation import JUMP_US, SPARE, STEP_US, first_number
from tests.groupcomm.engine.cluster import Cluster

NOW = 1_000_000_000
"""Physical time at the start of a cluster, microseconds."""

AHEAD = NOW + 86_400_000_000
"""A counter that is a day ahead."""


def number(counter: int, random_id: int = 0) -> int:
    return first_number(counter, NOW, random_id)


def test_a_start_begins_at_its_disk_or_its_clock() -> None:
    assert number(0, random_id=123) == NOW
    assert number(NOW, random_id=123) == NOW


@pytest.mark.parametrize("random_id", [0, 123, 2**64 - 1])
def test_where_the_disk_is_ahead_of_the_clock_starts_differ(random_id: int) -> None:
    """Seed 471200 with rosters: the disk of a daemon that was alone came back within its lead."""
    assert number(NOW + 1, random_id) == NOW + 1 + random_id % STEP_US
    assert number(NOW + LEAD_US, random_id) == NOW + LEAD_US + random_id % STEP_US
    assert number(AHEAD, random_id) == AHEAD + random_id % JUMP_US


def test_numbers_of_connections_are_reserved_before_they_are_used() -> None:
    """Else a start with a clock that was set back would use them again."""
    cluster = Cluster("a")
    cluster.start("a")
    cluster.run(0.1)
    core = cluster.cores["a"]
    for _ in range(SPARE * 3 // 4):
        core.next_connection()
    cluster.step("a", [], [ClientOpened(core.sessions.connection_numbers.last)])
    assert core.reservation.mark >= core.sessions.connection_numbers.last + SPARE // 2


def test_a_view_is_above_all_numbers_that_its_members_know_to_be_used() -> None:
    """Each of their disks is then above them, too, and any of them can tell."""
    cluster = Cluster("ab")
    cluster.start("ab", counter=AHEAD)
    cluster.run(0.1)
    last = max(cluster.connect("a", user).connection for user in "uvw")
    view = cluster.cores["b"].view
    assert view is not None
    assert view.id.counter < last
    del cluster.cores["a"]
    cluster.run(2.0)
    view = cluster.cores["b"].view
    assert view is not None
    assert [daemon.name for daemon in view.daemons] == ["b"]
    assert last < view.id.counter <= cluster.cores["b"].reservation.mark


def test_numbers_that_no_daemon_reaches_are_not_believed() -> None:
    assert highest_used([7, 2**64 - 1, 9], AHEAD) == 9
    assert highest_used([], AHEAD) == 0


def test_a_start_with_an_old_disk_gets_numbers_above_all_of_its_connections() -> None:
    cluster = Cluster("ab")
    cluster.start("ab", restarts=7, counter=AHEAD)
    cluster.run(0.1)
    last = max(cluster.connect("a", user).connection for user in "uvw")
    del cluster.cores["a"]
    cluster.run(2.0)
    cluster.start("a", restarts=3, random_id=77, counter=NOW)
    cluster.run(1.0)
    assert cluster.members("a") == "ab"
    assert cluster.connect("a", "u").connection > last
