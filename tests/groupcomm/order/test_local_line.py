"""The local line: each packet after the stamp that it waits for, and after lower ones that do."""

from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Stamp
from groupcomm.order.local_line import LocalLine
from groupcomm.wire.data import DataPacket

WAITS = st.lists(st.none() | st.integers(0, 6), max_size=12)


def packet(number: int) -> DataPacket:
    return DataPacket(
        ring=0, number=number, time=10 * number, daemon=0, previous=number - 1, bundles=[]
    )


@given(waits=WAITS, steps=st.lists(st.integers(0, 6), max_size=12))
def test_a_packet_is_next_once_its_stamp_is_reached_and_before_it_all_lower_ones_that_may_be(
    waits: list[int | None], steps: list[int]
) -> None:
    line = LocalLine(0)
    left = dict[int, int]()
    for number, wait in enumerate(waits, 1):
        line.follow(packet(number), None if wait is None else Stamp(wait, 0))
        if wait is not None:
            left[number] = wait
    done = 0
    for step in [*sorted(steps), 6]:
        done = step
        while (found := line.next(Stamp(done, 0))) is not None:
            may = [number for number, wait in left.items() if wait <= done]
            assert found.number == min(may)
            for number in range(len(waits) + 1):
                whole = not any(other <= number for other in may)
                assert line.is_delivered(number, Stamp(done, 0)) == whole
            found.done = True
            del left[found.number]
        assert not any(wait <= done for wait in left.values())
    assert not left
    assert not line.is_delivered(len(waits) + 1, Stamp(9, 0)), "nobody knows that one yet"


def test_what_the_global_line_has_delivered_is_not_next() -> None:
    line, one, other = LocalLine(0), packet(1), packet(2)
    one.done = True
    line.follow(one, Stamp(0, 0))
    line.follow(other, Stamp(5, 0))
    assert line.next(Stamp(4, 0)) is None
    other.done = True
    assert line.next(Stamp(5, 0)) is None
