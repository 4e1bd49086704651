"""Connections that resume, in the simulator: over all sessions they receive the line."""

from typing import Any

import pytest

from groupcomm.clocks.stamp import Position
from groupcomm.events import Cause, DaemonView, Event, GroupView, MemberId
from groupcomm_client.events import Reconnected
from groupcomm_client.history.given import CaughtUp, Gap, Start
from groupcomm_client.history.places import place_of
from groupcomm_client.history.resumption import Resumption
from tests.groupcomm_client.history.lines import (
    GROUPS,
    Lines,
    Past,
    Reader,
    Reference,
)

ALL = "archive reader part mend mend daemon"


class ResumedPast(Past):
    """All that one connection has received, over its sessions."""

    resumption: Resumption | None = None
    begins: Position | None = None  # where it is a member of all groups

    def __init__(self) -> None:
        super().__init__(Start.LATEST, stable=False)
        self.joined: set[str] = set()

    def take(self, given: Any) -> None:
        if isinstance(given, GroupView) and given.own and given.cause is Cause.JOIN:
            self.joined.add(given.group)
            if self.joined == set(GROUPS) and self.begins is None:
                self.begins = given.id
        is_of_minority = isinstance(given, DaemonView) and given.majority is False
        if self.begins is None or is_of_minority:
            return
        place = place_of(given)
        if place is not None:
            assert self.progress.is_new(given, place), "it came twice, or goes back"
        if place is not None or isinstance(given, CaughtUp | Gap):
            super().take(given)


class ResumedReader(Reader):
    """One session of a connection that resumes."""

    past: ResumedPast

    def begin(self, me: MemberId) -> None:
        resumption = self.past.resumption
        if resumption is None:
            self.past.resumption = resumption = Resumption(me, None, None)
        else:
            event = Reconnected(member=me, why="killed", last=None, in_doubt=0)
            resumption.handle_all([event], GROUPS, self.now)
        self.resumption = resumption
        self.subscriber = resumption._subscriber
        for group in GROUPS:
            self.client.join(group)

    def handle(self, event: Event) -> None:
        self.resumption.handle_all([event], GROUPS, self.now)  # type: ignore[list-item]
        self.drain()

    def tick(self) -> None:
        if self.is_over or not self.client.connected:
            return
        deadline = self.resumption.deadline
        if deadline is not None and deadline <= self.now:
            self.resumption.wake(self.now)
        self.drain()

    def drain(self) -> None:
        self.subscriber = self.resumption._subscriber
        while self.resumption.given:
            self.past.take(self.resumption.given.popleft())
            self.resumption.taken(self.now)
        while (action := self.resumption.next_action()) is not None:
            self.send([action])
            self.resumption.sent(action)


class ResumedLines(Lines):
    """A cluster with connections that resume."""

    def begin(self, count: int) -> None:
        for _ in range(count):
            self.pasts.append(ResumedPast())
            self.readers.append(None)

    def make_reader(self, place: int, daemon: int) -> Reader:
        return ResumedReader(self, daemon, self.pasts[place])

    def check(self) -> int:
        """Check what the connections have received; return the number of events."""
        self.rest()
        reference = Reference(observer.deliveries for observer in self.observers)
        for past in self.pasts:
            reference.check(past)
        return sum(len(past.events) for past in self.pasts)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_killed_sessions_and_archives(seed: int) -> None:
    lines = ResumedLines(seed)
    lines.begin(2)
    lines.run(5.0, 3.0, "archive reader reader")
    assert lines.check() > 100
    for past in lines.pasts:
        assert past.catches > 1
        assert not past.gaps


@pytest.mark.parametrize("seed", [3, pytest.param(16, marks=pytest.mark.long)])
def test_partitions_and_crashes(seed: int) -> None:
    lines = ResumedLines(seed)
    lines.begin(2)
    lines.run(5.0, 2.0, ALL)
    assert lines.check() > 100


@pytest.mark.long
def test_many_seeds() -> None:
    received = 0
    for seed in range(100, 130):
        lines = ResumedLines(seed)
        lines.begin(2)
        lines.run(6.0, 2.0, ALL)
        received += lines.check()
    assert received > 5000
