"""Vector stamps while members come and go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import LocalProtocolError
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Order
from groupcomm_lessons.algorithms.vector_session import VectorSession
from tests.groupcomm_lessons.algorithms.counterexample import Steps
from tests.groupcomm_lessons.algorithms.schedules import assert_keeps, play, schedules


def member(network: Network, name: str) -> VectorSession:
    process = network.processes[name]
    assert isinstance(process, VectorSession)
    return process


def group(names: str) -> Network:
    return Network(VectorSession(name, names) for name in names)


def delivered(network: Network, name: str) -> list[str]:
    return [str(message) for message in network.history.delivered.get(name, ())]


def join_s(network: Network, name: str) -> None:
    """Tell one of s; q sponsors it."""
    if name == "q":
        step, welcome = member(network, "q").sponsor("s")
        newcomer = VectorSession("s")
        network.processes["s"] = newcomer
        network.accept("s", newcomer.start(welcome))
    else:
        step = member(network, name).join("s")
    network.accept(name, step)


@given(schedules)
def test_without_a_change_it_keeps_what_the_vector_process_keeps(steps: Steps) -> None:
    assert_keeps(play(VectorSession, steps), VectorSession.claims)


@given(schedules, st.lists(st.integers(0, 30), min_size=3, max_size=3))
def test_a_latecomer_learns_all_after_its_start_in_causal_order(
    steps: Steps, times: list[int]
) -> None:
    """The sponsor is told first, and each other one at some time after that."""
    network = group("pqr")
    first = times[0]
    told = {"q": first, "p": first + times[1], "r": first + times[2]}
    for at, (what, which, _) in enumerate([*steps, *[(1, 0, 0)] * 70]):
        for name in [name for name in "qpr" if told[name] == at]:
            join_s(network, name)
        ready = network.ready
        names = sorted(network.processes)
        if what == 0:
            network.send(names[which % len(names)], b"")
        elif ready:
            network.bring(ready[which % len(ready)])
    network.bring_all()
    assert not network.history.broken(Order.CAUSAL)
    assert not any(process.waiting for process in network.processes.values())
    for_s = [message for message in network.history.sent if "s" in message.destinations]
    assert set(for_s) <= set(network.history.delivered.get("s", ()))
    counted = {name: member(network, name) for name in network.processes}
    assert len({tuple(sorted(each._clock.items())) for each in counted.values()}) == 1


def test_a_sponsor_passes_on_what_was_sent_without_the_latecomer() -> None:
    network = group("pqr")
    network.send("p", b"")
    join_s(network, "q")
    for name in "pr":
        join_s(network, name)
    network.send("p", b"")
    for packet in [each for each in network.under_way if each.destination == "s"]:
        network.bring(packet)
    assert [str(message) for message in network.processes["s"].waiting] == ["p2"]
    network.bring_all()
    assert delivered(network, "s") == ["p1", "p2"]


def test_an_effect_of_a_latecomer_waits_for_the_news_that_it_has_come() -> None:
    network = group("pqr")
    join_s(network, "q")
    network.send("s", b"")
    for destination in "qp":
        network.bring(next(each for each in network.under_way if each.destination == destination))
    network.send("q", b"")
    network.bring(next(each for each in network.under_way if each[:2] == ("q", "p")))
    assert delivered(network, "p") == []
    join_s(network, "p")
    assert delivered(network, "p") == ["s1", "q1"]


def test_the_first_message_waits_until_all_have_come() -> None:
    network = group("pqr")
    network.processes["p"] = p = VectorSession("p", expected="qr")
    assert network.send("p", b"first") is None
    network.accept("p", p.join("q"))
    assert not network.under_way
    assert p.missing == {"r"}
    network.accept("p", p.join("r"))
    network.bring_all()
    assert [delivered(network, name) for name in "pqr"] == [["p1"]] * 3


def test_who_does_not_come_is_not_waited_for_for_ever() -> None:
    p = VectorSession("p", expected="qr")
    p.send(b"first")
    assert not p.join("q").packets
    assert [packet.destination for packet in p.leave("r").packets] == ["q"]


def test_nothing_waits_for_somebody_who_has_left() -> None:
    network = group("pqr")
    network.send("p", b"")
    to_q, to_r = network.under_way
    network.bring(to_q)
    network.send("q", b"")
    network.bring(next(packet for packet in network.under_way if packet[:2] == ("q", "r")))
    assert delivered(network, "r") == []
    network.accept("r", member(network, "r").leave("p"))
    assert delivered(network, "r") == ["q1"]
    network.bring(to_r)
    assert delivered(network, "r") == ["q1"]
    assert not network.processes["r"].waiting


def test_what_cannot_be_is_refused() -> None:
    p = VectorSession("p", "pq")
    p.leave("q")
    with pytest.raises(LocalProtocolError, match="q has left: come again by another name"):
        p.join("q")
    with pytest.raises(LocalProtocolError, match="'p' is a member already"):
        p.join("p")
    with pytest.raises(LocalProtocolError, match="p is this process itself"):
        p.leave("p")
    with pytest.raises(LocalProtocolError, match="is no member"):
        p.leave("x")
