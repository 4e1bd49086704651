"""The local line: each packet after what it waits for, and after lower ones that may be next."""

from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Stamp
from groupcomm.order.local_line import LocalLine
from groupcomm.wire.data import DataPacket

WAITS = st.lists(st.none() | st.tuples(st.integers(0, 6), st.booleans()), max_size=12)
"""For each packet the stamp that it waits for, and whether it is SAFE; None if it is global."""


def packet(number: int) -> DataPacket:
    return DataPacket(
        ring=0, number=number, time=10 * number, daemon=0, previous=number - 1, bundles=[]
    )


@given(waits=WAITS, steps=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 12)), max_size=12))
def test_a_packet_is_next_once_all_is_reached_and_before_it_all_lower_ones_that_may_be(
    waits: list[tuple[int, bool] | None], steps: list[tuple[int, int]]
) -> None:
    line = LocalLine(0)
    left = dict[int, tuple[int, int]]()
    for number, wait in enumerate(waits, 1):
        if wait is None:
            line.follow(packet(number), None)
        else:
            left[number] = wait[0], number * wait[1]
            line.follow(packet(number), Stamp(wait[0], 0), left[number][1])
    assert line.wanted == max((safe for _, safe in left.values()), default=0)
    reached = done = 0
    for step, can in [*steps, (6, 12)]:
        done, reached = max(done, step), max(reached, can)
        stamp = Stamp(done, 0)
        while (found := line.next(stamp, reached)) is not None:
            may = [n for n, (time, safe) in left.items() if time <= done and safe <= reached]
            assert found.number == min(may)
            for number in range(len(waits) + 1):
                whole = not any(n <= number for n, (time, _) in left.items() if time <= done)
                assert line.is_delivered(number, stamp, reached) == whole
            found.done = True
            del left[found.number]
        assert not any(time <= done and safe <= reached for time, safe in left.values())
    assert not left
    assert not line.is_delivered(len(waits) + 1, Stamp(9, 0), 12), "nobody knows that one yet"


def test_what_the_global_line_has_delivered_is_not_next() -> None:
    line, one, other, safe = LocalLine(0), packet(1), packet(2), packet(3)
    one.done = True
    line.follow(one, Stamp(0, 0))
    line.follow(other, Stamp(5, 0))
    assert line.next(Stamp(4, 0), 0) is None
    other.done = True
    assert line.next(Stamp(5, 0), 0) is None
    line.follow(safe, Stamp(0, 0), 3)
    assert not line.is_delivered(3, Stamp(5, 0), 2)
    safe.done = True
    assert line.is_delivered(3, Stamp(5, 0), 2)
