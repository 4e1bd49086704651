"""The monitor of a token that is elsewhere: what it sends, to whom, and when."""

from collections.abc import Callable

from groupcomm.config.core import Timing
from groupcomm.config.view import RING
from groupcomm.ring.token_monitor import Repeater, TokenMonitor
from tests.groupcomm.ring.harness import Daemon, make_view

TIMING = Timing()
NEVER = float("inf")


class Watched(Daemon):
    """Daemon 0 of a ring of three, whose monitor is asked alone."""

    def __init__(self) -> None:
        super().__init__(make_view((0, 1, 2)), 0)
        self.monitor = TokenMonitor(0, 0, bytes(16), TIMING, hop=7, holder=1, context=self, now=0.0)

    def targets(self, now: float, *, wanted: bool = True, urgent: bool = False) -> list[int]:
        """Let time pass; return to whom something was sent."""
        self.monitor.step(now, wanted=wanted, urgent=urgent, missing_at=NEVER)
        sent, self.sent = self.sent, []
        return [target for target, _ in sent]


def test_a_repeater_doubles_its_interval_up_to_the_longest() -> None:
    repeater = Repeater(1.0, 3.0)
    assert not repeater.pop_due(100.0)
    repeater.start(0.0)
    assert not repeater.pop_due(0.5)
    times = []
    for _ in range(4):
        assert repeater.pop_due(repeater.at)
        times.append(repeater.at)
    assert times == [2.0, 4.0, 7.0, 10.0]
    repeater.stop()
    assert repeater.at == NEVER


def test_a_repeater_that_waits_longer_first_repeats_no_sooner_after_it() -> None:
    repeater = Repeater(1.0, 8.0)
    repeater.start(0.0, 5.0)
    assert repeater.pop_due(5.0)
    assert repeater.at == 10.0
    repeater.start(0.0, 0.0)
    assert repeater.pop_due(0.0)
    assert repeater.at == 1.0


def test_the_token_is_known_to_rest_until_it_moves() -> None:
    watched = Watched()
    monitor = watched.monitor
    assert monitor.at_rest, "at the start it rests with the first daemon"
    monitor.passed_on(b"token", 1, 8, 0.0)
    assert not monitor.at_rest
    monitor.rests(9, 2, 0.0, wanted=False)
    assert monitor.at_rest
    monitor.came_by(10)
    assert not monitor.at_rest
    monitor.lingers(2, 0.0, wanted=False)
    assert monitor.at_rest
    assert monitor.hop == 10


def test_a_passed_token_goes_again_to_whom_it_was_passed() -> None:
    watched = Watched()
    watched.monitor.passed_on(b"token", 2, 8, 0.0)
    at = watched.monitor._repeats.at
    assert watched.targets(at - 1e-6, wanted=False) == []
    assert watched.targets(at, wanted=False) == [2]
    assert watched.ring_counts.repeated_tokens == 1
    watched.monitor.arrived_there()
    assert watched.targets(at + 0.5, wanted=False) == []


def test_an_urgent_request_goes_to_the_holder_and_the_next_one_to_all() -> None:
    watched = Watched()
    watched.monitor.rests(9, 2, 0.0, wanted=False)
    assert watched.targets(0.0, urgent=True) == [2]
    assert watched.targets(watched.monitor.deadline, urgent=True) == [RING]


def test_a_request_that_is_not_urgent_waits_and_goes_to_all() -> None:
    watched = Watched()
    watched.monitor.rests(9, 1, 0.0, wanted=True)
    assert watched.targets(0.0, wanted=False) == [], "nothing waits any more"
    watched.monitor.lingers(2, 0.0, wanted=False)
    assert watched.targets(0.0) == []
    assert watched.monitor.deadline == TIMING.request_retry_s
    assert watched.targets(TIMING.request_retry_s) == [RING]


def test_the_first_request_after_each_notice_goes_to_all_unless_it_was_made_at_once() -> None:
    watched = Watched()
    watched.monitor.rests(9, 1, 0.0, wanted=True)
    watched.monitor.rests(9, 2, 0.0, wanted=False)
    assert watched.targets(0.0, wanted=False) == []
    assert watched.targets(0.1) == []
    assert watched.targets(0.1 + TIMING.request_retry_s) == [RING]


def test_also_at_the_start_a_request_that_is_not_urgent_goes_to_all() -> None:
    watched = Watched()
    assert watched.targets(0.0) == []
    assert watched.targets(TIMING.request_retry_s) == [RING]


def test_who_lingers_is_asked_at_once_by_those_that_waited() -> None:
    watched = Watched()
    watched.monitor.lingers(2, 0.0, wanted=True)
    assert watched.targets(0.0) == [2]


def test_a_token_that_is_heard_of_is_not_lost() -> None:
    watched = Watched()
    watched.targets(TIMING.token_timeout_s - 1e-6, wanted=False)
    assert watched.monitor.token_losses == 0
    assert watched.monitor.deadline == TIMING.token_timeout_s
    watched.targets(TIMING.token_timeout_s, wanted=False)
    assert watched.monitor.token_losses == 1
    assert watched.monitor.deadline == 2 * TIMING.token_timeout_s


def test_the_time_at_which_something_is_missing_is_a_deadline_while_nothing_is_asked() -> None:
    watched = Watched()
    watched.monitor.step(0.0, wanted=False, urgent=False, missing_at=0.01)
    assert watched.monitor.deadline == 0.01
    watched.monitor.step(0.0, wanted=True, urgent=False, missing_at=0.0)
    assert watched.monitor.deadline == TIMING.request_retry_s


def test_a_passed_token_that_has_come_by_or_rests_is_not_sent_again() -> None:
    happenings: list[Callable[[TokenMonitor], None]] = [
        lambda monitor: monitor.came_by(9),
        lambda monitor: monitor.rests(9, 2, 0.0, wanted=False),
        lambda monitor: monitor.arrived_there(),
    ]
    for news in happenings:
        watched = Watched()
        watched.monitor.passed_on(b"token", 2, 8, 0.0)
        news(watched.monitor)
        assert watched.targets(TIMING.token_retransmit_s, wanted=False) == []
        assert watched.ring_counts.repeated_tokens == 0


def test_a_token_that_has_come_by_was_asked_for_long_enough() -> None:
    watched = Watched()
    assert watched.targets(0.0) == []
    watched.monitor.came_by(9)
    assert watched.targets(TIMING.request_retry_s) == [], "it may come by again by itself"
