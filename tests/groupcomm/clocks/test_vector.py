"""Vector clocks: causal delivery in any order of arrival; comparing is happens-before."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.vector import LARGEST_COUNT, Relation, VectorClock
from groupcomm.errors import LocalProtocolError

Vector = VectorClock[str]
Stamped = tuple[str, Vector]  # sender and stamp of a broadcast

EDGES = [2**31, 2**32, 2**63]


def vector(**counts: int) -> Vector:
    made: Vector = VectorClock()
    for member, count in counts.items():
        made.add(member, count)
    return made


class Process:
    """Broadcasts, and delivers the next messages; `attach` makes the stamp of a message."""

    def __init__(self, name: str, members: str, attach: Callable[[Vector], Vector]) -> None:
        self.name = name
        self.clock: Vector = VectorClock(members)
        self.attach = attach
        self.buffer: list[Stamped] = []
        self.delivered: list[Stamped] = []

    def broadcast(self) -> Stamped:
        self.clock.tick(self.name)
        return self.name, self.attach(self.clock)

    def receive(self, message: Stamped) -> None:
        self.buffer.append(message)
        while ready := [one for one in self.buffer if self.clock.deliverable(one[1], one[0])]:
            self.buffer.remove(ready[0])
            self.clock.tick(ready[0][0])
            self.delivered.append(ready[0])


def delayed_send(attach: Callable[[Vector], Vector]) -> int:
    """p broadcasts twice before the first message leaves; return the number that q delivers."""
    p, q = Process("p", "pq", attach), Process("q", "pq", attach)
    waiting = [p.broadcast(), p.broadcast()]
    for message in waiting:
        q.receive(message)
    return len(q.delivered)


def test_a_message_carries_a_copy_of_the_vector() -> None:
    """With the live vector, the first message claims to be the second, and q waits for ever."""
    assert delayed_send(lambda clock: clock.copy()) == 2
    assert delayed_send(lambda clock: clock) == 0


def test_an_effect_waits_for_its_cause() -> None:
    p, q, r = (Process(name, "pqr", Vector.copy) for name in "pqr")
    cause = p.broadcast()
    q.receive(cause)
    effect = q.broadcast()
    r.receive(effect)
    assert r.delivered == []
    r.receive(cause)
    assert r.delivered == [cause, effect]


def test_one_vector_has_many_successors() -> None:
    here = vector(p=3, q=5)
    assert here.deliverable(vector(p=4, q=5), "p")
    assert here.deliverable(vector(p=0, q=6), "q")
    assert not here.deliverable(vector(p=5, q=5), "p")  # a gap
    assert not here.deliverable(vector(p=3, q=5), "p")  # a copy
    assert not here.deliverable(vector(p=4, q=6), "p")  # a cause is missing


@pytest.mark.parametrize("edge", EDGES)
def test_counts_are_compared_by_value_near_the_edges(edge: int) -> None:
    here = vector(p=edge - 1, q=edge)
    assert here.deliverable(vector(p=edge, q=edge), "p")
    assert not here.deliverable(vector(p=0, q=edge), "p")
    assert not here.deliverable(vector(p=edge, q=edge + 1), "p")
    assert here.compare(vector(p=edge, q=edge)) is Relation.BEFORE
    assert here.compare(vector(p=0, q=0)) is Relation.AFTER
    assert here.compare(vector(p=0, q=2**64 - 1)) is Relation.CONCURRENT
    assert here.tick("p") == edge
    here.merge(vector(p=0, q=2**64 - 2))
    assert (here["p"], here["q"]) == (edge, 2**64 - 2)


COUNTS = st.dictionaries(st.sampled_from("pqrs"), st.integers(0, 3))


@given(first=COUNTS, second=COUNTS)
def test_compare_is_the_definition(first: dict[str, int], second: dict[str, int]) -> None:
    """v < w: every component at most, and one less."""
    pairs = [(first.get(one, 0), second.get(one, 0)) for one in "pqrs"]
    at_most, at_least = all(a <= b for a, b in pairs), all(a >= b for a, b in pairs)
    expected = {
        (True, True): Relation.EQUAL,
        (True, False): Relation.BEFORE,
        (False, True): Relation.AFTER,
        (False, False): Relation.CONCURRENT,
    }[at_most, at_least]
    assert vector(**first).compare(vector(**second)) is expected


@given(data=st.data(), steps=st.lists(st.sampled_from("pqr"), max_size=12))
def test_broadcasts_are_delivered_causally_in_any_order(
    data: st.DataObject, steps: list[str]
) -> None:
    """All of them, causes first; and stamps compare as the messages caused each other."""
    processes = {name: Process(name, "pqr", Vector.copy) for name in "pqr"}
    under_way: list[tuple[str, Stamped]] = []  # receiver and message
    causes: dict[int, set[int]] = {}  # the causes of each stamp, by the identity of the stamp
    known: dict[str, set[int]] = {name: set() for name in "pqr"}

    def hand_over(index: int) -> None:
        name, message = under_way.pop(index)
        process = processes[name]
        process.receive(message)
        for _, stamp in process.delivered:
            assert causes[id(stamp)] <= known[name]
            known[name].add(id(stamp))

    stamps: list[Vector] = []
    for name in steps:
        message = processes[name].broadcast()
        stamps.append(message[1])
        causes[id(message[1])] = known[name].copy()
        known[name].add(id(message[1]))
        under_way += [(other, message) for other in "pqr" if other != name]
        for _ in range(data.draw(st.integers(0, min(3, len(under_way))))):
            hand_over(data.draw(st.integers(0, len(under_way) - 1)))
    while under_way:
        hand_over(data.draw(st.integers(0, len(under_way) - 1)))
    assert all(not process.buffer for process in processes.values())
    for first, second in itertools.permutations(stamps, 2):
        before = first.compare(second) is Relation.BEFORE
        assert before == (id(first) in causes[id(second)])


def test_nobody_waits_for_a_member_that_left() -> None:
    here = vector(p=1, q=1, r=1)
    stamp = vector(p=2, q=1, r=9)  # r's last broadcasts have not arrived here
    assert not here.deliverable(stamp, "p")
    here.drop("r")
    assert here.deliverable(stamp, "p")
    here.merge(stamp)
    assert "r" not in here


def test_a_message_of_nobody_known_waits_for_the_join() -> None:
    here, stamp = vector(p=1), vector(p=1, q=5)
    assert not here.deliverable(stamp, "q")
    here.add("q", 4)
    assert here.deliverable(stamp, "q")


def test_a_latecomer_with_the_current_vector_goes_on_from_there() -> None:
    p = Process("p", "pq", Vector.copy)
    p.broadcast()
    latecomer = p.clock.copy()
    latecomer.add("r")
    name, stamp = p.broadcast()
    assert latecomer.deliverable(stamp, name)


def test_members_are_checked() -> None:
    here = vector(p=1)
    with pytest.raises(LocalProtocolError, match="'p' is a member already"):
        here.add("p")
    with pytest.raises(LocalProtocolError, match="'q' is no member"):
        here.drop("q")
    with pytest.raises(LocalProtocolError, match="'q' is no member"):
        here.tick("q")


def test_a_count_that_64_bits_cannot_hold_is_refused() -> None:
    clock = VectorClock[str]()
    clock.add("p", LARGEST_COUNT - 1)
    assert clock.tick("p") == LARGEST_COUNT
    with pytest.raises(LocalProtocolError, match="64 bits hold no more"):
        clock.tick("p")
    with pytest.raises(LocalProtocolError, match=r"is -1; pass 0 to"):
        clock.add("q", -1)
    assert clock["p"] == LARGEST_COUNT
