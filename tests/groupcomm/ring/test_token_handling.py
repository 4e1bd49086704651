"""The work on a token that needs only the token and the streams."""

import pytest

from groupcomm.ring.token_handling import (
    IN_VAIN,
    Request,
    add_requests,
    answer_requests,
    first_token,
    queue_wanted,
    request_foreign,
)
from groupcomm.stream.stream import Gaps, Stream
from groupcomm.wire.data import DataPacket
from groupcomm.wire.token import Token


def stream_of(numbers: list[int], *, known: int = 0, ring: int = 0) -> Stream:
    """Return a stream that holds packets of 100 bytes of these numbers."""
    stream = Stream(ring, 0)
    for number in numbers:
        packet = DataPacket(
            ring=ring, number=number, time=number, daemon=0, previous=number - 1, bundles=[]
        )
        packet.raw = bytes(100)
        stream.accept(packet)
    stream.learn(known)
    return stream


def token_of_three() -> Token:
    return first_token(0, (0, 1, 2), hop=7, clock=9, streams=[Stream(0, 4), Stream(1, 5)])


def answered(
    requests: list[Request], stream: Stream, budget: int = 10**6
) -> tuple[list[int], list[Request]]:
    """Return the numbers of the packets that are sent, and the requests that remain."""
    packets, remaining = answer_requests(requests, [stream], budget, {})
    return [packet.number for packet in packets], remaining


def test_the_first_token_shows_what_all_hold_already() -> None:
    token = token_of_three()
    assert (token.ring, token.hop, token.clock, token.burst) == (0, 7, 9, 0)
    assert (token.last, token.last_sender) == (4, 0)
    assert [(row.frontier, row.sent, row.held) for row in token.rows] == [(0, 0, [4, 5])] * 3
    assert (token.requests, token.wanted) == ([], [])
    token.rows[0].held[0] = 6
    assert token.rows[1].held == [4, 5], "each row is its own"


def test_what_another_daemon_of_the_ring_holds_is_asked_for_again_soon() -> None:
    token, stream = token_of_three(), Stream(1, 5)
    gaps = Gaps(stream, delay_s=0.01, retry_s=1.0, near_s=0.1)
    stream.learn(7)
    gaps.update(0.0)
    token.rows[2].held[1] = 6
    request_foreign(token, [gaps], 0.0, 8)
    assert token.requests == [], "it may only be late"
    request_foreign(token, [gaps], 0.01, 8)
    assert token.requests == [(1, 6, 7)]
    assert gaps.deadline == 0.01 + 0.1
    token.requests = []
    request_foreign(token, [gaps], 0.11, 8)
    assert token.requests == [(1, 6, 6)], "the other one has to cross a link"
    token.requests, token.rows[0].held[1] = [], 7
    request_foreign(token, [gaps], 1.01, 8)
    assert token.requests == [(1, 6, 7)]
    assert gaps.deadline == 1.01 + 0.1


def test_a_request_that_was_answered_in_vain_is_left_to_others_once() -> None:
    stream, times = stream_of([1, 2]), dict[tuple[int, int], int]()
    asked: list[Request] = [(0, 1, 1)]
    answers = [answer_requests(asked, [stream], 1000, times) for _ in range(2 * (IN_VAIN + 1))]
    counts = [len(packets) for packets, _ in answers]
    assert counts == [1] * IN_VAIN + [0] + [1] * IN_VAIN + [0]
    assert [rest for packets, rest in answers if not packets] == [asked, asked]


def test_a_request_of_another_packet_is_answered_at_once() -> None:
    stream, times = stream_of([1, 2]), dict[tuple[int, int], int]()
    for _ in range(IN_VAIN):
        answer_requests([(0, 1, 1)], [stream], 1000, times)
    answers, _ = answer_requests([(0, 2, 2)], [stream], 1000, times)
    assert [packet.number for packet in answers] == [2]
    answers, _ = answer_requests([(0, 1, 1)], [stream], 1000, times)
    assert [packet.number for packet in answers] == [1], "it was not asked for meanwhile"


def test_what_is_held_is_answered_and_the_rest_stays_requested() -> None:
    stream = stream_of([1, 2, 4, 6, 7], known=8)
    assert answered([(0, 2, 6)], stream) == ([2, 4, 6], [(0, 3, 3), (0, 5, 5)])
    assert answered([(0, 3, 3)], stream) == ([], [(0, 3, 3)])
    assert answered([(0, 7, 8)], stream) == ([7], [(0, 8, 8)])


def test_numbers_that_do_not_exist_or_all_hold_are_not_requested_further() -> None:
    stream = stream_of([1, 2, 3], known=4)
    assert answered([(0, 4, 9)], stream) == ([], [(0, 4, 4)])
    stream.forget(2)
    assert answered([(0, 1, 3)], stream) == ([3], [])


def test_packets_beyond_the_budget_stay_requested() -> None:
    stream = stream_of([1, 2, 3, 4])
    assert answered([(0, 1, 4)], stream, budget=200) == ([1, 2], [(0, 3, 4)])
    assert answered([(0, 1, 4)], stream, budget=201) == ([1, 2, 3], [(0, 4, 4)])
    assert answered([(0, 1, 2), (0, 4, 4)], stream, budget=1) == ([1], [(0, 2, 2), (0, 4, 4)])


def test_requests_of_the_same_ring_are_united() -> None:
    token = token_of_three()
    token.requests = [(0, 5, 6), (1, 2, 3)]
    add_requests(token, 0, [(7, 9), (12, 12)], 10)
    assert token.requests == [(1, 2, 3), (0, 5, 9), (0, 12, 12)]
    add_requests(token, 1, [], 1)
    assert len(token.requests) == 3, "nothing is lost without anything new"
    add_requests(token, 1, [(9, 9)], 3)
    assert token.requests == [(0, 5, 9), (0, 12, 12), (1, 2, 3)]


@pytest.mark.parametrize(
    ("queued", "asked", "after"),
    [([], [2, 1], [2, 1]), ([1], [2, 1], [1, 2]), ([0, 2], [1], [2, 1]), ([], [0], [])],
)
def test_daemons_wait_for_the_token_in_their_order_and_once(
    queued: list[int], asked: list[int], after: list[int]
) -> None:
    token = token_of_three()
    token.wanted = queued
    queue_wanted(token, asked, 0)
    assert token.wanted == after
    assert asked == []


def test_the_ring_has_what_its_slowest_daemon_has() -> None:
    token = token_of_three()
    for row, (frontier, held) in zip(token.rows, [(5, 9), (3, 8), (4, 7)], strict=True):
        row.frontier, row.held = frontier, [held, 2 * held]
    assert token.read_rows(token.rows[0], 0) == (3, 7)
    assert token.read_rows(token.rows[1], 1) == (3, 14)
    assert token.read_rows(token.rows[2], 0) == (3, 7)
    assert (token.held_by_all(0), token.held_by_all(1)) == (7, 14)


def test_a_request_for_more_than_is_here_costs_only_what_is_here() -> None:
    stream = Stream(0, 0)
    stream.learn(2**60)
    asked = [(0, 1, 2**60)]
    assert answer_requests(asked, [stream], 10**6, {}) == ([], asked)
