"""One cause in the stamp: right along a chain, wrong where there are two."""

from collections.abc import Iterable

from hypothesis import given

from groupcomm_lessons.algorithms.last_sender import CauseStamp, LastSender, LastSenderSame
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Name, Order, Step
from tests.groupcomm_lessons.algorithms.counterexample import Steps, counterexample
from tests.groupcomm_lessons.algorithms.schedules import assert_keeps, play, schedules
from tests.groupcomm_lessons.algorithms.turns import are_concurrent, play_in_turn


class OverFifo(LastSender):
    """Its channels keep their order, so what fails is not FIFO order."""

    needs_fifo = True


@given(schedules)
def test_in_turn_it_keeps_all_orders(steps: Steps) -> None:
    assert_keeps(play_in_turn(LastSender, steps), frozenset(Order))


@given(schedules)
def test_nothing_is_lost(steps: Steps) -> None:
    assert_keeps(play(LastSender, steps, processes=4), LastSender.claims)


def test_it_fails_with_two_causes() -> None:
    history = counterexample(lambda steps: play(OverFifo, steps), Order.CAUSAL).history
    effect, missed = history.broken(Order.CAUSAL)[0][2:4]
    assert any(are_concurrent(history, missed, other) for other in history.causes(effect))


def test_the_cause_that_is_not_named_comes_late() -> None:
    network = Network(LastSender(name, "pqr") for name in "pqr")
    network.send("p", b"")
    network.send("q", b"")
    p_to_q, p_to_r, _, q_to_r = network.under_way
    network.bring(p_to_r)
    network.bring(q_to_r)
    network.send("r", b"")  # both messages caused it; its stamp names q1
    effect = next(packet for packet in network.under_way if packet[:2] == ("r", "q"))
    assert effect.stamp == CauseStamp("r", 1, "q", 1)
    network.bring(effect)
    network.bring(p_to_q)
    assert [str(message) for message in network.history.delivered["q"]] == ["q1", "r1", "p1"]


def test_the_same_count_holds_back_for_ever_what_comes_to_a_receiver_that_is_ahead() -> None:
    """The run that tells the two rules apart: r has p1 and p2 when q's answer to p1 comes."""
    waiting = {}
    for make in (LastSender, LastSenderSame):
        network = Network(make(name, "pqr") for name in "pqr")
        network.send("p", b"")
        network.bring(network.under_way[0])
        network.send("q", b"")
        network.send("p", b"")
        for sender in "ppq":
            network.bring(
                next(packet for packet in network.under_way if packet[:2] == (sender, "r"))
            )
        network.bring_all()
        waiting[make] = [str(message) for message in network.processes["r"].waiting]
    assert waiting == {LastSender: [], LastSenderSame: ["q1"]}


def test_what_names_the_same_cause_is_concurrent() -> None:
    assert CauseStamp("p", 1, "r", 1).concurrent_with(CauseStamp("q", 1, "r", 1))
    assert not CauseStamp("p", 1, "r", 1).concurrent_with(CauseStamp("q", 1, "p", 1))


@given(schedules)
def test_what_stamps_show_is_right_as_long_as_causal_order_holds(steps: Steps) -> None:
    stamps: dict[str, CauseStamp] = {}

    class Watched(LastSender):
        def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
            step = super().send(data, destinations)
            stamps[str(step.deliveries[0])] = step.packets[0].stamp
            return step

    history = play(Watched, steps).history
    held = not history.broken(Order.CAUSAL)
    for one in history.sent if held else ():
        for other in history.sent:
            if stamps[str(one)].concurrent_with(stamps[str(other)]):
                assert are_concurrent(history, one, other)
