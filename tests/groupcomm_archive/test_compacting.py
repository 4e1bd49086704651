"""Compaction keeps the last message of each key, whatever the files, and whenever it crashes."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, DaemonView, GroupView, Message
from groupcomm.level import ServiceLevel
from groupcomm_archive import compacting as module
from groupcomm_archive.archive import ReadStore
from groupcomm_archive.columns import EventBatch, to_rows
from groupcomm_archive.compacting import Compacting, TooManyKeys
from groupcomm_archive.keys import LastOfKeys, parse_key
from groupcomm_archive.snapshots import SNAPSHOT
from groupcomm_archive.store import LogStore
from groupcomm_client.history.frames import Piece, decode_untrusted, events_of_untrusted
from groupcomm_client.history.places import Line
from groupcomm_log.disk import Disk
from groupcomm_log.errors import LogRemoved
from groupcomm_log.writer import Limits
from tests.groupcomm_archive.test_store import (
    ANN,
    BOB,
    READER,
    place,
    read_events,
    start_of,
    write,
)

GROUP = ("g",)
KEY = parse_key("line")
ID = ViewId(5, "alfa", 7)


def prices(rng: Random, count: int, time: int = 0) -> list[Line]:
    """Return events of one group: messages with a key in their first line, and views."""
    events: list[Line] = [] if time else [DaemonView(id=ID, daemons=("alfa",), majority=True)]
    while len(events) < count:
        time += rng.randint(1, 9)
        bundle = Position(ID, time, 0, rng.randrange(2), 0)
        if rng.random() < 0.1:
            members = (ANN,) if rng.random() < 0.5 else (ANN, BOB)
            of: Any = {"cause": Cause.JOIN, "changed": (), "vs_set": (), "own": False}
            events.append(GroupView(group="g", id=bundle, members=members, **of))
            continue
        for index in range(rng.choice([1, 1, 3])):
            data = b"key %d\n%d" % (rng.randrange(9), rng.randrange(1000))
            level = ServiceLevel.AGREED
            events.append(Message(ANN, time * 10 + index, GROUP, level, 0, data, bundle, index))
    return events


def state(events: Sequence[Line]) -> dict[object, object]:
    """Return the dictionary of a program: the last message of each key, and the last views."""
    found: dict[object, object] = {}
    for event in events:
        if isinstance(event, Message):
            found[KEY(event)] = event.data
        else:
            found[type(event)] = event
    return found


def compacted_events(
    compacting: Compacting, store: LogStore, last: Position, after: Position | None = None
) -> list[Line]:
    """Return what a subscriber gets behind a place: what stays, and everything behind it."""
    assert compacting.part is not None
    first, horizon = compacting.part
    found: list[Line] = []
    at, index = max(after or first, first), 0
    while at < horizon:
        action = ReadStore(
            key=(READER, 1),
            index=index,
            groups=GROUP,
            after=at,
            upto=horizon,
            since_us=None,
            is_last=True,
            is_compacted=True,
        )
        piece = decode_untrusted(compacting.read(action).data)
        assert isinstance(piece, Piece)
        assert piece.horizon == horizon
        events = events_of_untrusted(piece)
        assert events is not None
        found += events
        index, at = index + 1, piece.upto
    return found + read_events(store, max(horizon, after or horizon), last, GROUP)


def upto(events: Sequence[Line], end: Position) -> list[Line]:
    return [event for event in events if place(event) <= end]


@pytest.mark.parametrize("seed", range(6))
def test_a_reader_has_the_state_of_the_whole_line(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    events = prices(rng, 150)
    store = LogStore(tmp_path / "a", Limits(seal_bytes=rng.choice([1, 8_000, 10**9])))
    write(store, rng, events)
    store.tend()
    compacting = Compacting(store, GROUP, KEY)
    intervals = [(start_of(events), place(events[-1]))]
    horizons = sorted({place(rng.choice(events)) for _ in range(3)})
    for horizon in horizons:
        removed = compacting.compact(horizon, intervals, 1)
        if removed is not None:
            intervals = [(max(removed, intervals[0][0]), intervals[0][1])]
        assert compacting.part == (start_of(events), horizon)
        for end in (horizon, place(rng.choice(events[-20:])), place(events[-1])):
            if end >= horizon:
                found = compacted_events(compacting, store, place(events[-1]))
                assert state(upto(found, end)) == state(upto(events, end))
        resumed = place(rng.choice(events))
        before = upto(events, resumed)
        rest = compacted_events(compacting, store, place(events[-1]), resumed)
        assert all(place(event) > resumed for event in rest)
        assert state([*before, *rest]) == state(events)
    at_once = LastOfKeys(KEY)
    at_once.add(upto(events, horizons[-1]))
    stays = compacted_events(compacting, store, horizons[-1])
    assert stays == at_once.events(), "compaction in steps leaves something else"
    store.close()
    store = LogStore(tmp_path / "a")
    assert Compacting(store, GROUP, KEY).part == compacting.part
    store.close()


@pytest.mark.parametrize("key", ["type", "line", "json:paper"])
def test_a_message_without_a_key_stays(key: str) -> None:
    bundle = Position(ID, 5, 0, 0, 0)
    data = [
        b'{"paper": "x", "n": 1}',
        b'{"paper": "x", "n": 2}',
        b"no JSON",
        b'{"n": 3}',
        b"no JSON",
    ]
    messages = [
        Message(ANN, n, GROUP, ServiceLevel.AGREED, 7, each, bundle, n)
        for n, each in enumerate(data)
    ]
    left = LastOfKeys(parse_key(key))
    left.add(messages)
    expected = {"type": [4], "line": [0, 1, 3, 4], "json:paper": [1, 2, 3, 4]}[key]
    assert left.events() == [messages[n] for n in expected]


def test_words_that_are_no_key() -> None:
    for text in ("", "json", "json:", "csv"):
        with pytest.raises(ValueError, match="must be"):
            parse_key(text)


class FailingDisk(Disk):
    """A disk that fails at the nth operation, and at all that follow."""

    def __init__(self, left: int) -> None:
        self.left = left

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError("the power is off")

    def synced_file(self, path: Path) -> Any:
        self._count()
        return super().synced_file(path)

    def rename(self, old: Path, new: Path) -> None:
        self._count()
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self._count()
        super().remove(path)


@pytest.mark.parametrize("steps", range(8))
def test_a_crash_between_two_steps_leaves_the_old_state_or_the_new(
    tmp_path: Path, steps: int
) -> None:
    rng = Random(steps)
    events = prices(rng, 120)
    last = place(events[-1])
    store = LogStore(tmp_path / "a", Limits(seal_bytes=1))
    intervals = [(start_of(events), last)]
    for at in range(0, len(events), 20):
        write(store, rng, events[at : at + 20]) if not at else None
        if at:
            store.append([(1, events[at : at + 20])])
        store.tend()
    Compacting(store, GROUP, KEY).compact(place(events[30]), intervals, 1)
    disk = FailingDisk(steps)
    crashing = Compacting(store, GROUP, KEY, disk=disk)
    store._writer._disk = disk
    try:
        crashing.compact(place(events[90]), intervals, 1)
    except OSError:
        assert steps < 7
    store._writer._disk = Disk()
    store.close()
    store = LogStore(tmp_path / "a")
    compacting = Compacting(store, GROUP, KEY)
    assert compacting.part in [(start_of(events), place(events[n])) for n in (30, 90)]
    (_, horizon) = compacting.part
    ((first, end),) = store.intervals
    assert first <= horizon <= end == last, "something is missing behind what was compacted"
    found = compacted_events(compacting, store, last)
    assert state(found) == state(events)
    store.close()


def test_what_another_archive_has_compacted_becomes_the_own_snapshot(tmp_path: Path) -> None:
    rng = Random(3)
    events = prices(rng, 160)
    last = place(events[-1])
    there = LogStore(tmp_path / "there", Limits(seal_bytes=1))
    write(there, rng, events)
    other = Compacting(there, GROUP, KEY)
    other.compact(place(events[100]), [(start_of(events), last)], 1)
    assert other.part is not None
    first, horizon = other.part
    for known in (0, 40):
        here = LogStore(tmp_path / f"here {known}")
        after, intervals = first, []
        if known:
            write(here, rng, events[:known])
            after = place(events[known - 1])
            intervals = [(start_of(events), after)]
        mine = Compacting(here, GROUP, KEY)
        fetched = upto(compacted_events(other, there, horizon, after), horizon)
        mine.adopt(after, horizon, fetched, intervals, 1)
        assert mine.part == other.part
        assert state(compacted_events(mine, here, horizon)) == state(upto(events, horizon))
        here.close()
    there.close()


def test_a_gap_before_the_horizon_ends_what_was_compacted_before(tmp_path: Path) -> None:
    rng = Random(4)
    events = prices(rng, 120)
    store = LogStore(tmp_path / "a", Limits(seal_bytes=1))
    write(store, rng, events[:50])
    compacting = Compacting(store, GROUP, KEY)
    compacting.compact(place(events[40]), [(start_of(events), place(events[49]))], 1)
    later = events[70:]
    intervals = [(start_of(events), place(events[49])), (start_of(later), place(later[-1]))]
    write(store, rng, later)
    compacting.compact(place(later[30]), intervals, 1)
    assert compacting.part == (start_of(later), place(later[30]))
    found = compacted_events(compacting, store, place(later[-1]))
    assert state(found) == state(later)
    store.close()


def test_a_group_with_too_many_keys_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_KEYS", 3)
    rng = Random(5)
    events = prices(rng, 60)
    store = LogStore(tmp_path / "a")
    write(store, rng, events)
    compacting = Compacting(store, GROUP, KEY)
    with pytest.raises(TooManyKeys):
        compacting.compact(place(events[50]), [(start_of(events), place(events[-1]))], 1)
    assert compacting.part is None
    assert not (tmp_path / "a" / SNAPSHOT).exists()
    assert read_events(store, start_of(events), place(events[-1]), GROUP) == events
    store.close()


def test_a_message_from_the_middle_of_a_bundle_keeps_its_bundle() -> None:
    """A recorder gets whole bundles; here they have holes, and rows took the bundle before."""
    bundles = [Position(ID, time, 0, 0, 0) for time in (5, 8)]
    messages = [
        Message(ANN, 10 * n + 1, GROUP, ServiceLevel.AGREED, 0, b"x", bundle, n + 1)
        for n, bundle in enumerate(bundles)
    ]
    rows = to_rows([EventBatch(1, messages)])
    assert rows["stamp"].to_pylist() == [5, 8]
    assert rows["number"].to_pylist() == [1, 11]
    assert rows["message"].to_pylist() == [1, 2]


def test_messages_of_other_groups_in_the_log_do_not_count(tmp_path: Path) -> None:
    rng = Random(6)
    events = [
        msgspec.structs.replace(event, groups=("h",))
        if isinstance(event, Message) and place(event).time % 2
        else event
        for event in prices(rng, 150)
    ]
    own = [event for event in events if not isinstance(event, Message) or event.groups == GROUP]
    store = LogStore(tmp_path / "a", Limits(seal_bytes=8_000))
    write(store, rng, events)
    compacting = Compacting(store, GROUP, KEY)
    last = place(events[-1])
    compacting.compact(place(events[120]), [(start_of(events), last)], 1)
    assert state(compacted_events(compacting, store, last)) == state(own)
    store.close()


def test_a_stream_of_a_snapshot_that_was_replaced_does_not_go_on(tmp_path: Path) -> None:
    rng = Random(7)
    events = prices(rng, 100)
    store = LogStore(tmp_path / "a")
    write(store, rng, events)
    compacting = Compacting(store, GROUP, KEY)
    intervals = [(start_of(events), place(events[-1]))]
    compacting.compact(place(events[40]), intervals, 1)
    action = ReadStore(
        key=(READER, 1),
        index=1,
        groups=GROUP,
        after=place(events[20]),
        upto=place(events[40]),
        since_us=None,
        is_last=True,
        is_compacted=True,
    )
    compacting.read(action)
    compacting.compact(place(events[80]), intervals, 1)
    with pytest.raises(LogRemoved, match="replaced"):
        compacting.read(action)
    store.close()
