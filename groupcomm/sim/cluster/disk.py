"""A simulated disk: the records that one daemon keeps over its restarts, and the disk's faults.

A record is written whole or not at all, like a file that is renamed into place; it is durable once
file and folder are synced, which takes time. A write in flight at a crash may have become durable
or not; so may a write that was reported as failed, as the sync of the folder comes last.
"""

import enum
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple, Protocol

import attrs

from groupcomm.config.roster import RosterRecord
from groupcomm.engine import (
    Input,
    KeysStored,
    MarkStored,
    RollStored,
    RosterNotStored,
    RosterStored,
    Store,
    StoreKeys,
    StoreMark,
    StoreRoll,
    StoreRoster,
)
from groupcomm.security.identity import DaemonCredentials
from groupcomm.security.keys import KeyRing
from groupcomm.sim.virtual_time import SECOND, Loop

FASTEST_US: Final = SECOND // 10_000
SLOWEST_US: Final = SECOND // 200
"""The bounds of the time of a write with its syncs, microseconds."""

REMEMBERED: Final = 16
"""Earlier records to which a disk can be rolled back."""


@attrs.frozen(kw_only=True)
class DiskRecord:
    """The record that a daemon keeps.

    Attributes:
        restarts: the number of its starts.
        mark: view counters up to here may have been used; 0 on an empty disk.
    """

    restarts: int = 0
    mark: int = 0


def marks_stored_at_once(wanted: Sequence[Store]) -> list[MarkStored]:
    """Return the inputs of a core whose disk takes no time, and keeps only marks."""
    return [MarkStored(each.mark) for each in wanted if isinstance(each, StoreMark)]


class Ailment(enum.Enum):
    """A fault of a disk that lasts for a while."""

    SLOW = enum.auto()  # each write takes long
    HUNG = enum.auto()  # writes begin, and end only once the disk is healthy again
    FULL = enum.auto()  # writes fail, and no part of them lasts
    BROKEN = enum.auto()  # writes fail, but may have lasted


class Damage(enum.Enum):
    """What a daemon finds instead of its disk when it starts again."""

    LOST = enum.auto()  # an empty one
    OLD = enum.auto()  # what it held earlier, as from a backup; often of the same start
    OLD_START = enum.auto()  # what it held at an earlier start, as from a copy of the machine


class _Write(NamedTuple):
    record: DiskRecord
    done: Callable[[], None]
    failed: Callable[[str], None]


class Disk:
    """The disk of one daemon.

    Args:
        loop: virtual time.
        rng: the random source of this disk.
        record: its first content.

    Attributes:
        record: the durable record.
        rosters: the rosters beside it, a file of their own.
        ailment: the present fault; None while it is well.
    """

    def __init__(self, loop: Loop, rng: Random, record: DiskRecord | None = None) -> None:
        self._loop = loop
        self._rng = rng
        self.record = record or DiskRecord()
        self.rosters = RosterRecord()
        self.ailment: Ailment | None = None
        self._slow_us = 0  # the time of a write while it is slow
        self._earlier: list[tuple[DiskRecord, RosterRecord]] = []
        self._under_way: _Write | None = None

    def write(
        self, record: DiskRecord, done: Callable[[], None], failed: Callable[[str], None]
    ) -> None:
        """Write a record and sync it. There may be one write at a time.

        Args:
            record: the record to store.
            done: called once it is durable.
            failed: called with the reason if the disk gives up; it may be durable all the same.
        """
        assert self._under_way is None, "two writes at a time"
        self._under_way = _Write(record, done, failed)
        self._go_on()

    def _go_on(self) -> None:
        """Ensure that the write in flight ends, unless the disk hangs."""
        lasts = FASTEST_US + int(self._rng.random() * (SLOWEST_US - FASTEST_US))
        if self.ailment is Ailment.SLOW:
            lasts = max(lasts, self._slow_us)
        if self.ailment is not Ailment.HUNG:
            self._loop.at(self._loop.now + lasts, self._end, self._under_way)

    def _end(self, write: _Write) -> None:
        if self._under_way is not write:
            return
        self._under_way = None
        if self.ailment is Ailment.FULL:
            write.failed("No space left on device")
        elif self.ailment is Ailment.BROKEN:
            if self._rng.random() < 0.5:
                self._keep(write.record)
            write.failed("Input/output error")
        else:
            self._keep(write.record)
            write.done()

    def _keep(self, record: DiskRecord) -> None:
        self._earlier = [*self._earlier, (self.record, self.rosters)][-REMEMBERED:]
        self.record = record

    # ---- faults ----

    def ail(self, ailment: Ailment, slow_us: int = 0) -> None:
        """Start an ailment.

        Args:
            ailment: the kind of fault.
            slow_us: the time of each write from now on, if it is slow.
        """
        self.recover()
        self.ailment = ailment
        self._slow_us = slow_us

    def recover(self) -> None:
        """Recover: a write that is in flight ends soon."""
        if self.ailment is not None:
            self.ailment = None
            if self._under_way is not None:
                self._go_on()

    def crash(self) -> None:
        """Crash: a write in flight is lost, or is durable although its writer was not notified."""
        if self._under_way is not None:
            record, self._under_way = self._under_way.record, None
            if self._rng.random() < 0.5:
                self._keep(record)

    def lose(self) -> None:
        """Replace the disk by an empty one."""
        self.crash()
        self.record, self.rosters, self._earlier = DiskRecord(), RosterRecord(), []

    def roll_back(self, *, starts: bool = False) -> None:
        """Restore what it held earlier, as from a backup; from an earlier start, if `starts`."""
        self.crash()
        before = self.record.restarts if starts else self.record.restarts + 1
        places = [at for at, (record, _) in enumerate(self._earlier) if record.restarts < before]
        if places:
            place = places[self._rng.randrange(len(places))]
            self.record, self.rosters = self._earlier[place]
            del self._earlier[place:]

    def copy(self) -> "Disk":
        """Return a clone: another disk with the same content."""
        disk = Disk(self._loop, Random(self._rng.random()), self.record)
        disk.rosters = self.rosters
        return disk


