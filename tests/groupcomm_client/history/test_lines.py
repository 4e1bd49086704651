"""Subscriptions give the line, exactly, whatever happens to programs, archives and daemons."""

import pytest

from groupcomm_client.history.given import Start
from tests.groupcomm_client.history import faulty
from tests.groupcomm_client.history.lines import Lines, Past, Reference, keys_of

ALL = "archive reader part mend mend daemon"


def subscribed(lines: Lines, *, stable: bool) -> None:
    lines.subscribe(Start.EARLIEST, stable=stable)
    lines.subscribe(Start.LATEST, stable=stable)


def checked(lines: Lines) -> list[Past]:
    lines.rest()
    reference = Reference(observer.deliveries for observer in lines.observers)
    for past in lines.pasts:
        reference.check(past)
    assert sum(len(past.events) for past in lines.pasts) > 100
    assert lines.by_channel
    assert lines.sent_from_files
    return lines.pasts


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_killed_subscribers_and_archives(seed: int) -> None:
    lines = Lines(seed)
    subscribed(lines, stable=True)
    lines.run(5.0, 2.0, "archive reader reader")
    pasts = checked(lines)
    assert sum(past.catches for past in pasts) > len(pasts)
    assert all(past.catches and not past.gaps for past in pasts)


@pytest.mark.long
@pytest.mark.parametrize(
    ("seed", "stable"),
    [
        (3, True),
        pytest.param(3, False, marks=pytest.mark.long),
        pytest.param(16, True, marks=pytest.mark.long),
        (16, False),
    ],
)
def test_partitions_and_crashes(seed: int, stable: bool) -> None:
    lines = Lines(seed)
    subscribed(lines, stable=stable)
    lines.run(4.0, 2.0, ALL)
    checked(lines)


def test_a_new_archive_has_the_whole_line() -> None:
    lines = Lines(5, archives=2)
    lines.run(2.0, 0.0, ALL)
    lines.stores[1].events.clear()
    lines.stores[1].intervals.clear()
    keeping = lines.keeping[1]
    assert keeping is not None
    keeping.kill()
    lines.run(1.0, 0.0, ALL)
    lines.rest()
    first, second = (keys_of(store.events) for store in lines.stores)
    assert second[-1] == first[-1]
    assert [event for event in first if event not in second] == []


@pytest.mark.parametrize("seed", [pytest.param(108, marks=pytest.mark.long), 619])
def test_all_faults(seed: int) -> None:
    """`python -m tests.verification.campaigns history_seeds` runs many seeds; these once failed."""
    assert faulty.play(seed).summary()["events"] > 100


def test_no_gap_while_daemons_and_archives_live() -> None:
    kinds = "kill readers,pause,failing disk,failing reads,clocks"
    summary = faulty.play(2, "none", 4.0, kinds).summary()
    assert summary["gaps"] == 0
    assert summary["catches"] > 4
    assert summary["events"] > 100


def test_what_is_missing_is_found_though_no_view_of_daemons_ends() -> None:
    lines = faulty.play(2, "none", 2.0, "none")
    reference = Reference(observer.deliveries for observer in lines.observers)
    past = lines.pasts[0]
    reference.check(past)
    del past.events[len(past.events) // 2]
    with pytest.raises(AssertionError, match="missing"):
        reference.check(past)


def played(seed: int, duration_s: float = 6.0) -> Lines:
    """Run subscriptions that read by channels; stable ones at odd seeds."""
    lines = Lines(seed)
    subscribed(lines, stable=seed % 2 == 1)
    lines.run(duration_s, 2.0, ALL)
    checked(lines)
    return lines


@pytest.mark.parametrize("seed", [4, pytest.param(7, marks=pytest.mark.long)])
def test_channels(seed: int) -> None:
    """`python -m tests.verification.campaigns history_seeds --crowd channels` runs many seeds."""
    assert played(seed).killed
