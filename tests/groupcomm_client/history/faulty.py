"""Archives and subscribers under all faults: those of the simulator, and those of programs.

Daemons, datagrams, clocks and disks of daemons suffer as `groupcomm simulate` has them suffer
(docs/simulator.md). Besides, programs are killed, stand still and read slowly, and disks of
archives are slow, fail and forget. Each kind is on in half of the seeds.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Final
from unittest.mock import patch

import attrs

from groupcomm.clocks.stamp import Position
from groupcomm.events import DaemonView, Event, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm.sim.virtual_time import SECOND, Clock, microseconds, random_for
from groupcomm_archive.archive import Archive, ReadStore
from groupcomm_client.history import given_queue
from groupcomm_client.history import subscriber as subscriber_module
from groupcomm_client.history.frames import Interval
from groupcomm_client.history.given import Gap, Start
from groupcomm_client.history.given_queue import QUEUE_BYTES
from groupcomm_client.history.places import Line, just_before, place_of
from groupcomm_client.history.subscriber import Subscriber
from tests.groupcomm_client.all_faults import draw_kinds, settings_for
from tests.groupcomm_client.history.lines import (
    GROUPS,
    Keeping,
    Lines,
    Past,
    Program,
    Reader,
    Reference,
    Store,
    gap_wait_of,
    keys_of,
)

TICK_S: Final = 0.01
REST_S: Final = 120.0
QUIET_TICKS: Final = 100
RETRY_S: Final = 1.0
"""The time after which an archive tries a write again that has failed."""

TEND_S: Final = 1.0
SMALL_QUEUE_BYTES: Final = 4000

PROGRAM_FAULTS: Final = (
    "kill archives",
    "kill readers",
    "pause",
    "slow readers",
    "slow disk",
    "failing disk",
    "failing reads",
    "retention",
    "small queues",
    "small caps",
    "clocks",
)


@attrs.frozen(eq=False)
class _Write:
    rows: list[Line | Gap]
    done: Callable[[], None]


class Disk(Store):
    """The store of an archive on a disk that may be slow, fail, or lose what is not written yet.

    Attributes:
        rows: what would be found after a power failure: events of the line, and gaps.
    """

    def __init__(self, lines: "FaultyLines", rng: Random) -> None:
        super().__init__()
        self.rows: list[Line | Gap] = []
        self._batches: list[int] = []  # the number of rows of each write
        self._lines = lines
        self._rng = rng
        self._write: _Write | None = None
        self._slow_until = self._failing_until = 0
        self._removed: Position | None = None  # everything up to here

    @property
    def is_busy(self) -> bool:
        return self._write is not None

    def ail(self, *, failing: bool) -> None:
        until = self._lines.cluster.loop.now + microseconds(self._rng.uniform(0.1, 5.0))
        if failing:
            self._failing_until = until
        else:
            self._slow_until = until

    def recover(self) -> None:
        self._slow_until = self._failing_until = 0

    def write(self, rows: list[Line | Gap], done: Callable[[], None]) -> None:
        """Write rows, and call `done` once they are on disk, whatever becomes of the session."""
        assert self._write is None, "two writes at a time"
        self._write = _Write(rows, done)
        loop = self._lines.cluster.loop
        slow_s = 1.0 if loop.now < self._slow_until else 0.002
        loop.at(loop.now + microseconds(self._rng.random() * slow_s), self._end, self._write)

    def _end(self, write: _Write) -> None:
        if write is not self._write:
            return  # it was given up
        loop = self._lines.cluster.loop
        if loop.now < self._failing_until:
            loop.at(loop.now + microseconds(RETRY_S), self._end, write)
            return
        self._write = None
        self._apply(write.rows)
        write.done()

    def _apply(self, rows: list[Line | Gap]) -> None:
        if rows:
            self.rows += rows
            self._batches.append(len(rows))
            self.events += [row for row in rows if not isinstance(row, Gap)]

    def give_up(self) -> None:
        """The session ends: a write that fails is not tried again."""
        if self._lines.cluster.loop.now < self._failing_until:
            self._write = None

    def lose(self) -> None:
        """The program is killed: what it writes is on disk, or is not."""
        if self._write is not None:
            rows, self._write = self._write.rows, None
            if self._rng.random() < 0.5:
                self._apply(rows)
        self.intervals = self.found()

    def found(self) -> list[Interval]:
        """Return the intervals that a program finds in the rows."""
        found: list[Interval] = []
        is_broken = True
        for row in self.rows:
            if isinstance(row, Gap):
                found.append((row.upto, row.upto))
                is_broken = False
                continue
            place = place_of(row)
            assert place is not None
            first = just_before(place) if is_broken else found.pop()[0]
            found.append((first, place))
            is_broken = False
        return found

    def remove_oldest(self) -> Position | None:
        """Remove the rows of some writes; return the place up to which that was everything."""
        count = self._rng.randint(0, len(self._batches) // 2)
        gone, self.rows = (
            self.rows[: sum(self._batches[:count])],
            self.rows[sum(self._batches[:count]) :],
        )
        del self._batches[:count]
        places = [place_of(row) for row in gone if not isinstance(row, Gap)]
        self.events = self.events[len(places) :]
        if places:
            self._removed = places[-1]
        return places[-1] if places else None

    def has(self, action: ReadStore) -> bool:
        """Return whether what an archive wants to read was not removed meanwhile."""
        return self._removed is None or action.after >= self._removed


class Troubled(Program):
    """A program with a clock of its own, that may stand still."""

    lines: "FaultyLines"

    def prepare(self) -> None:
        rate = 0.1 if "clocks" in self.lines.troubles else 0.0
        self._clock = Clock(self.lines.rng, rate)
        self._paused_until: int | None = None

    @property
    def now(self) -> float:
        return self._clock.monotonic(self.lines.cluster.loop.now)

    @property
    def is_paused(self) -> bool:
        return self._paused_until is not None

    def pause(self, seconds: float) -> None:
        if not self.is_over and self.client.alive and not self.is_paused:
            self._paused_until = self.lines.cluster.loop.now + microseconds(seconds)
            self.client.set_reading(False)

    def go_on(self, *, at_once: bool = False) -> None:
        """Go on, once the pause is over."""
        until = self._paused_until
        if until is not None and (at_once or self.lines.cluster.loop.now >= until):
            self._paused_until = None
            if self.client.alive:
                self.client.set_reading(True)


class FaultyReader(Troubled, Reader):
    """A subscriber that may read slowly."""

    def __init__(self, lines: "FaultyLines", daemon: int, past: Past) -> None:
        super().__init__(lines, daemon, past)
        self.prepare()

    def begin(self, me: MemberId) -> None:
        start = self.past.progress.after or self.past.start
        self.subscriber = self.lines.subscriber(
            me, start, self.now, stable=self.past.stable, is_archive=False
        )
        for group in GROUPS:
            self.client.join(group)

    def tick(self) -> None:
        self.go_on()
        if not self.is_paused:
            super().tick()

    def drain(self) -> None:
        assert self.subscriber is not None
        self.send(self.subscriber.pop_actions())
        waiting = self.subscriber.waiting
        count = len(waiting)
        if "slow readers" in self.lines.troubles and not self.lines.is_over:
            count = min(count, self.lines.rng.choice((0, 0, 0, 1, 2)))
        for event in waiting.pop(count):
            self.past.take(event)
        self.subscriber.taken(self.now)
        self.send(self.subscriber.pop_actions())


class FaultyArchive(Troubled, Keeping):
    """An archive with a disk; it acts as `groupcomm_archive.serving` does."""

    store: Disk

    def __init__(self, lines: "FaultyLines", daemon: int, store: Disk) -> None:
        super().__init__(lines, daemon, store)
        self.prepare()
        self._postponed: list[Callable[[], None]] = []
        self._tended_at = 0.0

    def begin(self, me: MemberId) -> None:
        intervals = self.store.intervals
        start = intervals[-1][1] if intervals else Start.EARLIEST
        self.subscriber = self.lines.subscriber(me, start, self.now, stable=True, is_archive=True)
        self.archive = Archive(me, GROUPS, intervals)
        self.client.join("groupcomm.history")
        for group in GROUPS:
            self.client.join(group)

    def handle(self, event: Event) -> None:
        assert self.subscriber is not None
        assert self.archive is not None
        self.subscriber.handle_all([event], self.now)  # type: ignore[list-item]
        self.archive.handle(event, self.now)
        self.drain()

    def kill(self) -> None:
        if not self.is_over and self.client.alive:
            self.is_over = True  # before the disk hears that a session has ended
            self.client.crash()
            self.store.lose()

    def _on_end(self) -> None:
        if not self.is_over:
            self.store.give_up()
        super()._on_end()

    def tick(self) -> None:
        self.go_on()
        if self.is_paused:
            return
        postponed, self._postponed = self._postponed, []
        for act in postponed:
            act()
        if self.archive is not None and not self.is_over:
            if self.now >= self._tended_at + TEND_S:
                self._tended_at = self.now
                self.archive.wake(self.now)
            super().tick()

    def remove_oldest(self) -> None:
        if self.archive is not None and not self.is_over:
            removed = self.store.remove_oldest()
            if removed is not None:
                self.archive.removed(removed)
                self.store.intervals = list(self.archive.intervals)

    def _later(self, act: Callable[[], None]) -> Callable[[], None]:
        """Return a call that waits for the end of a pause."""
        return lambda: self._postponed.append(act) if self.is_paused else act()

    def drain(self) -> None:
        subscriber, archive = self.subscriber, self.archive
        assert subscriber is not None
        assert archive is not None
        position, known = subscriber.position, archive.intervals
        is_new = position is not None and (not known or position > known[-1][1])
        if not self.store.is_busy and (subscriber.waiting or is_new):
            given = subscriber.waiting.pop()
            rows = [
                each
                for each in given
                if isinstance(each, Gap)
                or (isinstance(each, Message | GroupView | DaemonView) and place_of(each))
            ]
            self.store.write(rows, self._later(lambda: self._stored(rows, position)))
        archive.is_live = subscriber.state.name == "LIVE"
        self.send(subscriber.pop_actions())
        actions = archive.pop_actions()
        self.send(actions)
        for action in actions:
            if isinstance(action, ReadStore):
                self._read(action)

    def _stored(self, rows: list[Line | Gap], position: Position | None) -> None:
        subscriber, archive = self.subscriber, self.archive
        assert subscriber is not None
        assert archive is not None
        for each in rows:
            if isinstance(each, Gap):
                if each.after is not None:
                    archive.stored(each.after, self.now)
                archive.begin_interval(each.upto)
        if position is not None and archive.intervals:
            archive.stored(position, self.now)
        self.store.intervals = list(archive.intervals)
        if not self.is_over:
            subscriber.taken(self.now)
            self.drain()

    def _read(self, action: ReadStore) -> None:
        rng, loop = self.lines.rng, self.lines.cluster.loop
        fails = "failing reads" in self.lines.troubles and rng.random() < 0.05
        longest_s = 0.3 if "slow disk" in self.lines.troubles else 0.002

        def end() -> None:
            archive = self.archive
            assert archive is not None
            if self.is_over:
                return
            if fails or not self.store.has(action):
                archive.failed(action.key)
            else:
                archive.read(action.key, self.store.read(action), self.now)
            self.drain()

        loop.at(loop.now + microseconds(rng.random() * longest_s), lambda _: self._later(end)())


class FaultyLines(Lines):
    """A cluster with all faults, and programs with theirs."""

    keeping: list[FaultyArchive | None]  # type: ignore[assignment]
    readers: list[FaultyReader | None]  # type: ignore[assignment]

    def __init__(
        self,
        seed: int,
        faults: str = "all",
        duration_s: float = 6.0,
        program_faults: str = "all",
    ) -> None:
        self.troubles = draw_kinds(seed, PROGRAM_FAULTS, program_faults)
        self.troubles_per_s = random_for(seed, "troubles").uniform(1.0, 6.0)
        caps = "small caps" in self.troubles
        self.seed, self.duration_s = seed, duration_s
        super().__init__(seed, settings=settings_for(seed, faults, duration_s, small_caps=caps))
        self.stores = [Disk(self, random_for(seed, f"disk {place}")) for place in range(3)]
        self.is_over = False

    def subscriber(
        self, me: MemberId, start: Start | Position, now: float, *, stable: bool, is_archive: bool
    ) -> Subscriber:
        small = "small queues" in self.troubles
        return Subscriber(
            me,
            GROUPS,
            start,
            now=now,
            stable=stable,
            is_archive=is_archive,
            queue_bytes=SMALL_QUEUE_BYTES if small else QUEUE_BYTES,
            gap_wait_s=gap_wait_of(me),
        )

    def make_archive(self, place: int, daemon: int) -> FaultyArchive | None:  # type: ignore[override]
        store = self.stores[place]
        assert isinstance(store, Disk)
        if store.is_busy:  # a write of the last session has not ended
            return self.keeping[place]
        return FaultyArchive(self, daemon, store)

    def make_reader(self, place: int, daemon: int) -> FaultyReader:
        return FaultyReader(self, daemon, self.pasts[place])

    # ---- events ----

    def trouble(self, kinds: str = "") -> None:
        """Something happens to a program, or to its disk."""
        rng, troubles = self.rng, self.troubles
        kind = rng.choice(PROGRAM_FAULTS)
        if kind not in troubles:
            return
        archive, reader = rng.choice(self.keeping), rng.choice(self.readers)
        disk = rng.choice(self.stores)
        assert isinstance(disk, Disk)
        match kind:
            case "kill archives":
                self._kill(archive)
            case "kill readers":
                self._kill(reader)
            case "pause":
                program = rng.choice((archive, reader))
                if program is not None:
                    program.pause(rng.choice((0.1, 1.0, 5.0)) * rng.random())
            case "slow disk" | "failing disk":
                disk.ail(failing=kind == "failing disk")
            case "retention" if archive is not None:
                archive.remove_oldest()

    def play(self) -> None:
        """Run load and faults, then mend everything and wait until all subscriptions are live."""
        with self._limits():
            self.run(self.duration_s, self.troubles_per_s, "")
            self._end()

    @contextmanager
    def _limits(self) -> Iterator[None]:
        if "small queues" not in self.troubles:
            yield
            return
        with (
            patch.multiple(given_queue, READ_AHEAD=20, MOST_WAITING=40),
            patch.object(subscriber_module, "WINDOW", 2),
        ):
            yield

    def _end(self) -> None:
        loop = self.cluster.loop
        self.is_over = True
        for program in [*self.keeping, *self.readers]:
            if program is not None:
                program.go_on(at_once=True)
        for store in self.stores:
            assert isinstance(store, Disk)
            store.recover()
        loop.at(loop.now, self._tick)
        self.cluster.end_faults()
        self._until(lambda: self.is_live, "the subscriptions do not become live")
        last = self._last_word()
        self._until(lambda: self._has_come(last), "the last message does not reach all")

    def _tick(self, _: None) -> None:
        self._observe()
        self._restart(1.0)
        self.tick()
        self.cluster.loop.at(self.cluster.loop.now + microseconds(TICK_S), self._tick)

    def _until(self, ready: Callable[[], bool], otherwise: str) -> None:
        limit = self.cluster.loop.now + microseconds(REST_S)
        quiet = 0
        while quiet < QUIET_TICKS:
            assert self.cluster.loop.now < limit, otherwise
            self.cluster.run(TICK_S)
            quiet = quiet + 1 if ready() else 0

    def _last_word(self) -> bytes:
        """Send one more message to all groups."""
        data = b"last word"
        observer = next(o for o in self.observers if not o.is_over and o.client.writable)
        observer.client.multicast(GROUPS, data, level=ServiceLevel.AGREED)
        return data

    def _has_come(self, data: bytes) -> bool:
        given = [store.events for store in self.stores] + [past.events for past in self.pasts]
        return all(
            any(isinstance(event, Message) and event.data == data for event in events[-20:])
            for events in given
        )

    # ---- the end ----

    def check(self) -> None:
        """Raise AssertionError unless all subscriptions, and all stores, have the line."""
        reference = Reference(observer.deliveries for observer in self.observers)
        for past in self.pasts:
            reference.check(past)
        for store in self.stores:
            assert isinstance(store, Disk)
            reference.check_keys(store.rows, keys_of(store.events), _end_of(store), stable=True)

    @property
    def simulated_s(self) -> float:
        return self.cluster.loop.now / SECOND

    def summary(self) -> dict[str, int]:
        """Return how much has happened."""
        return {
            "events": sum(len(past.events) for past in self.pasts),
            "catches": sum(past.catches for past in self.pasts),
            "gaps": sum(past.gaps for past in self.pasts),
            "killed": self.killed,
        }


def _end_of(store: Disk) -> Position | None:
    return store.intervals[-1][1] if store.intervals else None


def play(
    seed: int, faults: str = "all", duration_s: float = 6.0, program_faults: str = "all"
) -> FaultyLines:
    """Run one seed with four subscriptions, and check it."""
    lines = FaultyLines(seed, faults, duration_s, program_faults)
    for stable in (True, False):
        lines.subscribe(Start.EARLIEST, stable=stable)
        lines.subscribe(Start.LATEST, stable=stable)
    lines.play()
    lines.check()
    return lines
