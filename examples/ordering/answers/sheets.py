"""All answers; docs/exercises.md has the exercises."""

from examples.ordering.answers import (
    against_time,
    block_at_estimate,
    causal_requests,
    clocks_say_more,
    concurrent_vectors,
    costs,
    deferred_answers,
    differences,
    duplicates,
    dying_handle,
    fifo_broadcast,
    growth,
    how_often,
    last_two,
    late_count,
    lost_packets,
    patient_consumer,
    rotating,
    smallest,
    votes,
)
from examples.ordering.answers.answer import ANSWERS

SHEETS = {
    "1": (fifo_broadcast, smallest, clocks_say_more, duplicates, lost_packets),
    "2": (last_two, concurrent_vectors, growth, differences, how_often),
    "3": (rotating, votes, deferred_answers, causal_requests, costs),
    "4": (block_at_estimate, against_time, dying_handle, patient_consumer, late_count),
}
"""The modules by sheet, in the order of the exercises."""

__all__ = ["ANSWERS", "SHEETS"]
