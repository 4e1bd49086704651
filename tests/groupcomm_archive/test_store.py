"""The store of an archive gives back what was written, from any place on, also when opened anew."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_archive import pieces
from groupcomm_archive import store as module
from groupcomm_archive.archive import ReadStore
from groupcomm_archive.store import LogStore
from groupcomm_client.history.frames import Piece, decode_untrusted, events_of_untrusted
from groupcomm_client.history.given import Gap
from groupcomm_client.history.places import Line, just_before, place_of
from groupcomm_log.errors import LogRemoved
from groupcomm_log.writer import Limits

ANN, BOB = MemberId("#ann#a", 2**63), MemberId("#bob#b", 2)
READER = MemberId("#reader#a", 9)


def events_from(rng: Random, count: int, view: int = 5, time: int = 0) -> list[Line]:
    """Return events of the line with rising places: bundles of messages, and views."""
    id_ = ViewId(view, "alfa.example", 2**64 - 1)
    events: list[Line] = [DaemonView(id=id_, daemons=("alfa", "bravo"), majority=True)]
    while len(events) < count:
        time += rng.randint(1, 1000)
        bundle = Position(id_, time, rng.randrange(3), rng.randrange(3), 0)
        if rng.random() < 0.2:
            for group in sorted(rng.sample(["g", "h"], rng.choice([1, 2]))):
                events.append(
                    GroupView(
                        group=group,
                        id=bundle,
                        members=(ANN, BOB),
                        cause=rng.choice(list(Cause)),
                        changed=(BOB,),
                        vs_set=(ANN,),
                        own=False,
                    )
                )
            continue
        groups = rng.choice([("g",), ("h",), ("g", "h", "x")])
        level = rng.choice([ServiceLevel.AGREED, ServiceLevel.SAFE])
        sender, number = rng.choice([ANN, BOB]), rng.choice([1, 2**63 + 5]) + time
        for index in range(rng.choice([1, 1, 2, 9])):
            data = rng.randbytes(rng.choice([0, 1, 50]))
            type_ = rng.choice([7, 7, 7, 65535])
            events.append(
                Message(sender, number + index, groups, level, type_, data, bundle, index)
            )
    return events


def below(event: Message) -> Message:
    """Return a message below AGREED beside another one: it is recorded, and not in the line."""
    return Message(BOB, 1, ("g",), ServiceLevel.FIFO, 0, b"below", event.bundle)


def start_of(events: Sequence[Line]) -> Position:
    place = place_of(events[0])
    assert place is not None
    return just_before(place)


def place(event: Line) -> Position:
    found = place_of(event)
    assert found is not None
    return found


def write(store: LogStore, rng: Random, events: Sequence[Line], at_us: int = 1_000_000) -> None:
    """Write events behind a gap, in batches; views of one moment together."""
    store.append([(at_us, [Gap(after=None, upto=start_of(events))])])
    at = 0
    while at < len(events):
        end = at + rng.randint(1, 20)
        while end < len(events) and place(events[end]) == place(events[end - 1]):
            end += 1
        part = list(events[at:end])
        last = part[-1]
        store.append([(at_us + at, [*part, below(last)] if isinstance(last, Message) else part)])
        at = end


def action_of(
    after: Position, upto: Position, index: int = 0, groups: tuple[str, ...] = ("g", "h")
) -> ReadStore:
    """Return how a piece of a stream is read, whose interval still grows."""
    return ReadStore(
        key=(READER, 1),
        index=index,
        groups=groups,
        after=after,
        upto=upto,
        since_us=None,
        is_last=True,
    )


def events_in(data: bytes) -> list[Line]:
    """Return the events of an encoded piece."""
    piece = decode_untrusted(data)
    assert isinstance(piece, Piece)
    events = events_of_untrusted(piece)
    assert events is not None
    return events


def read_piece(store: LogStore, action: ReadStore) -> Piece:
    encoded = store.read(action)
    piece = decode_untrusted(encoded.data)
    assert isinstance(piece, Piece)
    assert (encoded.after, encoded.upto, encoded.is_end) == (piece.after, piece.upto, piece.is_end)
    return piece


def read_all(
    store: LogStore, after: Position, upto: Position, groups: tuple[str, ...] = ("g", "h")
) -> Iterator[Piece]:
    """Read a stream to its end."""
    index = 0
    while after < upto:
        piece = read_piece(store, action_of(after, upto, index, groups))
        assert piece.after == after
        yield piece
        index, after = index + 1, piece.upto


def read_events(
    store: LogStore, after: Position, upto: Position, groups: tuple[str, ...] = ("g", "h")
) -> list[Line]:
    found: list[Line] = []
    for piece in read_all(store, after, upto, groups):
        events = events_of_untrusted(piece)
        assert events is not None
        found += events
    return found


def wanted(events: Sequence[Line], groups: tuple[str, ...], after: Position) -> list[Line]:
    return [e for e in events if place(e) > after and set(groups) & set(groups_of(e, groups))]


def groups_of(event: Line, groups: tuple[str, ...]) -> Sequence[str]:
    if isinstance(event, DaemonView):
        return groups
    return event.groups if isinstance(event, Message) else [event.group]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pieces, and what stays in memory, be small."""
    monkeypatch.setattr(pieces, "PIECE_ROWS", 7)
    monkeypatch.setattr(module, "CACHE_BYTES", 8_000)