WRITE_US: Final = SECOND // 200
"""The time to change one of the files."""


class KeyFilesHost(Protocol):
    """The host of the files.

    Attributes:
        name: the name of its daemons.
        keys: the keys in the key file; None in suite 0.
        credentials: the identity of its daemon, and the roll of all; None except in suite 2.
    """

    name: str
    keys: KeyRing | None
    credentials: DaemonCredentials | None


_KeyWrite = tuple[StoreKeys | StoreRoll, Callable[[Input], None]]


@attrs.define(eq=False, repr=False)
class KeyFiles:
    """The writer of a host's files for one start of its daemon.

    Args:
        loop: virtual time.
        host: the host of the files.
        rng: decides which part of a change survives a crash.
    """

    _loop: Loop
    _host: KeyFilesHost
    _rng: Random
    _under_way: list[_KeyWrite] = attrs.field(factory=list)

    def store(self, wanted: StoreKeys | StoreRoll, done: Callable[[Input], None]) -> None:
        """Change one of the files, then call `done` with the answer."""
        write = (wanted, done)
        self._under_way.append(write)
        self._loop.at(self._loop.now + WRITE_US, self._end, write)

    def crash(self) -> None:
        """End each change in flight: it is lost, or lasts without a notification."""
        under_way, self._under_way = self._under_way, []
        for wanted, _ in under_way:
            if self._rng.random() < 0.5:
                self._change(wanted)

    def _end(self, write: _KeyWrite) -> None:
        if write not in self._under_way:
            return  # the daemon crashed meanwhile
        self._under_way.remove(write)
        wanted, done = write
        self._change(wanted)
        done(KeysStored(wanted.keys) if isinstance(wanted, StoreKeys) else RollStored(wanted.roll))

    def _change(self, wanted: StoreKeys | StoreRoll) -> None:
        host = self._host
        if isinstance(wanted, StoreKeys):
            host.keys = wanted.keys
        # A host that the roll does not trust keeps its own roll, as no daemon could start there
        # otherwise.
        elif host.credentials is not None and wanted.roll.is_trusted(host.name):
            host.credentials = attrs.evolve(host.credentials, roll=wanted.roll)


LONGEST_ROSTER_WRITE: Final = -0.7
"""The decimal logarithm of the longest time of a roster's write, seconds: changes that take long
meet more faults."""


@attrs.define(eq=False, repr=False)
class RosterFile:
    """The writer of a disk's rosters for one start of its daemon.

    Args:
        loop: virtual time.
        disk: the disk, whose faults the rosters share.
        rng: decides whether a change survives a crash, or a write that fails.
    """

    _loop: Loop
    _disk: Disk
    _rng: Random
    _slowest_us: int = attrs.field(init=False)
    _under_way: tuple[RosterRecord, Callable[[Input], None]] | None = None

    def __attrs_post_init__(self) -> None:
        self._slowest_us = int(SECOND * 10 ** self._rng.uniform(-3.0, LONGEST_ROSTER_WRITE))

    def store(self, wanted: StoreRoster, done: Callable[[Input], None]) -> None:
        """Store rosters, then call `done` with the answer."""
        assert self._under_way is None, "two writes at a time"
        self._under_way = write = (wanted.record, done)
        lasts = FASTEST_US + int(self._rng.random() * self._slowest_us)
        self._loop.at(self._loop.now + lasts, self._end, write)

    def crash(self) -> None:
        """End a write in flight: it is lost, or lasts without a notification."""
        if self._under_way is not None:
            record, _ = self._under_way
            self._under_way = None
            if self._rng.random() < 0.5:
                self._disk.rosters = record

    def _end(self, write: tuple[RosterRecord, Callable[[Input], None]]) -> None:
        if write is not self._under_way:
            return  # the daemon crashed meanwhile
        ailment = self._disk.ailment
        if ailment is Ailment.HUNG:
            self._loop.at(self._loop.now + WRITE_US, self._end, write)
            return
        self._under_way = None
        record, done = write
        fails = ailment in (Ailment.FULL, Ailment.BROKEN)
        if not fails or (ailment is Ailment.BROKEN and self._rng.random() < 0.5):
            self._disk.rosters = record
        done(RosterNotStored("Input/output error") if fails else RosterStored(record))
