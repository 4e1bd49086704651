"""One replica, step by step: its messages, and the times at which its answers are certain."""

from collections.abc import Sequence

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, GroupView, MemberId, Message, Transition
from groupcomm.level import ServiceLevel
from groupcomm_client.coordination.replica import Action, Done, Replica, Send, Status, Unknown
from groupcomm_client.coordination.replica_messages import (
    Claim,
    Command,
    ReplicaMessage,
    Snapshot,
    decode_untrusted,
    encode,
)

A, B, C = (MemberId(f"#{name}#d", 1) for name in "abc")
FIRST, SECOND = ViewId(1, "d", 1), ViewId(2, "d", 1)


class Text:
    """A machine that keeps its commands."""

    def __init__(self) -> None:
        self.text = b""

    def apply(self, command: bytes, sender: MemberId) -> object:
        self.text += command
        return len(self.text)

    def members_changed(self, members: tuple[MemberId, ...]) -> None:
        """They do not matter here."""

    def snapshot(self) -> bytes:
        return self.text

    def restore(self, state: bytes) -> None:
        self.text = state


def at(time: int, view: ViewId = FIRST) -> Position:
    return Position(view, time, 0, 0, 0)


def view(
    place: Position,
    members: Sequence[MemberId],
    cause: Cause,
    *,
    together: Sequence[MemberId] = (),
) -> GroupView:
    return GroupView(
        group="g",
        id=place,
        members=tuple(members),
        cause=cause,
        changed=(),
        vs_set=tuple(together or members),
        own=False,
    )


def message(sender: MemberId, what: ReplicaMessage, place: Position) -> Message:
    return Message(
        sender=sender,
        number=1,
        groups=("g",),
        level=ServiceLevel.AGREED,
        type=0,
        data=encode(what),
        bundle=place,
    )


def said(actions: Sequence[Action]) -> list[ReplicaMessage]:
    found = [decode_untrusted(action.data) for action in actions if isinstance(action, Send)]
    return [each for each in found if each is not None]


def founded(me: MemberId, *, replicas: int | None = None) -> tuple[Replica, Text]:
    """A replica in a group of A and B that have one state, up to date since place 3."""
    text = Text()
    replica = Replica(me, "g", text, replicas=replicas)
    replica.handle(view(at(1), [A], Cause.JOIN) if me == A else view(at(2), [A, B], Cause.JOIN))
    if me == A:
        replica.handle(message(A, Claim(at(1), (A,), None), at(1)))
        replica.handle(view(at(2), [A, B], Cause.JOIN, together=[A]))
    snapshot = Snapshot(at(2), (A, B), b"")
    replica.handle(message(A, snapshot, at(3)))
    assert replica.status is Status.CURRENT
    assert replica.holders == {A, B}
    return replica, text


def test_the_first_member_founds_the_state() -> None:
    replica = Replica(A, "g", Text())
    claims = said(replica.handle(view(at(1), [A], Cause.JOIN)))
    assert claims == [Claim(at(1), (A,), None)]
    replica.handle(message(A, claims[0], at(2)))
    assert replica.has_quorum


def test_with_a_number_of_replicas_all_must_be_there_to_found_it() -> None:
    replica = Replica(A, "g", Text(), replicas=2)
    (claim,) = said(replica.handle(view(at(1), [A], Cause.JOIN)))
    replica.handle(message(A, claim, at(2)))
    assert replica.status is Status.SETTLING
    (again,) = said(replica.handle(view(at(3), [A, B], Cause.JOIN, together=[A])))
    assert again == Claim(at(3), (A,), None)
    replica.handle(message(A, again, at(4)))
    (snapshot,) = said(replica.handle(message(B, Claim(at(3), (B,), None), at(5))))
    assert snapshot == Snapshot(at(5), (A, B), b"")
    assert not replica.has_quorum  # until B has it
    replica.handle(message(A, snapshot, at(6)))
    assert replica.has_quorum


