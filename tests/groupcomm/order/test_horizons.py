"""Blocks count once their packets are held, and never fall."""

from groupcomm.order.horizons import MOST_PENDING, Blocks, Frontiers


class Counted:
    """Blocks with the notices that counted."""

    def __init__(self, rings: int = 2, clock: int = 5) -> None:
        self.notices: list[tuple[int, int, int]] = []
        self.blocks = Blocks(rings, clock, lambda *notice: self.notices.append(notice))


def test_nothing_is_counted_at_the_start() -> None:
    blocks = Counted(clock=5).blocks
    assert (blocks.values, blocks.least) == ([5, 5], 5)
    assert [blocks.notices(ring) for ring in (0, 1)] == [[], []]


def test_a_notice_whose_packets_are_held_counts_at_once() -> None:
    counted = Counted()
    assert counted.blocks.announce(1, 9, upto=3, held=3)
    assert counted.notices == [(1, 9, 3)]
    assert counted.blocks.values == [5, 9]
    assert counted.blocks.notices(1) == [(3, 9)]
    assert not list(counted.blocks.pending(1))


def test_a_notice_that_says_nothing_new_does_not_count() -> None:
    counted = Counted()
    counted.blocks.announce(0, 9, upto=0, held=0)
    assert not counted.blocks.announce(0, 9, upto=0, held=0)
    assert not counted.blocks.announce(0, 8, upto=0, held=0)
    assert counted.notices == [(0, 9, 0)]
    assert counted.blocks.values == [9, 5]


def test_a_notice_waits_for_its_packets() -> None:
    counted = Counted()
    assert not counted.blocks.announce(0, 9, upto=2, held=1)
    assert not counted.blocks.announce(0, 12, upto=3, held=1)
    assert counted.notices == []
    assert counted.blocks.notices(0) == [(2, 9), (3, 12)]
    counted.blocks.stream_advanced(0, held=2, time=7)
    assert counted.notices == [(0, 9, 2)]
    assert counted.blocks.notices(0) == [(2, 9), (3, 12)], "the last that counted, and the rest"
    counted.blocks.stream_advanced(0, held=4, time=20)
    assert counted.notices == [(0, 9, 2)], "a packet's stamp says more than the notice"
    assert counted.blocks.values[0] == 20
    assert not list(counted.blocks.pending(0))


def test_of_two_notices_for_the_same_packets_the_higher_one_waits() -> None:
    counted = Counted()
    counted.blocks.announce(0, 9, upto=2, held=0)
    counted.blocks.announce(0, 12, upto=2, held=0)
    counted.blocks.announce(0, 11, upto=2, held=0)
    assert list(counted.blocks.pending(0)) == [(2, 12)]


def test_a_notice_below_one_that_waits_is_not_kept() -> None:
    counted = Counted()
    counted.blocks.announce(0, 12, upto=4, held=0)
    counted.blocks.announce(0, 9, upto=2, held=0)
    assert list(counted.blocks.pending(0)) == [(4, 12)]


def test_waiting_notices_are_bounded() -> None:
    counted = Counted()
    for upto in range(1, MOST_PENDING + 2):
        counted.blocks.announce(0, 10 + upto, upto, held=0)
    assert len(counted.blocks.pending(0)) == MOST_PENDING
    assert counted.blocks.pending(0)[-1] == (MOST_PENDING, 10 + MOST_PENDING)


def test_the_least_block_is_that_of_the_slowest_ring() -> None:
    blocks = Counted(rings=3, clock=5).blocks
    blocks.announce(0, 9, 0, 0)
    blocks.announce(1, 8, 0, 0)
    assert blocks.least == 5
    blocks.announce(2, 20, 0, 0)
    assert blocks.least == 8
    blocks.stream_advanced(1, held=1, time=7)
    assert (blocks.values, blocks.least) == ([9, 8, 20], 8), "no block falls"
    blocks.stream_advanced(1, held=2, time=30)
    assert blocks.least == 9


def test_the_least_frontier_is_that_of_the_slowest_ring() -> None:
    frontiers = Frontiers(3, 5)
    assert frontiers.raise_to(0, 9)
    assert not frontiers.raise_to(0, 9)
    assert not frontiers.raise_to(0, 8)
    assert frontiers.raise_to(1, 8)
    assert frontiers.least == 5
    assert frontiers.raise_to(2, 20)
    assert (frontiers.values, frontiers.least) == ([9, 8, 20], 8)
    assert frontiers.raise_to(2, 30)
    assert frontiers.least == 8
