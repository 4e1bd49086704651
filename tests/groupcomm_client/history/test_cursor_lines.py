"""Cursors in the simulator: nothing acknowledged is lost, nothing goes back, nothing is skipped."""

from collections.abc import Iterable
from typing import Any

import pytest

from groupcomm.clocks.stamp import Position
from groupcomm.events import DaemonView, Event, MemberId, Message, Transition
from groupcomm_archive.cursors import ArchivedCursors, StoreCursors
from groupcomm_client.history.cursor_client import CursorClient, CursorState
from groupcomm_client.history.cursors import CursorEntry
from groupcomm_client.history.frames import ARCHIVES
from groupcomm_client.history.given import CaughtUp, Gap, Start
from groupcomm_client.history.places import Progress, place_of
from groupcomm_client.history.subscriber import Subscriber
from tests.groupcomm_client.history.lines import (
    GROUPS,
    Keeping,
    Lines,
    Past,
    Reader,
    Reference,
    Store,
    gap_wait_of,
    keys_of,
)

ALL = "archive reader part mend mend daemon"


class CursorStore(Store):
    """The store of an archive; a place on its disk never falls."""

    def __init__(self) -> None:
        super().__init__()
        self.cursors: tuple[CursorEntry, ...] = ()

    def write(self, entries: tuple[CursorEntry, ...]) -> None:
        new = {entry.name: entry for entry in entries}
        for entry in self.cursors:
            assert new[entry.name].rank >= entry.rank, "a cursor goes back"
        self.cursors = entries

    def place_of(self, name: str) -> Position | None:
        return next((entry.position for entry in self.cursors if entry.name == name), None)


class CursorKeeping(Keeping):
    """An archive, whose disk writes cursors until the next tick."""

    lines: "CursorLines"
    cursors: ArchivedCursors | None = None
    store: CursorStore

    def begin(self, me: MemberId) -> None:
        self.cursors = ArchivedCursors(me, self.store.cursors)
        self.writing: StoreCursors | None = None
        self.is_regular = True
        super().begin(me)

    def handle(self, event: Event) -> None:
        assert self.cursors is not None
        self.cursors.handle(event)
        if isinstance(event, Transition | DaemonView):
            self.is_regular = isinstance(event, DaemonView)
        elif isinstance(event, Message) and event.groups == (ARCHIVES,) and self.is_regular:
            place = place_of(event)
            if place is not None and self.cursors.is_current:
                held = dict(self.cursors.entries)
                same = self.lines.held_at.setdefault(place, held)
                assert same == held, "archives hold different cursors at one place"
        super().handle(event)

    def drain(self) -> None:
        super().drain()
        assert self.cursors is not None
        for action in self.cursors.pop_actions():
            if isinstance(action, StoreCursors):
                self.writing = action
            else:
                self.send([action])

    def tick(self) -> None:
        if not self.is_over and self.cursors is not None and self.writing is not None:
            self.store.write(self.writing.entries)
            self.writing = None
            self.cursors.stored()
        super().tick()


class CursorPast(Past):
    """All that the programs of one cursor have given, and what they have acknowledged."""

    def __init__(self, name: str, start: Start) -> None:
        super().__init__(start, stable=True)
        self.name = name
        self.acknowledged: Position | None = None
        self.begun = 0
        self.repeated = 0

    def begin_at(self, position: Position | None) -> None:
        self.begun += 1
        self.repeated += position != self.progress.after
        self.progress = Progress(position)


