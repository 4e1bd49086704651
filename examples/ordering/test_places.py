"""Causality in the program: its rule, and that it ends over real daemons."""

from itertools import permutations

from examples.ordering.places import Causal, measure


def test_a_program_can_hold_back_what_is_early() -> None:
    """Whatever comes first, the answer is used after the question, and all is used once."""
    asks, answers = Causal(0, 3), Causal(1, 3)
    question = asks.stamped(b"question")
    assert answers.received(question) == [b"question"]
    answer, more = answers.stamped(b"answer"), asks.stamped(b"more")
    for order in permutations((question, answer, more)):
        reader = Causal(2, 3)
        used = [data for message in order for data in reader.received(message)]
        assert sorted(used) == [b"answer", b"more", b"question"]
        assert used[0] == b"question"


async def test_it_ends_over_real_daemons() -> None:
    assert await measure("program", 25) > 0
