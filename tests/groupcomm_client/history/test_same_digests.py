"""Archives in the simulator hold the same digests, whatever happens to daemons and programs."""

from itertools import combinations
from unittest.mock import patch

import pytest

from groupcomm.events import Message
from groupcomm_archive import digests
from groupcomm_archive.digests import Digest, LineDigests, Range
from groupcomm_archive.rows import MessageRun, Part
from groupcomm_client.history.places import Line, place_of
from tests.groupcomm_client.history.lines import GROUPS, Lines, Store

ALL = "archive part mend mend daemon"


def part_of(event: Line) -> Part:
    if not isinstance(event, Message):
        return event
    place = place_of(event)
    assert place is not None
    of = (event.sender, event.groups, int(event.level))
    return MessageRun(place, event.number - event.index, *of, [event.type], [event.data])


def digests_of(store: Store) -> dict[tuple[str, Range], Digest]:
    """Return the digests of the ranges that an archive holds as a whole."""
    line = LineDigests(GROUPS)
    entries = [*line.add(map(part_of, store.events)), *line.open()]
    return {
        (group, at): digest
        for group, at, digest in entries
        if any(first <= at.first and at.last <= last for first, last in store.intervals)
    }


def compared(seed: int) -> int:
    """Run a seed; return the number of digests that two archives have, which are all the same."""
    with patch.object(digests, "SPAN_US", 500_000):
        lines = Lines(seed)
        lines.run(5.0, 2.0, ALL)
        lines.rest()
        held = [digests_of(store) for store in lines.stores]
    count = 0
    for one, other in combinations(held, 2):
        for key in one.keys() & other.keys():
            count += 1
            assert one[key] == other[key], "archives hold different events of a range"
    return count


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (3, 16))]
)
def test_archives_hold_the_same(seed: int) -> None:
    assert compared(seed) > 5


@pytest.mark.long
def test_many_seeds() -> None:
    for seed in range(100, 140):
        assert compared(seed) > 5
