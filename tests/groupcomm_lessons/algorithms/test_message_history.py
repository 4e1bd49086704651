"""Stamps that name earlier messages: plain, and without implied ones."""

import pytest
from hypothesis import given

from groupcomm.trace.steps import MessageId
from groupcomm_lessons.algorithms.message_history import (
    CompressedHistory,
    HistoryStamp,
    MessageHistory,
    ShortStamp,
)
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Message, Order
from tests.groupcomm_lessons.algorithms.counterexample import Steps, counterexample
from tests.groupcomm_lessons.algorithms.schedules import assert_keeps, play, schedules
from tests.groupcomm_lessons.algorithms.turns import are_concurrent, concurrent_pairs


@pytest.mark.parametrize("make", [MessageHistory, CompressedHistory])
@given(steps=schedules)
def test_both_keep_fifo_and_causal_order(make: type[MessageHistory], steps: Steps) -> None:
    assert_keeps(play(make, steps, processes=4, multicasts=True), make.claims)


@pytest.mark.parametrize("make", [MessageHistory, CompressedHistory])
def test_neither_keeps_a_total_order(make: type[MessageHistory]) -> None:
    history = counterexample(lambda steps: play(make, steps), Order.TOTAL).history
    assert concurrent_pairs(history)


@given(schedules)
def test_both_deliver_alike_and_the_compressed_one_says_no_more(steps: Steps) -> None:
    for multicasts in (False, True):
        plain, short = (
            play(make, steps, processes=4, multicasts=multicasts)
            for make in (MessageHistory, CompressedHistory)
        )
        assert short.history.delivered == plain.history.delivered
        assert short.stamp_bytes <= plain.stamp_bytes


def test_plain_stamps_grow_and_compressed_ones_do_not() -> None:
    def bytes_of_round(make: type[MessageHistory], rounds: int) -> int:
        """Return the stamps of the last of some rounds, in which each process sends once to all."""
        network = Network(make(name, "pqrs") for name in "pqrs")
        before = 0
        for _ in range(rounds):
            before = network.stamp_bytes
            for name in "pqrs":
                network.send(name, b"")
                network.bring_all()
        return network.stamp_bytes - before

    # An entry is 18 bytes: sender 2, number 8, four destinations 8. Twelve packets a round.
    plain = [bytes_of_round(MessageHistory, rounds) for rounds in (2, 3, 10)]
    assert plain == [plain[0] + 12 * 18 * 4 * more for more in (0, 1, 8)]
    short = [bytes_of_round(CompressedHistory, rounds) for rounds in (2, 3, 10)]
    # One entry: the latest message, for the two that are neither its sender nor this one's.
    assert short == [12 * (10 + 2 * 2)] * 3


@given(schedules)
def test_stamps_tell_what_is_concurrent(steps: Steps) -> None:
    stamps: dict[MessageId, HistoryStamp] = {}

    class Watched(MessageHistory):
        def _stamp(self, message: Message) -> HistoryStamp | ShortStamp:
            stamp = super()._stamp(message)
            assert isinstance(stamp, HistoryStamp)
            stamps[message[:2]] = stamp
            return stamp

    history = play(Watched, steps, multicasts=True).history
    for one in history.sent:
        for other in history.sent:
            concurrent = stamps[one[:2]].concurrent_with(stamps[other[:2]])
            assert concurrent == are_concurrent(history, one, other)
