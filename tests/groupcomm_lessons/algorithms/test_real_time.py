"""Stamps by real time: what they keep if clocks agree and messages are quick, and who breaks it."""

import pytest
from hypothesis import given

from groupcomm.errors import LocalProtocolError
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Order
from groupcomm_lessons.algorithms.real_time import RealTime, TimeStamp
from tests.groupcomm_lessons.algorithms.counterexample import Steps, schedule_where
from tests.groupcomm_lessons.algorithms.schedules import assert_keeps, schedules

WAIT = 3


def timed(steps: Steps, *, late: bool = False, behind: int = 0) -> Network:
    """Play a schedule in which 2 lets time pass, by one.

    Args:
        steps: see `schedules`.
        late: messages may take as long as they like, else less than `WAIT`.
        behind: the time by which q's clock is behind the others.
    """
    network = Network(RealTime(name, "pqr", wait=WAIT) for name in "pqr")
    now = 0
    set_clocks(network, now, behind)
    for what, which, _ in steps:
        if what == 0:
            network.send("pqr"[which % 3], b"")
        elif what == 1 and network.under_way:
            network.bring(network.ready[which % len(network.ready)])
        elif what == 2:
            now += 1
            if not late:
                bring_due(network, now, behind)
            set_clocks(network, now, behind)
    for _ in range(WAIT + behind + 1):
        now += 1
        bring_due(network, now, behind)
        set_clocks(network, now, behind)
    return network


def set_clocks(network: Network, now: int, behind: int) -> None:
    for name, process in network.processes.items():
        assert isinstance(process, RealTime)
        network.accept(name, process.set_clock(now + (0 if name == "q" else behind)))


def bring_due(network: Network, now: int, behind: int) -> None:
    """Let all messages arrive that were sent `WAIT` ago; all clocks but q's are ahead of `now`."""
    for packet in list(network.under_way):
        sent_at = packet.stamp.time - (0 if packet.source == "q" else behind)
        if sent_at + WAIT <= now:
            network.bring(packet)


@given(schedules)
def test_quick_messages_and_clocks_that_agree_keep_all_orders(steps: Steps) -> None:
    assert_keeps(timed(steps), frozenset(Order))


def test_a_message_that_is_late_breaks_every_order() -> None:
    """The first counterexample: nobody can know that it is still under way."""
    steps = schedule_where(lambda found: not timed(found, late=True).history.held())
    assert timed(steps).history.held() == frozenset(Order)


def test_a_clock_that_is_behind_breaks_causal_order() -> None:
    """The second: every message is quick."""

    def broken(steps: Steps) -> bool:
        return bool(timed(steps, behind=5).history.broken(Order.CAUSAL))

    steps = schedule_where(broken)
    assert not timed(steps).history.broken(Order.CAUSAL)


def test_a_clock_does_not_go_back() -> None:
    process = RealTime("p", "pq", now=7)
    with pytest.raises(LocalProtocolError, match="p shows 7, and cannot be set back to 6"):
        process.set_clock(6)


def test_the_same_time_is_a_sign_of_concurrency() -> None:
    assert TimeStamp(1, "p", 1).concurrent_with(TimeStamp(1, "q", 1))
    assert not TimeStamp(1, "p", 1).concurrent_with(TimeStamp(2, "q", 1))
    assert TimeStamp(1, "q", 1) < TimeStamp(2, "p", 1)