def test_who_joins_gets_the_state_as_of_its_join_and_what_came_after_it() -> None:
    first, _ = founded(A)
    first.handle(message(B, Command(1, b"x"), at(4)))
    joins = view(at(5), [A, B, C], Cause.JOIN, together=[A, B])
    (snapshot,) = said(first.handle(joins))
    assert snapshot == Snapshot(at(5), (A, B, C), b"x")
    text = Text()
    joiner = Replica(C, "g", text)
    joiner.handle(view(at(5), [A, B, C], Cause.JOIN, together=[C]))
    joiner.handle(message(B, Command(2, b"y"), at(6)))
    joiner.handle(message(A, snapshot, at(7)))
    joiner.handle(message(B, Command(3, b"z"), at(8)))
    assert text.text == b"xyz"


def test_the_next_one_sends_the_state_when_the_first_has_gone() -> None:
    second, _ = founded(B)
    assert said(second.handle(view(at(5), [A, B, C], Cause.JOIN, together=[A, B]))) == []
    gone = view(at(6), [B, C], Cause.DISCONNECT)
    assert said(second.handle(gone)) == [Snapshot(at(6), (B, C), b"")]


def test_a_snapshot_of_an_earlier_view_of_daemons_brings_nobody_up_to_date() -> None:
    replica, _ = founded(A, replicas=3)
    replica.handle(view(at(0, SECOND), [A, B, C], Cause.NETWORK, together=[A, B]))
    replica.handle(message(B, Snapshot(at(9), (A, B, C), b""), at(1, SECOND)))
    assert replica.holders == {A, B}


def test_an_answer_after_the_network_fell_apart_waits_for_the_next_view() -> None:
    replica, _ = founded(A)
    number, _ = replica.command(b"x")
    replica.handle(Transition(FIRST))
    assert replica.handle(message(A, Command(number, b"x"), at(4))) == []
    same = view(at(0, SECOND), [A, B], Cause.NETWORK)
    assert replica.handle(same) == [Done(number, 1)]


def test_an_answer_is_unknown_if_another_state_wins() -> None:
    replica, text = founded(A)
    number, _ = replica.command(b"x")
    replica.handle(Transition(FIRST))
    replica.handle(message(A, Command(number, b"x"), at(4)))
    met = view(at(0, SECOND), [A, B, C], Cause.NETWORK, together=[A])
    assert said(replica.handle(met)) == [Claim(at(0, SECOND), (A,), at(4))]
    winner = Snapshot(at(1, SECOND), (A, B, C), b"other")
    assert replica.handle(message(B, winner, at(2, SECOND))) == [Unknown(number)]
    assert text.text == b"other"


def test_a_minority_waits() -> None:
    replica, _ = founded(A, replicas=3)
    replica.handle(view(at(0, SECOND), [A], Cause.NETWORK))
    assert replica.status is Status.SETTLING
    replica.handle(message(A, Claim(at(0, SECOND), (A,), at(3)), at(1, SECOND)))
    assert replica.status is Status.SETTLING


def test_what_others_put_into_the_group_changes_nothing() -> None:
    replica, text = founded(A)
    for data in (b"", b"\x93", b"\x93\xa2do\x01", b"\xff" * 40, b"\x93\xa2xx\x01\xc4\x01x"):
        junk = Message(
            sender=C,
            number=1,
            groups=("g",),
            level=ServiceLevel.AGREED,
            type=0,
            data=data,
            bundle=at(9),
        )
        assert replica.handle(junk) == []
    assert text.text == b""


def test_what_somebody_outside_of_the_group_says_as_a_replica_is_not_believed() -> None:
    """Else a state without holders would end all of them at the next view."""
    for me in (A, B):
        replica, text = founded(me)
        before = replica.holders
        for what in (
            Snapshot(at(4), (), b"lie"),
            Snapshot(at(4), (C,), b"lie"),
            Claim(at(2), (A, B), at(9)),
            Command(1, b"lie"),
        ):
            assert replica.handle(message(C, what, at(5))) == []
        assert (replica.holders, replica.status, text.text) == (before, Status.CURRENT, b"")
        replica.handle(view(at(6), [A, B, C], Cause.JOIN, together=[A, B]))