@pytest.mark.parametrize("seed", range(4))
def test_what_was_written_is_read_from_any_place_on(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    events = events_from(rng, 160)
    store = LogStore(tmp_path / "log", Limits(seal_bytes=5_000))
    write(store, rng, events)
    store.tend()
    last = place(events[-1])
    for reopened in (False, True):
        if reopened:
            store.close()
            store = LogStore(tmp_path / "log")
            assert store.intervals == [(start_of(events), last)]
        for _ in range(4):
            after = place(rng.choice(events))
            groups = rng.choice([("g",), ("h",), ("g", "h")])
            assert read_events(store, after, last, groups) == wanted(events, groups, after)
        assert read_events(store, start_of(events), last) == events
    store.close()


def test_pieces_end_where_they_say(tmp_path: Path) -> None:
    rng = Random(9)
    events = events_from(rng, 200)
    store = LogStore(tmp_path / "log")
    write(store, rng, events)
    for piece in read_all(store, start_of(events), place(events[-1])):
        found = events_of_untrusted(piece)
        assert found == [e for e in events if piece.after < place(e) <= piece.upto]
    store.close()


def test_rows_that_are_written_while_a_stream_is_read_are_in_it(tmp_path: Path) -> None:
    rng = Random(3)
    events = events_from(rng, 100)
    store = LogStore(tmp_path / "log")
    write(store, rng, events)
    middle = place(events[-1])
    found = read_events(store, start_of(events), middle)
    more = events_from(rng, 50, time=10**6)[1:]
    for event in more:
        store.append([(2_000_000, [event])])
        found += read_events(store, middle, place(event)) if place(event) > middle else [event]
        middle = place(event)
    assert [e for e in found if isinstance(e, Message)] == [
        e for e in [*events, *more] if isinstance(e, Message)
    ]
    store.close()


def test_gaps_are_found_again(tmp_path: Path) -> None:
    rng = Random(5)
    parts = [events_from(rng, 40, view) for view in (3, 5, 9)]
    store = LogStore(tmp_path / "log")
    for part in parts:
        write(store, rng, part)
    store.close()
    store = LogStore(tmp_path / "log")
    assert store.intervals == [(start_of(part), place(part[-1])) for part in parts]
    assert all(last < first for (_, last), (first, _) in pairwise(store.intervals))
    store.close()


def test_a_damaged_file_ends_an_interval(tmp_path: Path) -> None:
    rng = Random(6)
    store = LogStore(tmp_path / "log", Limits(seal_bytes=1))
    parts = [events_from(rng, 20), events_from(rng, 20, time=10**6)[1:], events_from(rng, 20, 7)]
    for count, part in enumerate(parts):
        gap = [Gap(after=None, upto=start_of(part))] if not count else []
        store.append([(1_000_000, [*gap, *part])])
        store.tend()
    store.close()
    second = sorted((tmp_path / "log").glob("*.parquet"))[1]
    data = bytearray(second.read_bytes())
    data[len(data) // 2] ^= 1
    second.write_bytes(data)
    store = LogStore(tmp_path / "log")
    assert store.damage
    assert store.intervals == [(start_of(part), place(part[-1])) for part in (parts[0], parts[2])]
    store.close()


def test_retention_says_up_to_where_it_has_removed(tmp_path: Path) -> None:
    rng = Random(7)
    store = LogStore(tmp_path / "log", Limits(seal_bytes=1, keep_bytes=20_000))
    events = events_from(rng, 120)
    write(store, rng, events)
    removed = store.tend()
    assert removed is not None
    last = place(events[-1])
    assert read_events(store, removed, last) == wanted(events, ("g", "h"), removed)
    store.close()
    store = LogStore(tmp_path / "log")
    ((first, end),) = store.intervals
    assert end == last
    assert removed <= first < last
    store.close()


def test_rows_that_were_removed_before_they_are_read_are_no_silent_gap(tmp_path: Path) -> None:
    """Seeds 108 and 207 of the archives under all faults: the read was already asked for."""
    events = events_from(Random(7), 120)
    store = LogStore(tmp_path / "log", Limits(seal_bytes=1, keep_bytes=20_000))
    write(store, Random(7), events)
    assert store.tend() is not None
    with pytest.raises(LogRemoved):
        read_events(store, start_of(events), place(events[-1]))
    store.close()


def test_a_time_names_the_first_event_received_then_or_later(tmp_path: Path) -> None:
    rng = Random(8)
    events = events_from(rng, 100)
    store = LogStore(tmp_path / "log")
    store.append([(1_000, [Gap(after=None, upto=start_of(events))])])
    half = next(at for at in range(50, 99) if place(events[at]) != place(events[at - 1]))
    store.append([(1_000, events[:half])])
    store.append([(2_000, events[half:])])
    for since_us, first in ((0, 0), (1_000, 0), (1_001, half), (2_000, half)):
        piece = read_piece(
            store,
            ReadStore(
                key=(READER, since_us),
                index=0,
                groups=("g", "h"),
                after=start_of(events),
                upto=place(events[-1]),
                since_us=since_us,
                is_last=True,
            ),
        )
        found = events_of_untrusted(piece)
        assert found is not None
        assert found[0] == events[first]
    store.close()
