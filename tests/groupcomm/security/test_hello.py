"""Starts that have to prove that they are sending now, valid proofs, and the number of hellos."""

from itertools import pairwise
from typing import Final

import pytest

from groupcomm.config.view import Incarnation
from groupcomm.errors import BadDatagram
from groupcomm.security.hello import (
    BURST_EACH,
    MAX_ASKED,
    PER_S_EACH,
    REPEAT_S,
    HelloReply,
    Introductions,
    RateLimits,
)
from groupcomm.wire.hello import Hello

OWN: Final = Incarnation(7, 70)
THEIRS: Final = Incarnation(3, 30)
ALICE: Final = 1
LISTED: Final = {ALICE: "alice", 2: "bob"}


def introductions() -> Introductions:
    return Introductions(OWN, LISTED, now=0.0)


def hear(one: Introductions, hello: Hello, *, proven: bool = False, now: float = 0.0) -> HelloReply:
    return one.on_hello((ALICE, THEIRS), hello, proven=proven, now=now)


def refused(one: Introductions, hello: Hello, *, proven: bool = False) -> str:
    with pytest.raises(BadDatagram) as caught:
        hear(one, hello, proven=proven)
    return caught.value.reason


def test_a_stranger_is_asked_again_only_after_a_while() -> None:
    one = introductions()
    said = [one.on_unproven((ALICE, THEIRS), 0, at) for at in (0.0, 0.0, REPEAT_S - 1e-9, REPEAT_S)]
    assert said == [Hello(start=THEIRS, asks=1), None, None, Hello(start=THEIRS, asks=1)]


def test_who_never_answers_is_asked_ever_more_rarely() -> None:
    one, asked = introductions(), []
    for now in range(2000):
        if one.on_unproven((ALICE, THEIRS), 0, now / 1000) is not None:
            asked.append(now)
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    assert gaps == pytest.approx([20, 40, 80, 160, 320, 320, 320, 320, 320], abs=1)


def test_a_short_datagram_brings_forth_nothing() -> None:
    one = introductions()
    assert one.on_unproven((ALICE, THEIRS), -1, 0.0) is None
    assert one.on_unproven((ALICE, THEIRS), 0, 0.0) is not None


def test_who_is_not_listed_is_not_asked_and_not_answered() -> None:
    one = introductions()
    with pytest.raises(BadDatagram, match="configuration"):
        one.on_unproven((9, THEIRS), 100, 0.0)
    with pytest.raises(BadDatagram, match="configuration"):
        one.on_hello((9, THEIRS), Hello(start=OWN, asks=1), proven=False, now=0.0)


def test_a_challenge_is_answered_and_proves_its_sender_too() -> None:
    reply = hear(introductions(), Hello(start=OWN, asks=5))
    assert reply == HelloReply(trust=True, say=Hello(start=THEIRS, answers=5))


def test_an_answer_is_a_proof_and_is_not_answered() -> None:
    one = introductions()
    one.on_unproven((ALICE, THEIRS), 0, 0.0)
    assert hear(one, Hello(start=OWN, answers=1)) == HelloReply(trust=True, say=None)
    assert refused(one, Hello(start=OWN, answers=1), proven=True) == "hello"


@pytest.mark.parametrize("start", [Incarnation(7, 71), Incarnation(6, 70), Incarnation(0, 0)])
def test_a_hello_for_another_start_proves_nothing(start: Incarnation) -> None:
    """A restarted daemon has drawn another random id; what its earlier start was told is old."""
    one = introductions()
    one.on_unproven((ALICE, THEIRS), 0, 0.0)
    assert refused(one, Hello(start=start, asks=5, answers=1)) == "hello"


def test_once_windows_were_forgotten_only_the_answer_asked_for_is_a_proof() -> None:
    """A copy of the first proof would begin the windows where they had been."""
    one = introductions()
    one.forgot = True
    assert refused(one, Hello(start=OWN, answers=1)) == "hello"
    reply = hear(one, Hello(start=OWN, asks=5))
    assert reply == HelloReply(trust=False, say=Hello(start=THEIRS, asks=1, answers=5))
    assert refused(one, Hello(start=OWN, answers=2)) == "hello"
    assert hear(one, Hello(start=OWN, answers=1)) == HelloReply(trust=True, say=None)
    assert refused(one, Hello(start=OWN, answers=1)) == "hello"


def test_numbers_of_challenges_do_not_repeat_and_few_are_open() -> None:
    one, asked = introductions(), []
    for start in range(3 * MAX_ASKED):
        hello = one.on_unproven((ALICE, Incarnation(start, 1)), 0, float(start))
        assert hello is not None
        asked.append(hello.asks)
    assert asked == list(range(1, 3 * MAX_ASKED + 1))
    assert len(one._asked[ALICE]) == MAX_ASKED


def test_a_daemon_gets_few_answers_whatever_comes_under_its_name() -> None:
    one, challenges, answers = introductions(), 0, 0
    for count in range(10_000):
        start = ALICE, Incarnation(count % 50, 1)
        challenges += one.on_unproven(start, 100, count * 1e-4) is not None
        reply = one.on_hello(start, Hello(start=OWN, asks=1), proven=True, now=count * 1e-4)
        answers += reply.say is not None
    for said in (challenges, answers):
        assert BURST_EACH <= said <= BURST_EACH + PER_S_EACH
    assert one.on_unproven((2, THEIRS), 100, 1.0) is not None, "others have their own share"


def test_copies_of_earlier_starts_do_not_keep_a_daemon_from_coming_back() -> None:
    """600 copies a second under Alice's name; each 20 ms she asks, as a start that is new here."""
    one, answered = introductions(), 0
    for count in range(600):
        now = count / 600
        one.on_unproven((ALICE, Incarnation(count % 40, 1)), 100, now)
        if count % 12 == 0:
            reply = hear(one, Hello(start=OWN, asks=1 + count), now=now)
            answered += reply.say is not None
    assert answered == 50


def test_copies_of_earlier_starts_do_not_drive_out_a_challenge_under_way() -> None:
    """Once windows were forgotten only the answer to a challenge counts, 200 ms later here."""
    one = introductions()
    one.forgot = True
    reply = hear(one, Hello(start=OWN, asks=1))
    assert reply.say is not None
    for count in range(120):
        one.on_unproven((ALICE, Incarnation(100 + count, 1)), 100, count / 600)
    assert hear(one, Hello(start=OWN, answers=reply.say.asks), now=0.2).trust


def test_allowances_fill_up_again_and_no_further() -> None:
    allowances = RateLimits(0.0)
    assert [allowances.spend(1, 0.0) for _ in range(BURST_EACH + 1)] == [True] * BURST_EACH + [
        False
    ]
    assert allowances.spend(1, 1 / PER_S_EACH)
    assert not allowances.spend(1, 1 / PER_S_EACH)
    assert [allowances.spend(1, 1e6) for _ in range(BURST_EACH + 1)].count(True) == BURST_EACH
