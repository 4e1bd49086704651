"""One attempt by itself: how long it waits after failures, and when it speaks."""

from math import inf

import pytest

from groupcomm.config.core import Timing
from groupcomm.config.view import Incarnation, Start
from groupcomm.membership.gather import (
    MIN_GAP_S,
    MOST_FAILURES,
    STEADY_S,
    Backoff,
    Gather,
    longest_silence_s,
    silence_s,
)
from groupcomm.membership.peer import PeerDaemon
from groupcomm.membership.states import GatherReason
from tests.groupcomm.membership.stage import NUMBERS, join_of

TIMING = Timing(longest_delay_s=0.03)
WAIT_S = TIMING.answer_wait_s
START = Start(name="a", incarnation=Incarnation(1, ord("a")))


def begun(stretch: float = 1.0, jitter: float = 0.0, reason: GatherReason | None = None) -> Gather:
    """Return the attempt of the daemon a, which hears nobody, at time 0."""
    gather = Gather(TIMING, 0.0, stretch, jitter, reason=reason or GatherReason.STARTED)
    gather.find_proposal(START, join_of("a", 1, hears="a"), dict[int, PeerDaemon](), 0.0)
    return gather


def waits_s(gather: Gather, expected: str) -> float:
    """Return how long others are waited for, to a tenth of a millisecond."""
    numbers = {NUMBERS[name] for name in expected}
    return next(at for at in (n / 1e4 for n in range(20_000)) if gather.is_complete(numbers, at))


@pytest.mark.parametrize(
    ("stretch", "jitter", "waits"),
    [(1.0, 1.0, 1.0), (1.5, 0.0, 1.5), (1.5, 1.0, 2.0), (3.5, 0.5, 3.75)],
)
def test_after_failures_silent_daemons_are_waited_for_longer_and_by_each_differently(
    stretch: float, jitter: float, waits: float
) -> None:
    assert waits_s(begun(stretch, jitter), "ab") == pytest.approx(waits * WAIT_S, abs=2e-4)


@pytest.mark.parametrize(("stretch", "calm"), [(1.0, 0.0), (1.5, 1.0), (2.0, 1.5)])
def test_after_failures_an_attempt_is_calm_although_all_have_answered(
    stretch: float, calm: float
) -> None:
    assert waits_s(begun(stretch), "a") == pytest.approx(calm * WAIT_S, abs=2e-4)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (GatherReason.MEMBER_GATHERS, True),
        (GatherReason.MEMBER_LEFT, True),
        (GatherReason.TOKEN_LOST, False),
    ],
)
def test_who_was_told_of_the_reason_waits_a_delay_less_as_others_were_told_before(
    reason: GatherReason, told: bool
) -> None:
    less_s = TIMING.longest_delay_s if told else 0.0
    assert waits_s(begun(reason=reason), "ab") == pytest.approx(WAIT_S - less_s, abs=2e-4)


def test_joins_are_repeated_at_intervals_and_one_that_is_stale_almost_at_once() -> None:
    gather = begun(2.0)
    for is_stale, after_s in ((False, 2 * TIMING.repeat_s), (True, MIN_GAP_S)):
        gather.stale_from = 0.0 if is_stale else inf
        assert not gather.may_send(7.0, 7.0 + 0.99 * after_s)
        assert gather.may_send(7.0, 7.0 + after_s)
        assert gather.deadline(7.0) <= 7.0 + after_s
    gather.due = inf
    assert gather.deadline(7.0) == 7.0 + MIN_GAP_S
    gather.due = 7.0
    assert gather.deadline(7.0) == 7.0


def test_findings_are_computed_again_when_a_wait_may_be_over() -> None:
    gather = begun()
    assert gather.due == pytest.approx(TIMING.repeat_s)
    late = WAIT_S - TIMING.repeat_s / 2
    gather.find_proposal(START, join_of("a", 1, hears="a"), dict[int, PeerDaemon](), late)
    assert gather.due == pytest.approx(WAIT_S)


@pytest.mark.parametrize(
    ("lasted_s", "left"),
    [
        (STEADY_S / 4 - 0.01, MOST_FAILURES),
        (STEADY_S / 4, MOST_FAILURES // 2),
        (STEADY_S - 0.01, MOST_FAILURES // 2),
        (STEADY_S, 0),
    ],
)
def test_failures_are_forgotten_by_how_long_the_view_has_lasted(lasted_s: float, left: int) -> None:
    backoff = Backoff()
    for _ in range(MOST_FAILURES):
        backoff.on_gather(1.0, operational=False)
    backoff.on_installed(0.0)
    backoff.on_gather(lasted_s, operational=True)
    assert backoff.failures == left


def test_an_attempt_without_news_is_given_up_after_two_waits_and_later_after_failures() -> None:
    assert silence_s(TIMING, 1.0) == 2 * WAIT_S
    assert silence_s(TIMING, 2.5) == 5 * WAIT_S
    assert longest_silence_s(TIMING) == 2 * WAIT_S * (1 + MOST_FAILURES / 2)
