"""Peers without a daemon in virtual time: each algorithm keeps its claims, whatever is lost."""

import json
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.sim.faults.faults import Faults
from groupcomm.trace.events import decode_event_untrusted
from groupcomm.trace.steps import AlgorithmStep, Buffered, Given, StampedSent
from groupcomm_lessons.algorithms.direct.events import Cause, Delivered, MemberJoined, MemberLeft
from groupcomm_lessons.algorithms.direct.peer import Make, State
from groupcomm_lessons.algorithms.fan_out import FanOut
from groupcomm_lessons.algorithms.message_history import MessageHistory
from groupcomm_lessons.algorithms.process import Name, Order, Process
from groupcomm_lessons.algorithms.schiper_eggli_sandoz import SchiperEggliSandoz
from groupcomm_lessons.algorithms.vector import Vector
from groupcomm_lessons.algorithms.vector_session import VectorSession
from groupcomm_lessons.simulated_peers import PeerNetwork, UsualPath
from tests.examples import examples
from tests.groupcomm_lessons.algorithms.direct.all import ALGORITHMS

NAMES = ("ann", "bob", "cid")
seeds = st.integers(0, 2**32)


def some_way(rng: Random) -> UsualPath:
    """From a quick way to a slow one with much jitter, which loses up to a third."""
    delay_s, jitter_s = 10 ** rng.uniform(-3, -1), 10 ** rng.uniform(-3, -0.7)
    return UsualPath(delay_s=delay_s, jitter_s=jitter_s, loss=rng.uniform(0.0, 0.33))


def started(
    seed: int, make: Make, usual: UsualPath, names: tuple[Name, ...] = NAMES
) -> PeerNetwork:
    network = PeerNetwork(seed, usual)
    network.add_founders(names, make)
    for _ in range(20):
        network.run(3.0)  # some greetings take more than one second on the worst paths
        if all(peer.state is State.RUNNING for peer in network.peers.values()):
            return network
    raise AssertionError(f"after a minute: {[peer.state for peer in network.peers.values()]}")


def news(network: PeerNetwork, name: Name) -> list[str]:
    """Return the deliveries of a peer, messages by their names."""
    found = []
    for told in network.events:
        match told.news:
            case Delivered(message) if told.name == name:
                found.append(str(message))
            case MemberJoined(other) if told.name == name:
                found.append(f"+{other}")
            case MemberLeft(other, cause) if told.name == name:
                found.append(f"-{other} {cause.value}")
    return found


@pytest.mark.parametrize("make", ALGORITHMS, ids=lambda make: make.__name__)
@examples(2)
@given(seed=seeds)
def test_whatever_is_lost_all_arrives_once_and_claims_are_kept(
    make: type[Process], seed: int
) -> None:
    rng = Random(seed)
    network = started(seed, make, some_way(rng))
    for name in NAMES:
        for other in set(NAMES) - {name}:
            faults = Faults(duplication=0.3, reorder_packets=8, corruption=0.05)
            network.ways[name].to(other).suffer(faults)
    for number in range(15):
        network.run(rng.uniform(0.0, 0.2))
        network.send(rng.choice(NAMES), b"%d" % number)
    network.run(10.0)
    assert not network.history.missing
    assert not network.history.twice
    assert network.history.held() >= make.claims


@examples(3)
@given(seed=seeds)
def test_messages_to_some_are_in_causal_order_too(seed: int) -> None:
    rng = Random(seed)
    network = started(seed, SchiperEggliSandoz, some_way(rng))
    for _ in range(15):
        network.run(rng.uniform(0.0, 0.2))
        network.send(rng.choice(NAMES), b"", rng.sample(NAMES, rng.randint(1, 3)))
    network.run(10.0)
    assert not network.history.missing
    assert not network.history.twice
    assert network.history.held() >= SchiperEggliSandoz.claims


