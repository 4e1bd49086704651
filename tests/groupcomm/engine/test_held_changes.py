"""Changes of large groups that follow each other fast go out together, and in their order."""

from math import inf

import pytest

from groupcomm.engine.held_changes import MANY, MOST_HOLD_S, HeldChanges, hold_s
from groupcomm.events import Cause, Connected, GroupView, Message
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings

NEWCOMERS = 20


def test_the_first_change_goes_out_at_once_and_those_behind_it_together() -> None:
    held = HeldChanges()
    assert not held.must_wait(1000, 1.0)
    assert held.must_wait(1000, 1.0)
    held.hold(7)
    assert held.must_wait(1000, 1.1)
    held.hold(8)
    assert held.due == 1.0 + hold_s(1000)
    assert not list(held.pop_due(held.due - 0.001))
    assert list(held.pop_due(held.due)) == [7, 8]
    assert held.due == inf
    assert held.must_wait(1000, 1.2), "there was a flush just now"


def test_after_a_quiet_time_nothing_waits() -> None:
    held = HeldChanges()
    assert not held.must_wait(1000, 1.0)
    assert not held.must_wait(1000, 1.0 + hold_s(1000))


def test_the_time_is_bounded_and_changes_of_small_groups_never_wait() -> None:
    assert hold_s(10**6) == MOST_HOLD_S
    held = HeldChanges()
    assert not any(held.must_wait(MANY - 1, 1.0) for _ in range(100))


class Storm:
    """Many members at one daemon, and newcomers at another one that join as fast as they can."""

    def __init__(self, members: int) -> None:
        self.cluster = Cluster(plain_settings(daemons=2))
        self.members = [self.connect(f"m{number}", 0) for number in range(members)]
        self.newcomers = [self.connect(f"n{number}", 1) for number in range(NEWCOMERS)]
        self.cluster.run(0.5)
        for member in self.members:
            member.join("g")
        self.cluster.run(3.0)
        self.told = [len(member.events) for member in self.members]

    def connect(self, name: str, daemon: int) -> SimulatedClient:
        return self.cluster.connect(name, daemon)

    def written(self) -> int:
        """Have the newcomers join; return the writes to the first member until all are told."""
        core, writes = self.cluster.daemons[0].core, 0
        welcome = self.members[0].events[0]
        assert isinstance(welcome, Connected)
        number = welcome.member.connection
        pop = core.pop_output

        def counted(connection: int, limit: int) -> list[object]:
            nonlocal writes
            parts = pop(connection, limit)
            writes += connection == number and bool(parts)
            return list(parts)

        core.pop_output = counted  # type: ignore[method-assign, assignment]
        for newcomer in self.newcomers:
            newcomer.join("g")
            self.cluster.run(0.002)
        self.cluster.run(MOST_HOLD_S + 0.1)
        return writes

    def joins(self, at: int) -> list[str]:
        """Return the names that a member was told to have joined, in order."""
        events = self.members[at].events[self.told[at] :]
        return [
            member.user
            for event in events
            if isinstance(event, GroupView) and event.cause is Cause.JOIN
            for member in event.changed
        ]


@pytest.mark.parametrize(("members", "most"), [(MANY + 6, NEWCOMERS // 2), (MANY - 40, NEWCOMERS)])
def test_a_storm_of_joins_costs_a_large_group_few_writes_and_nobody_a_change(
    members: int, most: int
) -> None:
    storm = Storm(members)
    writes = storm.written()
    assert 1 <= writes <= most
    for at in range(members):
        assert storm.joins(at) == [f"n{number}" for number in range(NEWCOMERS)]


def test_a_message_behind_changes_that_wait_takes_them_along() -> None:
    storm = Storm(MANY + 6)
    for newcomer in storm.newcomers[:5]:
        newcomer.join("g")
    storm.cluster.run(0.003)
    storm.newcomers[0].multicast(["g"], b"hello")
    storm.cluster.run(0.004)
    for at, member in enumerate(storm.members):
        assert storm.joins(at) == [f"n{number}" for number in range(5)]
        assert isinstance(member.events[-1], Message)
