"""Digests of ranges depend on the events of the line, and on nothing else."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_archive import digesting, digests
from groupcomm_archive.digesting import DIGESTS, LogDigests
from groupcomm_archive.store import LogStore
from groupcomm_client.history.places import Line
from groupcomm_log.writer import Limits
from tests.groupcomm_archive.test_store import BOB, events_from, place, start_of, write

GROUPS = ("g", "h")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ranges and steps be short."""
    monkeypatch.setattr(digests, "SPAN_US", 5_000)
    monkeypatch.setattr(digesting, "MOST_EVENTS", 7)


def stored(folder: Path, rng: Random, events: Sequence[Line], at_us: int = 1_000_000) -> LogStore:
    store = LogStore(folder, Limits(seal_bytes=rng.choice([1, 5_000, 10**9])))
    write(store, rng, events, at_us)
    if rng.random() < 0.5:
        store.tend()
    return store


def run(log: LogDigests, store: LogStore, events: Sequence[Line]) -> tuple[Any, Any]:
    """Compute all digests; return those of whole ranges, and of those that are open."""
    intervals = [(start_of(events), place(events[-1]))]
    whole = {}
    while True:
        found = log.step(intervals)
        whole.update({(group, at): digest for group, at, digest in found.whole})
        if not found.is_behind:
            assert found.upto == intervals[-1][1]
            return whole, {(group, at): digest for group, at, digest in found.still_open}


def digests_of(folder: Path, seed: int, events: Sequence[Line]) -> tuple[Any, Any]:
    store = stored(folder, Random(seed), events, at_us=seed + 1)
    found = run(LogDigests(folder, GROUPS, store.parts), store, events)
    store.close()
    return found


def test_digests_depend_neither_on_files_nor_on_times_nor_on_steps(tmp_path: Path) -> None:
    events = events_from(Random(1), 200)
    whole, still_open = digests_of(tmp_path / "a", 1, events)
    assert len(whole) > 10
    assert still_open
    for seed in range(2, 6):
        assert digests_of(tmp_path / str(seed), seed, events) == (whole, still_open)


def test_every_change_of_an_event_is_seen(tmp_path: Path) -> None:
    events = events_from(Random(2), 60)
    before = digests_of(tmp_path / "a", 1, events)
    of_kind = {
        kind: next(
            at
            for at in range(20, 60)
            if type(events[at]) is kind and not getattr(events[at], "index", 0)
        )
        for kind in (Message, GroupView)
    }
    message, view = events[of_kind[Message]], events[of_kind[GroupView]]
    assert isinstance(message, Message)
    assert isinstance(view, GroupView)
    other = ServiceLevel.SAFE if message.level == ServiceLevel.AGREED else ServiceLevel.AGREED
    changed: list[Line] = [
        msgspec.structs.replace(message, data=message.data + b"x"),
        msgspec.structs.replace(message, type=message.type ^ 1),
        msgspec.structs.replace(message, number=message.number + 1),
        msgspec.structs.replace(message, level=other),
        msgspec.structs.replace(message, sender=MemberId("#else#a", 9)),
        msgspec.structs.replace(message, groups=(*message.groups, "more")),
        msgspec.structs.replace(view, members=(BOB,)),
        msgspec.structs.replace(view, cause=next(each for each in Cause if each != view.cause)),
    ]
    for count, event in enumerate(changed):
        at = of_kind[type(event)]  # type: ignore[index]
        altered = [*events[:at], event, *events[at + 1 :]]
        assert digests_of(tmp_path / str(count), 1, altered) != before
    at = of_kind[Message]
    assert digests_of(tmp_path / "less", 1, [*events[:at], *events[at + 1 :]]) != before


def test_data_that_moves_from_one_message_to_the_next_is_seen(tmp_path: Path) -> None:
    events = events_from(Random(3), 5)
    last = events[-1]
    bundle = place(last)._replace(time=place(last).time + 1, message=0)

    def of(first: bytes, second: bytes) -> list[Line]:
        messages = [
            Message(BOB, 5 + n, ("g",), ServiceLevel.AGREED, 7, data, bundle, n)
            for n, data in enumerate((first, second))
        ]
        return [*events, *messages]

    one = digests_of(tmp_path / "a", 1, of(b"ab", b"c"))
    assert digests_of(tmp_path / "b", 1, of(b"a", b"bc")) != one


def test_what_differs_from_daemon_to_daemon_does_not_count(tmp_path: Path) -> None:
    events = events_from(Random(4), 80)
    others: list[Line] = []
    for event in events:
        if isinstance(event, GroupView):
            others.append(msgspec.structs.replace(event, vs_set=(), own=True))
        elif isinstance(event, DaemonView):
            others.append(msgspec.structs.replace(event, majority=None))
        else:
            others.append(event)
    assert digests_of(tmp_path / "a", 1, events) == digests_of(tmp_path / "b", 1, others)


@pytest.mark.parametrize("torn", [False, True])
def test_digests_go_on_behind_those_in_the_file(tmp_path: Path, torn: bool) -> None:
    events = events_from(Random(5), 150)
    folder = tmp_path / "a"
    store = stored(folder, Random(1), events[:100])
    first, _ = run(LogDigests(folder, GROUPS, store.parts), store, events[:100])
    for each in events[100:]:
        store.append([(9, [each])])
    file = folder / DIGESTS
    if torn:
        file.write_bytes(file.read_bytes()[:-30])
    read = []
    log = LogDigests(folder, GROUPS, lambda at, of: read.append(at) or store.parts(at, of))  # type: ignore[func-returns-value]
    second, still_open = run(log, store, events)
    assert first.items() <= second.items()
    assert (second, still_open) == digests_of(tmp_path / "b", 2, events)
    assert read[0] > start_of(events), "it began at the beginning"
    third, _ = run(LogDigests(folder, GROUPS, store.parts), store, events)
    assert third == second
    store.close()


def test_a_message_that_moves_from_one_bundle_to_the_next_is_seen(tmp_path: Path) -> None:
    events = events_from(Random(6), 5)
    bundles = [
        place(events[-1])._replace(time=place(events[-1]).time + n, message=0) for n in (1, 2, 3)
    ]

    def of(*indices: tuple[int, int]) -> list[Line]:
        messages = [
            Message(BOB, 100 * bundle + n, ("g",), ServiceLevel.AGREED, 7, b"x", bundles[bundle], n)
            for bundle, n in indices
        ]
        return [*events, *messages]

    one = digests_of(tmp_path / "a", 1, of((0, 0), (0, 1), (1, 0), (2, 0)))
    assert digests_of(tmp_path / "b", 1, of((0, 0), (1, 0), (1, 1), (2, 0))) != one