def churn(seed: int) -> tuple[PeerNetwork, set[Name]]:
    """Have members come, leave and send, all at once; return the names of those that were to
    leave."""
    rng = Random(seed)
    network = started(seed, VectorSession, some_way(rng))
    coming, leaving = ["aaa", "dan", "eve", "abe"], set()
    for number in range(40):
        network.run(rng.uniform(0.0, 0.3))
        here = [name for name, peer in network.peers.items() if peer.state is State.RUNNING]
        staying = [name for name in here if name not in leaving]
        lot = rng.random()
        if lot < 0.7:
            network.send(rng.choice(here), b"%d" % number)
        elif lot < 0.85 and coming:
            network.add(coming.pop(rng.randrange(len(coming))), VectorSession, (), [staying[0]])
        elif lot < 0.93 and len(staying) > 2:
            name = rng.choice(staying[1:])  # the first peer stays, as latecomers greet it
            leaving.add(name)
            network.leave(name)
    network.run(60.0)
    return network, leaving


@examples(4)
@given(seed=seeds)
def test_members_come_and_leave_in_order_while_messages_are_under_way(seed: int) -> None:
    """No peer that stays misses a message or gets one twice, and all agree on the members."""
    network, leaving = churn(seed)
    assert not leaving & set(network.peers), "who was to leave has left"
    history = network.history
    assert not [(name, str(m)) for name, m in history.missing if name in network.peers]
    assert not history.broken(Order.CAUSAL)
    assert all(len(set(all_)) == len(all_) for all_ in history.delivered.values())
    members = {peer.members for peer in network.peers.values()}
    assert members == {tuple(sorted(network.peers))}
    assert len({peer.audience for peer in network.peers.values()}) == 1
    stayed = {told.name for told in network.events} - leaving
    assert not [
        told
        for told in network.events
        if told.name in stayed
        and isinstance(told.news, MemberLeft)
        and told.news.cause is Cause.SILENT
    ]


def test_a_latecomer_is_sent_to_the_first_member_and_learns_all_from_then_on() -> None:
    network = started(1, VectorSession, UsualPath(delay_s=0.01))
    network.send("bob", b"before")
    network.run(1.0)
    network.add("dan", VectorSession, (), ["cid"])
    network.ways["cid"].set_minimum_delay("ann", 0.2)
    network.send("cid", b"without dan")
    network.run(1.0)
    network.send("bob", b"after")
    network.send("dan", b"own")
    network.run(1.0)
    sent = {str(message): message.destinations for message in network.history.sent}
    assert sent["cid1"] == NAMES
    assert news(network, "dan") == ["cid1", "dan1", "bob2"]
    assert [each for each in news(network, "bob") if each[0] in "+-"] == ["+dan"]
    assert not network.history.missing
    assert network.history.twice == [("dan", network.history.sent[1])], "its sponsor passed it on"


def test_what_a_latecomer_did_not_get_directly_waits_at_its_sponsor_too() -> None:
    network = started(1, VectorSession, UsualPath(delay_s=0.01))
    network.ways["bob"].set_minimum_delay("ann", 0.5)
    network.send("bob", b"cause")
    network.run(0.1)
    network.send("cid", b"effect")  # it waits at ann for its cause
    network.run(0.1)
    network.add("dan", VectorSession, (), ["ann"])
    network.run(2.0)
    assert news(network, "dan") == ["bob1", "cid1"]


def test_what_is_sent_after_a_leave_still_waits_for_what_the_leaver_had_sent() -> None:
    network = started(1, VectorSession, UsualPath(delay_s=0.001))
    network.ways["cid"].set_minimum_delay("bob", 1.0)
    network.send("cid", b"last words")
    network.leave("cid")
    network.run(0.5)
    assert news(network, "ann") == ["cid1", "-cid left"]
    network.send("ann", b"about them")
    network.run(5.0)
    assert news(network, "bob") == ["cid1", "ann1", "-cid left"]
    assert {peer.audience for peer in network.peers.values()} == {("ann", "bob")}


def test_a_sponsor_stays_until_its_latecomer_is_known_to_all() -> None:
    network = started(1, VectorSession, UsualPath(delay_s=0.001))
    network.ways["bob"].set_minimum_delay("ann", 1.0)
    network.send("bob", b"without dan")
    network.add("dan", VectorSession, (), ["ann"])
    network.run(0.1)
    network.leave("ann")
    network.run(0.5)
    assert "ann" in network.peers
    network.run(5.0)
    assert "ann" not in network.peers
    assert news(network, "dan") == ["bob1", "-ann left"]


