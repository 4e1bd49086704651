"""Who is answered by an archive: those that the rules of its daemon allow to read history."""

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_archive import rights as machine
from groupcomm_archive.rights import LIFE_S, Rights
from groupcomm_client.history.frames import (
    ARCHIVES,
    HEAD,
    Find,
    Frame,
    More,
    Read,
    decode_untrusted,
    encode,
)
from groupcomm_client.history.refusals import Refusal, is_refusal

ME, ANN, BOB = MemberId("#archive#x", 1), MemberId("#ann#a", 1), MemberId("#bob#b", 1)
OF_ANN, OF_BOB = "unix:ann", "token:bob"


def message(frame: Frame, sender: MemberId = ANN, principal: str | None = OF_ANN) -> Message:
    at = Position(ViewId(1, "a", 1), 1, 0, 0, 0)
    return Message(
        *(sender, 1, (ARCHIVES,), ServiceLevel.FIFO, 0, encode(frame), at), principal=principal
    )


def refusals(rights: Rights) -> list[tuple[str, object]]:
    return [(action.to, decode_untrusted(action.data)) for action in rights.pop_actions()]


def test_a_request_waits_for_the_decision_and_the_next_one_does_not() -> None:
    rights = Rights(ME)
    find = message(Find(1, ("g", "h")))
    assert not rights.admit(find, 0.0)
    pairs = rights.questions(0.0)
    assert pairs == [(OF_ANN, "g"), (OF_ANN, "h")]
    assert rights.questions(0.0) == [], "it is asked once"
    assert rights.decide([(pairs[0], True)], 0.1) == []
    assert rights.decide([(pairs[1], True)], 0.1) == [find]
    assert rights.admit(message(Find(2, ("h",))), LIFE_S)
    assert not rights.admit(message(Find(3, ("h",))), LIFE_S + 0.1), "rules may have changed"


def test_a_refusal_names_the_group_the_owner_and_the_daemon() -> None:
    rights = Rights(ME)
    rights.admit(message(Find(7, ("g", "h"))), 0.0)
    rights.questions(0.0)
    assert rights.decide([((OF_ANN, "g"), True), ((OF_ANN, "h"), False)], 0.0) == []
    refusal = Refusal(7, "h", OF_ANN, "x")
    assert refusals(rights) == [(ANN.name, refusal)]
    error = refusal.error
    assert (error.verb, error.group, error.principal) == ("read-history", "h", OF_ANN)
    assert "no rule of daemon x allows read-history" in str(error)
    assert is_refusal(encode(refusal), HEAD)
    assert not is_refusal(encode(Find(40, ("g",))), HEAD)


def test_one_who_is_refused_does_not_keep_others_from_reading() -> None:
    rights = Rights(ME)
    rights.admit(message(Read(1, ("g",), None, None, 4)), 0.0)
    theirs = message(Read(1, ("g",), None, None, 4), BOB, OF_BOB)
    rights.admit(theirs, 0.0)
    rights.questions(0.0)
    assert rights.decide([((OF_ANN, "g"), False), ((OF_BOB, "g"), True)], 0.0) == [theirs]


def test_a_stream_ends_when_its_reader_may_not_read_any_more() -> None:
    rights = Rights(ME)
    rights.admit(message(Read(4, ("g",), None, None, 4)), 0.0)
    rights.questions(0.0)
    assert len(rights.decide([((OF_ANN, "g"), True)], 0.0)) == 1
    assert rights.questions(LIFE_S) == [(OF_ANN, "g")]
    rights.decide([((OF_ANN, "g"), False)], LIFE_S)
    assert rights.ended == [(ANN, 4)]
    assert refusals(rights) == [(ANN.name, Refusal(4, "g", OF_ANN, "x"))]
    assert rights.questions(2 * LIFE_S) == []


def test_a_stream_that_is_over_is_not_asked_for() -> None:
    rights = Rights(ME)
    rights.admit(message(Read(4, ("g",), None, None, 4)), 0.0)
    rights.questions(0.0)
    rights.decide([((OF_ANN, "g"), True)], 0.0)
    rights.keep([])
    assert rights.questions(LIFE_S) == []


def test_a_session_that_the_daemon_does_not_know_yet_gets_no_answer() -> None:
    """Its owner is unknown below AGREED for a moment; the program asks again."""
    rights = Rights(ME)
    for principal in ("", None):
        assert not rights.admit(message(Find(1, ("g",)), principal=principal), 0.0)
    assert rights.questions(0.0) == [("", "g")]
    assert rights.decide([(("", "g"), False)], 0.0) == []
    assert refusals(rights) == []


def test_other_messages_and_own_ones_go_on() -> None:
    rights = Rights(ME)
    assert rights.admit(message(More(1, 4)), 0.0)
    assert rights.admit(message(Find(1, ("g",)), ME), 0.0)
    assert rights.questions(0.0) == []


def test_few_requests_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_HELD", 2)
    monkeypatch.setattr(machine, "MOST_KNOWN", 1)
    rights = Rights(ME)
    for number in range(4):
        rights.admit(message(Find(number, ("g",))), 0.0)
    rights.questions(0.0)
    assert len(rights.decide([((OF_ANN, "g"), True)], 0.0)) == 2
    rights.admit(message(Find(1, ("h",))), 0.0)
    rights.decide([(pair, True) for pair in rights.questions(0.0)], 0.0)
    rights.admit(message(Find(1, ("i",))), 0.0)
    rights.decide([(pair, True) for pair in rights.questions(0.0)], 0.0)
    assert not rights.admit(message(Find(1, ("g",))), 0.0), "decisions are forgotten"


@pytest.mark.parametrize("name", ["", "#ann#a", "a\0b", "x" * 256])
def test_a_request_for_what_is_no_group_is_dropped(name: str) -> None:
    """An archive with a pattern would try to join it."""
    rights = Rights(ME)
    assert not rights.admit(message(Find(1, ("g", name))), 0.0)
    assert not rights.admit(message(Read(2, (name,), None, None, 1)), 0.0)
    assert rights.questions(0.0) == []