class CursorReader(Reader):
    """A program that subscribes with a cursor, and acknowledges now and then."""

    past: CursorPast
    lines: "CursorLines"

    def begin(self, me: MemberId) -> None:
        self.me = me
        self.cursor = CursorClient(me, self.past.name, GROUPS, 1, now=self.now)
        self.is_new = False
        self.view: DaemonView | None = None

    def handle(self, event: Event) -> None:
        self.cursor.handle(event, self.now)  # type: ignore[arg-type]
        if self.subscriber is not None:
            super().handle(event)
            return
        if isinstance(event, DaemonView):
            self.view = event
        self.begin_if_found()

    def begin_if_found(self) -> None:
        if self.cursor.state is not CursorState.FOUND:
            return
        position, acknowledged = self.cursor.position, self.past.acknowledged
        answered = self.lines.stores_of(self.cursor._archives)
        places = [store.place_of(self.past.name) for store in answered]
        if acknowledged is not None and any(p is not None and p >= acknowledged for p in places):
            assert position is not None
            assert position >= acknowledged, "an acknowledgement is lost"
        self.past.begin_at(position)
        self.is_new = position is None
        self.known = position
        self.subscriber = Subscriber(
            *(self.me, GROUPS, position or self.past.start),
            now=self.now,
            view=self.view,
            stable=True,
            gap_wait_s=gap_wait_of(self.me),
        )
        for group in GROUPS:
            self.client.join(group)

    def tick(self) -> None:
        if self.is_over or not self.client.connected:
            return
        if self.cursor.deadline is not None and self.cursor.deadline <= self.now:
            self.cursor.wake(self.now)
        self.send(self.cursor.pop_actions())
        self.begin_if_found() if self.subscriber is None else None
        super().tick()

    def drain(self) -> None:
        assert self.subscriber is not None
        assert self.cursor.state is CursorState.FOUND, self.cursor.refusal
        waiting = self.subscriber.waiting
        if self.is_new and self.cursor.position is None:
            first = next(iter(waiting), None)
            if isinstance(first, CaughtUp | Gap):
                place = first.upto if isinstance(first, Gap) else first.position
                self.cursor.acknowledge(place, self.now)
            self.send([*self.subscriber.pop_actions(), *self.cursor.pop_actions()])
            return
        super().drain()
        if self.past.progress.after is not None and self.lines.rng.random() < 0.3:
            self.cursor.acknowledge(self.past.progress.after, self.now)
            self.send(self.cursor.pop_actions())
        position = self.cursor.position
        if position is not None:
            self.past.acknowledged = max(self.past.acknowledged or position, position)
        if position != self.known:
            self.known = position
            for store in self.lines.stores_of(set(self.cursor._archives) - self.cursor._silent):
                held = store.place_of(self.past.name)
                assert held is not None
                assert position is not None
                assert held >= position, "an archive does not have it on its disk"


class CursorLines(Lines):
    """A cluster whose archives keep cursors."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.stores = [CursorStore() for _ in self.stores]
        self.held_at: dict[Position, dict[str, CursorEntry]] = {}

    def make_archive(self, place: int, daemon: int) -> Keeping:
        return CursorKeeping(self, daemon, self.stores[place])

    def make_reader(self, place: int, daemon: int) -> Reader:
        return CursorReader(self, daemon, self.pasts[place])

    def begin(self, name: str, start: Start) -> None:
        self.pasts.append(CursorPast(name, start))
        self.readers.append(None)

    def stores_of(self, archives: Iterable[MemberId]) -> list[CursorStore]:
        known = set(archives)
        found = [k for k in self.keeping if k is not None and k.subscriber is not None]
        return [k.store for k in found if k.subscriber.live.me in known]  # type: ignore[misc,union-attr]

    def check(self) -> None:
        self.rest()
        self.run(10.0, 0.0, "", sends=0.0)
        reference = Reference(observer.deliveries for observer in self.observers)
        stores = [store for store in self.stores if isinstance(store, CursorStore)]
        held: list[Any] = [store.cursors for store in stores]
        for past in self.pasts:
            assert isinstance(past, CursorPast)
            keys = sorted(set(keys_of(past.events)))
            reference.check_keys(past.events, keys, past.progress.after, stable=True)
            assert past.acknowledged is not None
            for store in stores:
                place = store.place_of(past.name)
                assert place is not None
                assert place >= past.acknowledged, "an acknowledgement is lost"
        assert all(sorted(each, key=repr) == sorted(held[0], key=repr) for each in held)


def played(seed: int, kinds: str, seconds: float = 4.0) -> CursorLines:
    lines = CursorLines(seed)
    lines.begin("first", Start.EARLIEST)
    lines.begin("late", Start.LATEST)
    lines.run(seconds, 3.0, kinds)
    lines.check()
    return lines


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_killed_programs_and_archives(seed: int) -> None:
    lines = played(seed, "archive reader reader")
    for past in lines.pasts:
        assert isinstance(past, CursorPast)
        assert past.begun > 2
        assert not past.gaps
        assert len(past.events) > 30


@pytest.mark.parametrize("seed", [pytest.param(3, marks=pytest.mark.long), 7])
def test_partitions_and_crashes(seed: int) -> None:
    assert played(seed, ALL).killed


@pytest.mark.long
def test_archives_that_come_and_go_all_the_time() -> None:
    lines = CursorLines(5)
    lines.begin("first", Start.EARLIEST)
    lines.run(3.0, 12.0, "archive archive reader")
    lines.check()
    assert lines.killed > 10


@pytest.mark.long
def test_many_seeds() -> None:
    repeated = 0
    for seed in range(100, 120):
        lines = played(seed, ALL, 6.0)
        repeated += sum(past.repeated for past in lines.pasts if isinstance(past, CursorPast))
    assert repeated > 5
