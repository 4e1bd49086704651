"""The forms of the mutex, message by message, where the simulator seldom goes."""

from collections.abc import Sequence

import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message, Transition
from groupcomm.level import ServiceLevel
from groupcomm_client.coordination.confirming import Confirmation
from groupcomm_client.coordination.mutex.acknowledged import AcknowledgedForm
from groupcomm_client.coordination.mutex.agreed import AgreedForm
from groupcomm_client.coordination.mutex.form import Form, Send
from groupcomm_client.coordination.mutex.lamport import LamportForm

A, B, C = (MemberId(f"#{name}#d", 1) for name in "abc")


class Room:
    """Members whose messages are delivered one by one, in the order in which they were sent."""

    def __init__(self, make: type[AcknowledgedForm | AgreedForm | LamportForm]) -> None:
        self.make = make
        self.forms: dict[MemberId, Form] = {}
        self.under_way: list[tuple[MemberId, Send]] = []
        self.time = 0
        self.view_number = 1

    def place(self) -> Position:
        self.time += 1
        return Position(ViewId(self.view_number, "d", 1), self.time, 0, 0, 0)

    def sent(self, sender: MemberId, sends: Sequence[Send]) -> None:
        self.under_way += [(sender, send) for send in sends]

    def view(
        self,
        members: Sequence[MemberId],
        together: Sequence[MemberId],
        cause: Cause = Cause.NETWORK,
    ) -> None:
        """A new view; members not in `together` come from elsewhere, each alone."""
        place = self.place()
        for member in members:
            form = self.forms.setdefault(member, self.make(member, "g"))
            view = GroupView(
                group="g",
                id=place,
                members=tuple(members),
                cause=cause,
                changed=(),
                vs_set=tuple(together) if member in together else (member,),
                own=False,
            )
            self.sent(member, form.handle(view))

    def deliver(self, count: int = 10_000) -> None:
        """The next messages arrive everywhere."""
        while self.under_way and count:
            count -= 1
            sender, send = self.under_way.pop(0)
            message = Message(
                sender=sender,
                number=1,
                groups=("g",) if send.to is None else (send.to.name,),
                level=send.level,
                type=0,
                data=send.data,
                bundle=self.place(),
            )
            for member in self.forms if send.to is None else (send.to,):
                self.sent(member, self.forms[member].handle(message))

    def request(self, *members: MemberId) -> None:
        for member in members:
            self.sent(member, self.forms[member].request())

    def release(self, *members: MemberId) -> None:
        for member in members:
            self.sent(member, self.forms[member].release())

    @property
    def holders(self) -> list[MemberId]:
        return [member for member, form in self.forms.items() if form.holds]


@pytest.fixture(params=[AcknowledgedForm, AgreedForm, LamportForm])
def room(request: pytest.FixtureRequest) -> Room:
    """A and B, which know each other."""
    found = Room(request.param)
    for members in ([A], [A, B]):
        found.view(members, members[:1] if len(members) > 1 else members)
        found.deliver()
    return found


def test_grants_follow_the_requests(room: Room) -> None:
    room.request(A)
    room.deliver()
    room.request(B)
    room.deliver()
    assert room.holders == [A]
    assert {form.queue for form in room.forms.values()} == {(A, B)}
    room.release(A)
    room.deliver()
    assert room.holders == [B]


def test_who_asks_again_at_once_comes_after_the_others(room: Room) -> None:
    room.request(A)
    room.deliver()
    room.request(B)
    room.deliver()
    room.release(A)
    room.request(A)
    assert room.holders == []
    room.deliver()
    assert room.holders == [B]


def test_who_comes_waits_for_the_holder(room: Room) -> None:
    room.request(A)
    room.deliver()
    room.view([A, B, C], [A, B])
    room.request(C)
    for _ in range(50):
        room.deliver(1)
        assert room.holders == [A]
    room.release(A)
    room.deliver()
    assert room.holders == [C]


def test_a_release_under_way_when_somebody_comes_is_a_release(room: Room) -> None:
    room.request(A)
    room.deliver()
    room.release(A)
    room.view([A, B, C], [A, B])
    room.request(C)
    room.deliver()
    assert room.holders == [C]
    assert {form.queue for form in room.forms.values()} == {(C,)}


def test_a_release_and_a_request_under_way_when_somebody_comes_keep_their_order(
    room: Room,
) -> None:
    room.request(A)
    room.deliver()
    room.request(B)
    room.deliver()
    room.release(A)
    room.request(A)
    room.view([A, B, C], [A, B])
    room.deliver()
    assert room.holders == [B]
    assert {form.queue for form in room.forms.values()} == {(B, A)}


def test_of_two_holders_that_meet_one_stays(room: Room) -> None:
    """Each was granted it in its own part of the network."""
    alone = Room(room.make)
    alone.view([C], [C])
    alone.deliver()
    alone.request(C)
    alone.deliver()
    room.request(A)
    room.deliver()
    room.forms.update(alone.forms)
    room.view_number = 2
    room.view([A, B, C], [A, B])
    room.deliver()
    assert len(room.holders) == 1
    winner = room.holders[0]
    assert {form.queue[:1] for form in room.forms.values()} == {(winner,)}


