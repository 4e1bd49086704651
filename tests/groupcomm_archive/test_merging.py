"""Several logs are read as one: each event once, in the common order."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import DaemonView, GroupView, Message
from groupcomm_archive import pieces
from groupcomm_archive.holdings import Held, Holding, held_by_all
from groupcomm_archive.merging import MergedLogs
from groupcomm_archive.store import LogStore
from groupcomm_client.history.places import Line
from groupcomm_log.writer import Limits
from tests.groupcomm_archive.test_store import (
    action_of,
    events_from,
    events_in,
    place,
    start_of,
    write,
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_ROWS", 7)


def of_group(events: Sequence[Line], group: str) -> list[Line]:
    return [
        event
        for event in events
        if isinstance(event, DaemonView)
        or (isinstance(event, Message) and group in event.groups)
        or (isinstance(event, GroupView) and event.group == group)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_two_logs_are_read_as_one_was_written(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    events = [*events_from(rng, 120), *events_from(rng, 60, view=7)]
    stores = {}
    for group in "gh":
        stores[group] = LogStore(tmp_path / group, Limits(seal_bytes=rng.choice([1, 10**9])))
        write(stores[group], rng, of_group(events, group))
        stores[group].tend()
    merged = MergedLogs([(store, (group,)) for group, store in stores.items()])
    start = rng.choice([start_of(events), place(rng.choice(events))])
    after, upto, found, index = start, place(events[-1]), [], 0
    while after < upto:
        piece = merged.read(action_of(after, upto, index))
        found += events_in(piece.data)
        index, after = index + 1, piece.upto
    assert found == [event for event in events if place(event) > start]
    for store in stores.values():
        store.close()


def at(time: int) -> Position:
    return Position(ViewId(5, "a", 7), time, 0, 0, 0)


def held(*intervals: tuple[int, int]) -> Holding:
    return Holding(("g",), [(at(first), at(last)) for first, last in intervals])


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ([(0, 9)], [(5, 7)], [(5, 7, True)]),
        ([(0, 9)], [(5, 7), (8, 20)], [(5, 7, False), (8, 9, True)]),
        ([(0, 6)], [(5, 7), (8, 20)], [(5, 6, True)]),
        ([(0, 7)], [(5, 7), (8, 20)], [(5, 7, False)]),
        ([(0, 3)], [(5, 7)], []),
        ([(0, 3), (5, 9)], [(2, 6)], [(2, 3, False), (5, 6, True)]),
    ],
)
def test_two_logs_have_in_common_what_both_hold(
    one: list[tuple[int, int]], other: list[tuple[int, int]], both: list[tuple[int, int, bool]]
) -> None:
    expected = [Held(at(first), at(last), grows) for first, last, grows in both]
    assert held_by_all([held(*one), held(*other)]) == expected
    assert held_by_all([held(*other), held(*one)]) == expected
