"""Daemons give each other secrets: all get them, nobody else does, old ones are gone."""

import random
from contextlib import suppress
from itertools import combinations, permutations
from typing import Final

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.config.view import Incarnation
from groupcomm.errors import BadDatagram
from groupcomm.security.exchange import MAX_TRIES, MAX_WAITS, Exchange
from groupcomm.security.identity import StartId
from groupcomm.wire.hello import FOR_BYTES, NO_WRAP, Hello, Introduction

CLUSTER: Final = 7
STARTS: Final[tuple[StartId, ...]] = tuple((n, Incarnation(1, 10 * n)) for n in range(1, 5))
A, B, C, D = STARTS
FIRST_VIEW: Final = b"v" * 16
SECOND_VIEW: Final = b"w" * 16


class Group:
    """Exchanges of some starts, and the introductions that are under way between them."""

    def __init__(self, starts: tuple[StartId, ...], seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.of = {
            start: Exchange(start, CLUSTER, random.Random(f"{seed}/{start}").randbytes)
            for start in starts
        }
        self.said: list[tuple[StartId, StartId, Introduction]] = []  # all introductions ever
        self.way: list[tuple[StartId, StartId, Introduction]] = []

    def say(self, sender: StartId, receiver: StartId) -> None:
        told = self.of[sender].introduce(receiver, Hello(start=receiver[1]), self.now)
        self.said.append((sender, receiver, told))
        self.way.append((sender, receiver, told))

    def meet(self) -> None:
        """Each has proved to each other who it is."""
        for one, other in combinations(self.of, 2):
            self.say(one, other)
        self.run()

    def begin(self, view: bytes, *members: StartId) -> None:
        for member in members or tuple(self.of):
            self.of[member].begin(view, members or tuple(self.of), self.now)

    def step(self, loss: float) -> None:
        way, self.way = self.way, []
        self.rng.shuffle(way)
        for sender, receiver, told in way:
            if self.rng.random() < loss or receiver not in self.of:
                continue
            if self.of[receiver].receive(sender, told, self.now):
                self.say(receiver, sender)
            self.of[receiver].settle()
        for start, one in self.of.items():
            if self.now >= one.next_at:
                for other in one.due(self.now):
                    self.say(start, other)
            one.settle()

    def run(self, seconds: float = 1.0, loss: float = 0.0) -> None:
        until = self.now + seconds
        while self.now < until:
            self.step(loss)
            self.now += 0.005

    def agree(self) -> bool:
        """Return whether every daemon can open the seals of all others."""
        return all(
            self.of[a].secret_of(b, self.of[b].sealing) == self.of[b].secret
            for a in self.of
            for b in self.of
            if a != b
        )


def test_two_that_meet_have_each_others_secrets() -> None:
    group = Group((A, B))
    group.meet()
    assert group.agree()
    assert group.of[A].has(B)
    assert group.of[A].secret != group.of[B].secret
    quiet = len(group.said)
    group.run(2.0)
    assert len(group.said) == quiet, "nothing is left to say"


def test_a_view_brings_new_secrets_and_the_old_ones_seal_until_all_have_them() -> None:
    group = Group((A, B, C))
    group.meet()
    old = group.of[A].secret
    group.begin(FIRST_VIEW)
    assert group.of[A].secret == old
    assert group.of[A].awaited == [B, C]
    group.run()
    assert group.of[A].awaited == []
    assert group.of[A].secret != old
    assert [one.sealing for one in group.of.values()] == [2, 2, 2]
    assert group.agree()


@given(seed=st.integers(0, 2**32), loss=st.floats(0, 0.3))
def test_whatever_is_lost_all_have_all_in_the_end(seed: int, loss: float) -> None:
    """Views that overtake each other, with other members, while introductions are on their way."""
    group = Group(STARTS, seed)
    group.meet()
    for number in range(group.rng.randint(1, 4)):
        members = group.rng.sample(STARTS, group.rng.randint(1, 4))
        group.begin(bytes([number] * 16), *members)
        group.run(group.rng.choice((0.0, 0.01, 0.05)), loss)
    group.begin(SECOND_VIEW)
    group.run(6.0, loss)
    assert group.agree()
    assert all(one.awaited == [] for one in group.of.values())


def test_who_does_not_answer_is_not_waited_for_in_the_next_view_nor_for_ever() -> None:
    group = Group((A, B, C))
    group.meet()
    del group.of[C]  # C hears nothing any more
    group.of[A].begin(FIRST_VIEW, (A, B, C), group.now)
    group.of[B].begin(FIRST_VIEW, (A, B, C), group.now)
    group.run(1.0)
    assert group.of[A].awaited == [C]
    assert group.of[A].sealing == 1
    group.run(10.0)
    assert group.of[A].sealing == 2
    told = [receiver for sender, receiver, _ in group.said if sender == A]
    assert told.count(C) <= MAX_WAITS + 2


def test_strangers_to_the_view_are_not_notified_for_ever() -> None:
    group = Group((A, B))
    group.say(A, B)
    (_, _, told) = group.way.pop()
    group.of[B].receive(A, told, 0.0)
    for _ in range(100):
        group.now += 1.0
        for other in group.of[B].due(group.now):
            group.say(other if other == B else B, A)
    assert len(group.said) - 1 <= MAX_TRIES


def wraps(group: Group, since: int = 0) -> list[tuple[StartId, StartId, Introduction]]:
    return [each for each in group.said[since:] if each[2].wrap != NO_WRAP]


def test_nothing_is_wrapped_for_keys_of_an_earlier_view() -> None:
    """Healing: an intruder who has copied all that A has is a stranger in the next view."""
    group = Group((A, B, C))
    group.meet()
    group.begin(FIRST_VIEW)
    group.run()
    known = {told.public[:FOR_BYTES] for _, _, told in group.said}
    before = len(group.said)
    group.begin(SECOND_VIEW)
    group.run()
    later = wraps(group, before)
    assert {(sender, receiver) for sender, receiver, _ in later} == set(permutations((A, B, C), 2))
    assert not known & {told.wrapped_for for _, _, told in later}


def test_what_a_daemon_has_does_not_open_what_it_got_before() -> None:
    """Forward secrecy: of all that was heard, with all that daemons have one view later."""
    group = Group((A, B, C))
    group.meet()
    group.begin(FIRST_VIEW)
    group.run()
    old = wraps(group)
    group.begin(SECOND_VIEW)
    group.run()
    for sender, receiver, told in old:
        group.of[receiver].forget(sender)  # it does not open these introductions twice
        for mine in {told.public[:FOR_BYTES] for who, _, told in group.said if who == receiver}:
            with suppress(BadDatagram):
                group.of[receiver].receive(sender, attrs.evolve(told, wrapped_for=mine), group.now)
        assert not any(group.of[receiver].secret_of(sender, number) for number in range(9))


def test_old_secrets_are_erased_and_do_not_come_again() -> None:
    group = Group((A, B))
    group.meet()
    group.begin(FIRST_VIEW)
    group.run()
    assert group.of[A].secret_of(B, 1) is not None
    group.of[A].erase_before(B, 2)
    assert group.of[A].secret_of(B, 1) is None
    for sender, receiver, told in group.said:
        if receiver == A:
            group.of[A].receive(sender, told, group.now)
    assert group.of[A].secret_of(B, 1) is None
    assert group.of[A].secret_of(B, 2) == group.of[B].secret


def test_with_one_key_one_text_is_sealed() -> None:
    """Else a nonce would come twice with a key: introductions that are repeated are alike."""
    group = Group(STARTS)
    group.meet()
    for number in range(3):
        group.begin(bytes([number] * 16))
        group.run(0.5, loss=0.5)
        for one, other in permutations(STARTS, 2):  # a clone was heard, then the daemon again
            group.of[one].forget(other)
            group.say(other, one)
        group.run(0.5)
    texts: dict[tuple[StartId, StartId, bytes, bytes], set[bytes]] = {}
    for sender, receiver, told in wraps(group):
        place = sender, receiver, told.public, told.wrapped_for
        texts.setdefault(place, set()).add(told.wrap)
    assert len(texts) > 12
    assert all(len(each) == 1 for each in texts.values())


def test_secrets_that_do_not_open_are_refused() -> None:
    group = Group((A, B))
    group.meet()
    told = next(told for sender, _, told in wraps(group) if sender == B)
    bad = told.wrap[:-1] + bytes([told.wrap[-1] ^ 1])
    for public in (told.public, bytes(32)):
        with pytest.raises(BadDatagram, match="do not open"):
            group.of[A].receive(B, attrs.evolve(told, wrap=bad, public=public), 0.0)


def test_who_tells_a_key_that_shares_nothing_gets_nothing() -> None:
    """Found by the fuzzer: a daemon that signs it would have ended all others."""
    group = Group((A, B))
    group.meet()
    told = attrs.evolve(group.said[-1][2], pair=99, public=bytes(32), wrap=NO_WRAP)
    group.of[A].receive(B, told, 0.0)
    assert group.of[A].introduce(B, Hello(start=B[1]), 0.0).wrap == NO_WRAP


def test_an_older_introduction_takes_nothing_back() -> None:
    group = Group((A, B))
    group.meet()
    group.begin(FIRST_VIEW)
    group.run()
    public, has = group.of[A]._peers[B].public, group.of[A]._peers[B].has
    for _, receiver, told in group.said:
        if receiver == A and told.public != public:
            group.of[A].receive(B, told, group.now)
    assert (group.of[A]._peers[B].public, group.of[A]._peers[B].has) == (public, has)


def test_who_is_evicted_gets_nothing_more() -> None:
    group = Group((A, B, C))
    group.meet()
    group.begin(FIRST_VIEW)
    group.run()
    known, before = group.of[A].secret, len(group.said)
    for one in (A, B):
        group.of[one].evict(C[0], group.now)
    group.run()
    assert group.of[A].secret != known
    assert group.of[B].secret_of(A, group.of[A].sealing) == group.of[A].secret
    assert not [told for _, receiver, told in group.said[before:] if receiver == C]