def test_a_minimum_delay_to_one_lets_the_effect_come_first_unless_it_waits() -> None:
    seen = {}
    for make in (FanOut, Vector):
        network = started(1, make, UsualPath(delay_s=0.001))
        network.ways["ann"].set_minimum_delay("cid", 0.5)
        network.send("ann", b"question")
        network.run(0.1)
        network.send("bob", b"answer")
        network.run(2.0)
        seen[make] = news(network, "cid")
    assert seen == {FanOut: ["bob1", "ann1"], Vector: ["ann1", "bob1"]}


def test_what_is_sent_after_a_delay_was_made_shorter_overtakes() -> None:
    network = started(1, FanOut, UsualPath(delay_s=0.001))
    network.ways["ann"].set_minimum_delay("bob", 0.05)
    network.send("ann", b"late")
    network.ways["ann"].set_minimum_delay("bob", 0.0)
    network.send("ann", b"early")
    network.run(1.0)
    assert news(network, "bob") == ["ann2", "ann1"]


def test_who_falls_silent_is_gone_and_nothing_waits_for_it() -> None:
    network = started(1, VectorSession, UsualPath(delay_s=0.001))
    network.ways["ann"].to("cid").cut()
    network.send("ann", b"only bob has it")
    network.run(0.1)
    network.send("bob", b"effect")
    network.crash("ann")
    network.run(1.0)
    assert news(network, "cid") == []
    network.run(20.0)
    assert news(network, "cid") == ["-ann silent", "bob1"]
    assert news(network, "bob") == ["ann1", "bob1", "-ann silent"]
    network.send("cid", b"on")
    network.run(1.0)
    assert news(network, "bob")[-1] == "cid1"


def test_a_fixed_group_goes_on_without_one_as_far_as_it_can() -> None:
    network = started(1, Vector, UsualPath(delay_s=0.001))
    network.leave("ann")
    network.run(1.0)
    network.send("bob", b"")
    network.run(1.0)
    assert news(network, "cid") == ["-ann left", "bob1"]


def test_stamps_that_grow_are_cut_into_parts() -> None:
    network = started(1, MessageHistory, UsualPath(delay_s=0.001, loss=0.2))
    for number in range(120):
        network.send(NAMES[number % 3], b"")
    network.run(30.0)
    assert not network.history.missing
    assert network.history.held() >= MessageHistory.claims


def test_a_run_is_the_same_for_the_same_seed() -> None:
    runs = [churn(seed)[0] for seed in (5, 5, 6)]
    assert runs[0].events == runs[1].events
    assert runs[0].datagrams == runs[1].datagrams
    assert runs[0].events != runs[2].events


def test_the_steps_of_all_peers_are_recorded() -> None:
    steps: list[AlgorithmStep] = []
    network = PeerNetwork(1, record=steps.append)
    network.add_founders(NAMES, Vector)
    network.run(1.0)
    network.ways["ann"].set_minimum_delay("cid", 0.5)
    network.send("ann", b"question")
    network.run(0.1)
    network.send("bob", b"answer")
    network.run(2.0)
    sent = [(step.p, step.s, step.m) for step in steps if isinstance(step, StampedSent)]
    assert sent == [("ann", "ann", 1), ("bob", "bob", 1)]
    (waits,) = (step for step in steps if isinstance(step, Buffered))
    assert (waits.p, waits.s, waits.waits) == ("cid", "bob", (("ann", 1),))
    assert [step.s for step in steps if isinstance(step, Given) and step.p == "cid"] == [
        "ann",
        "bob",
    ]
    times = [step.t for step in steps]
    assert times == sorted(times)
    lines = [msgspec.json.encode(step) for step in steps]
    assert [decode_event_untrusted(line) for line in lines] == steps
    assert json.loads(lines[-1])["e"] == "give"
