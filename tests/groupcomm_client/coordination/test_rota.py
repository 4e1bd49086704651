"""The rota of a server, event by event, as a connection would give them."""

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, GroupView, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm_client.coordination import requests
from groupcomm_client.coordination.requests import Call, Reply, Rota, Whom

ANN, BOB, CAT = (MemberId(f"#{name}#{name[0]}", 1) for name in ("ann", "bob", "cat"))
EVERYBODY = (ANN, BOB, CAT)
CALLER = MemberId("#dan#a", 1)


class Series:
    """What one server receives, and the numbers of the requests that it has to handle then."""

    def __init__(self, me: MemberId) -> None:
        self.rota = Rota(me)
        self.time = 0
        self.view(Cause.JOIN, EVERYBODY, EVERYBODY)

    def place(self) -> Position:
        self.time += 1
        return Position(ViewId(1, "a", 1), self.time, 0, 0, 0)

    def view(
        self, cause: Cause, members: tuple[MemberId, ...], together: tuple[MemberId, ...]
    ) -> list[int]:
        return self._handle(
            GroupView(
                group="g",
                id=self.place(),
                members=members,
                cause=cause,
                changed=(),
                vs_set=together,
                own=False,
            )
        )

    def call(self, number: int) -> list[int]:
        return self._message(CALLER, Call(number, Whom.ONE, b""))

    def reply(self, server: MemberId, number: int) -> list[int]:
        return self._message(server, Reply(CALLER, number, b"", False, EVERYBODY))

    def _message(self, sender: MemberId, wire: Call | Reply) -> list[int]:
        data = requests._encoder.encode(wire)
        level = ServiceLevel.AGREED
        return self._handle(Message(sender, 1, ("g",), level, 0, data, self.place()))

    def _handle(self, event: GroupView | Message) -> list[int]:
        return [key[1] for key, _, _ in self.rota.handle(event, "g")]


def test_a_server_that_goes_is_followed_by_the_next_one_in_turn() -> None:
    ann, bob = Series(ANN), Series(BOB)
    assert (ann.call(2), bob.call(2)) == ([], [])  # it is Cat's
    assert bob.view(Cause.DISCONNECT, (ANN, BOB), (ANN, BOB)) == []
    assert ann.view(Cause.DISCONNECT, (ANN, BOB), (ANN, BOB)) == [2]
    assert bob.view(Cause.DISCONNECT, (BOB,), (BOB,)) == [2]


def test_a_server_that_was_away_between_two_views_may_have_replied_elsewhere() -> None:
    """Ann's daemon stood still: its next view has all servers again, and no reply comes."""
    ann = Series(ANN)
    assert ann.call(1) == ann.call(2) == []  # they are Bob's and Cat's
    assert ann.view(Cause.NETWORK, EVERYBODY, (ANN,)) == [1, 2]
    assert ann.view(Cause.NETWORK, EVERYBODY, (ANN,)) == []
    assert ann.call(4) == []  # that is Bob's again


def test_a_request_is_handled_once_by_those_who_came_along() -> None:
    bob, cat = Series(BOB), Series(CAT)
    assert (bob.call(0), cat.call(0)) == ([], [])  # it is Ann's
    assert bob.view(Cause.NETWORK, EVERYBODY, (BOB, CAT)) == [0]
    assert cat.view(Cause.NETWORK, EVERYBODY, (BOB, CAT)) == []
    assert cat.reply(BOB, 0) == []
    assert cat.view(Cause.DISCONNECT, (ANN, CAT), (ANN, CAT)) == []


def test_who_joins_takes_no_request_from_those_who_got_it() -> None:
    ann = Series(ANN)
    assert ann.call(0) == [0]
    eve = MemberId("#eve#e", 1)
    assert ann.view(Cause.JOIN, (*EVERYBODY, eve), EVERYBODY) == []