def test_a_grant_waits_until_those_that_came_have_reported() -> None:
    """Acknowledgements from before the network fell apart say nothing about present holders."""
    room = Room(AcknowledgedForm)
    for members, together in (([A], [A]), ([A, B], [A]), ([A, B, C], [A, B])):
        room.view(members, together)
        room.deliver()
    room.request(C)
    room.deliver()
    room.request(A)
    room.deliver()
    room.request(B)
    room.deliver()
    assert room.holders == [C]
    kept = room.forms.pop(C)  # C is separated from the others, and still holds the mutex
    room.view([A, B], [A, B])
    room.deliver()
    assert room.holders == [A]
    room.forms[C] = kept
    room.view([A, B, C], [A, B])
    room.release(A)
    late = [pair for pair in room.under_way if pair[0] == C]
    room.under_way = [pair for pair in room.under_way if pair[0] != C]
    room.deliver()
    assert room.forms[B].holds is False  # although all have acknowledged its request long ago
    room.under_way = late
    room.deliver()
    assert room.holders == [C]


def test_what_was_reported_at_an_earlier_view_does_not_count() -> None:
    room = Room(AcknowledgedForm)
    room.view([A], [A])
    room.deliver()
    room.view([A, B], [A])
    early, room.under_way = room.under_way, []
    room.view([A, B, C], [A, B])
    later, room.under_way = room.under_way, early
    room.request(C)
    room.deliver()
    form = room.forms[C]
    assert isinstance(form, AcknowledgedForm)
    assert form._silent == {A, B, C}
    assert room.holders == []
    room.under_way = later
    room.deliver()
    assert room.holders == [C]


def test_who_is_no_member_does_not_stand_in_the_queue(room: Room) -> None:
    """It would never be granted anything, and nobody behind it either."""
    elsewhere = Room(room.make)
    elsewhere.view([C], [C])
    elsewhere.deliver()
    elsewhere.request(C)
    room.under_way = elsewhere.under_way
    assert room.under_way
    room.deliver()
    assert all(form.queue == () for form in room.forms.values())
    room.request(A)
    room.deliver()
    assert room.holders == [A]


def test_a_request_whose_release_came_elsewhere_is_forgotten() -> None:
    """C was cut off with its request in all queues, and has released it in its own part."""
    room = Room(AcknowledgedForm)
    room.view([A, B, C], [A, B, C])
    room.deliver()
    room.request(C)
    room.deliver()
    kept = {member: room.forms.pop(member) for member in (A, B)}
    room.view([C], [C])
    room.release(C)
    room.deliver()
    room.forms |= kept
    room.view_number = 2
    room.view([A, B, C], [A, B])
    room.request(A)
    room.deliver()
    assert room.holders == [A]
    assert {form.queue for form in room.forms.values()} == {(A,)}


def view_of(members: tuple[MemberId, ...], cause: Cause) -> GroupView:
    place = Position(ViewId(1, "d", 1), 1, 0, 0, 0)
    return GroupView(
        group="g", id=place, members=members, cause=cause, changed=(), vs_set=members, own=False
    )


def test_a_session_that_joins_while_views_change_waits_for_no_view_that_does_not_come() -> None:
    """A program comes back at a daemon that is alone, and about to meet the others.

    The join may be ordered in the view behind the transition, or in the transitional part.
    """
    after, within = Confirmation(A, "g"), Confirmation(A, "g")
    daemons = DaemonView(id=ViewId(2, "d", 1), daemons=("d",), majority=None)
    for confirmation in (after, within):
        confirmation.handle(Transition(ViewId(1, "d", 1)))
    within.handle(view_of((A,), Cause.JOIN))
    for confirmation in (after, within):
        confirmation.handle(daemons)
    assert (after.is_there, within.is_there) == (True, False)
    within.handle(view_of((A,), Cause.NETWORK))
    after.handle(view_of((A, B), Cause.JOIN))
    assert (after.is_there, within.is_there) == (True, True)


@pytest.mark.parametrize("make", [AcknowledgedForm, AgreedForm, LamportForm])
def test_who_joins_behind_a_view_that_unites_daemons_gets_the_mutex(
    make: type[AcknowledgedForm | AgreedForm | LamportForm],
) -> None:
    """Its session has begun at a daemon that was alone: it has no place that it could lose."""
    room = Room(make)
    form = room.forms[A] = make(A, "g")
    for names, majority in ((("a",), False), (("a", "b", "c"), True)):
        view_id = ViewId(len(names), "a", 1)
        form.handle(DaemonView(id=view_id, daemons=names, majority=majority, together=("a",)))
    room.view((A,), (A,), Cause.JOIN)
    room.sent(A, form.request())
    room.deliver()
    assert form.holds


def test_a_mark_of_the_transitional_part_confirms_nothing_before_the_next_view() -> None:
    confirmation = Confirmation(A, "g")
    place = Position(ViewId(1, "d", 1), 1, 0, 0, 0)
    confirmation.handle(view_of((A,), Cause.JOIN))
    assert confirmation.is_there

    def come_back(data: bytes) -> None:
        safe = ServiceLevel.SAFE
        confirmation.handle(Message(A, 1, (A.name,), safe, 0, data, place))

    come_back(confirmation.ask())
    assert confirmation.is_there
    confirmation.handle(Transition(ViewId(1, "d", 1)))
    mark = confirmation.ask()
    assert not confirmation.is_there
    come_back(mark)
    assert not confirmation.is_there
    confirmation.handle(DaemonView(id=ViewId(2, "d", 1), daemons=("d",), majority=None))
    assert not confirmation.is_there, "the view of the group tells who came from elsewhere"
    confirmation.handle(view_of((A,), Cause.NETWORK))
    assert confirmation.is_there
