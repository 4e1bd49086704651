"""Vector stamps for broadcast: what they keep, what they do not, and the copy that they need."""

import pytest
from hypothesis import given

from groupcomm.clocks.vector import VectorClock
from groupcomm.errors import LocalProtocolError
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Name, Order
from groupcomm_lessons.algorithms.vector import Vector
from tests.groupcomm_lessons.algorithms.counterexample import Steps, counterexample, schedule_where
from tests.groupcomm_lessons.algorithms.schedules import assert_keeps, play, schedules
from tests.groupcomm_lessons.algorithms.turns import are_concurrent


class LiveVector(Vector):
    """The known bug: the stamp is the clock itself, which counts on before the message comes."""

    def _stamp(self) -> VectorClock[Name]:
        return self._clock


def three(make: type[Vector]) -> Network:
    return Network(make(name, "pqr") for name in "pqr")


@given(schedules)
def test_it_keeps_fifo_and_causal_order(steps: Steps) -> None:
    assert_keeps(play(Vector, steps, processes=4), Vector.claims)


def test_it_does_not_keep_a_total_order() -> None:
    network = counterexample(lambda steps: play(Vector, steps), Order.TOTAL)
    first, second = network.history.broken(Order.TOTAL)[0][2:4]
    assert first.sender != second.sender


@given(schedules)
def test_stamps_are_concurrent_where_no_message_may_have_caused_the_other(steps: Steps) -> None:
    seen: dict[str, VectorClock[Name]] = {}

    class Watched(Vector):
        def _stamp(self) -> VectorClock[Name]:
            seen[f"{self.me}{self._sent}"] = stamp = super()._stamp()
            return stamp

    history = play(Watched, steps).history
    for one in history.sent:
        for other in history.sent:
            concurrent = seen[str(one)].concurrent_with(seen[str(other)])
            assert concurrent == are_concurrent(history, one, other)


def test_a_message_waits_for_its_cause() -> None:
    network = three(Vector)
    network.send("p", b"cause")
    to_q, to_r = network.under_way
    network.bring(to_q)
    network.send("q", b"effect")
    effect = next(packet for packet in network.under_way if packet[:2] == ("q", "r"))
    network.bring(effect)
    assert [str(message) for message in network.processes["r"].waiting] == ["q1"]
    network.bring(to_r)
    assert [str(message) for message in network.history.delivered["r"]] == ["p1", "q1"]
    assert network.most_waiting == 1


def test_a_stamp_that_is_not_a_copy_shows_when_a_message_is_late() -> None:
    for make, delivered in ((Vector, ["p1", "p2"]), (LiveVector, [])):
        network = three(make)
        network.send("p", b"")
        network.send("p", b"")  # while the first message is in flight
        network.bring_all()
        assert [str(each) for each in network.history.delivered.get("q", [])] == delivered


def test_a_stamp_that_is_not_a_copy_is_found_by_schedules() -> None:
    steps = schedule_where(lambda found: bool(play(LiveVector, found).history.missing))
    assert not play(Vector, steps).history.missing


def test_it_sends_to_all_or_not_at_all() -> None:
    network = three(Vector)
    with pytest.raises(LocalProtocolError, match="Vector can only broadcast"):
        network.send("p", b"", ["q"])
    assert network.send("p", b"", "rqp") is not None
