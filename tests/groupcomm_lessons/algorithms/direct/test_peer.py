"""A peer by itself, event by event: meeting, refusals, wrong and late datagrams."""

from collections.abc import Iterable

import pytest

from groupcomm.clocks.vector import VectorClock
from groupcomm.errors import LocalProtocolError
from groupcomm_lessons.algorithms.direct.datagrams import (
    Carried,
    Part,
    encode_datagram,
    encode_payload,
)
from groupcomm_lessons.algorithms.direct.events import (
    Action,
    Delivered,
    Ended,
    NotDelivered,
    Send,
    Started,
)
from groupcomm_lessons.algorithms.direct.peer import Make, Peer, State
from groupcomm_lessons.algorithms.direct.settings import MAX_DATA_BYTES, MAX_MEMBERS
from groupcomm_lessons.algorithms.fan_out import FanOut
from groupcomm_lessons.algorithms.global_id import GlobalIdOrError
from groupcomm_lessons.algorithms.process import Message
from groupcomm_lessons.algorithms.vector import Vector
from groupcomm_lessons.algorithms.vector_session import VectorSession

BOTH = ("ann", "bob")


class Table:
    """Peers at one table: datagrams arrive at once, in the order of sending, unless kept."""

    def __init__(self, start: int = 1) -> None:
        self.start = start  # the start number of the first peer's incarnation
        self.peers: dict[str, Peer] = {}
        self.news: dict[str, list[Action]] = {}
        self.under_way: list[tuple[str, Send]] = []
        self.now = 0.0

    def add(
        self,
        name: str,
        make: Make = FanOut,
        founders: Iterable[str] = BOTH,
        greet: Iterable[str] = (),
    ) -> Peer:
        made = Peer(
            name, make, incarnation=self.start + len(self.peers), founders=founders, greet=greet
        )
        self.peers[name] = made
        self.news[name] = []
        self.take(name, made.begin(self.now))
        return made

    def take(self, name: str, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, Send):
                self.under_way.append((name, action))
            else:
                self.news[name].append(action)

    def bring_all(self) -> None:
        while self.under_way:
            source, send = self.under_way.pop(0)
            if send.address in self.peers:
                found = self.peers[send.address].receive(send.data, source, now=self.now)
                self.take(send.address, found)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for name, peer in self.peers.items():
            self.take(name, peer.pass_time(self.now))
        self.bring_all()

    def reasons(self, name: str) -> list[str | None]:
        return [each.reason for each in self.news[name] if isinstance(each, Ended)]


def two(make: Make = FanOut, start: int = 1) -> Table:
    table = Table(start)
    table.add("ann", make)
    table.add("bob", make, BOTH, ["ann"])
    table.bring_all()
    return table


def test_founders_start_once_all_have_met() -> None:
    table = Table()
    trio = ("ann", "bob", "cid")
    ann = table.add("ann", FanOut, trio)
    table.add("bob", FanOut, trio, ["ann"])
    table.bring_all()
    assert ann.missing == ("cid",)
    with pytest.raises(LocalProtocolError, match="ann still waits for cid: send after the event"):
        ann.multicast(b"", now=0.0)
    table.add("cid", FanOut, trio, ["bob"])  # bob tells cid of ann
    table.bring_all()
    assert all(news == [Started(trio)] for news in table.news.values())
    assert ann.state is State.RUNNING


@pytest.mark.parametrize(
    ("make", "founders", "why"),
    [
        (Vector, BOTH, "FanOut runs here, not Vector: start all members with the same algorithm"),
        (
            FanOut,
            ("ann", "cid"),
            "members here are ann, bob, not ann, cid: start all members with the same list",
        ),
        (VectorSession, (), "FanOut runs here, not VectorSession"),
    ],
)
def test_who_does_not_fit_is_refused_and_learns_why(
    make: Make, founders: tuple[str, ...], why: str
) -> None:
    table = two()
    cid = table.add("cid", make, founders, ["ann"])
    table.bring_all()
    assert cid.state is State.ENDED
    (reason,) = table.reasons("cid")
    assert reason is not None
    assert reason.startswith(f"ann refuses cid: {why}")
    assert table.peers["ann"].members == BOTH


def test_a_fixed_set_of_members_takes_no_latecomer() -> None:
    with pytest.raises(LocalProtocolError, match="Vector has a fixed set of members: name all"):
        Peer("cid", Vector, incarnation=1, greet=["ann"])
    with pytest.raises(LocalProtocolError, match="or use VectorSession"):
        Peer("cid", Vector, incarnation=1)
    latecomer = type("Vector", (VectorSession,), {})  # a latecomer that does not know it
    table = two(Vector)
    table.add("cid", latecomer, (), ["bob"])
    table.bring_all()
    assert table.reasons("cid") == [
        "bob refuses cid: Vector has a fixed set of members, ann, bob, and accepts no latecomer:"
        " use VectorSession, or name all members from the beginning"
    ]


def test_a_name_is_used_once() -> None:
    table = Table()
    table.add("ann", VectorSession, ())
    table.add("bob", VectorSession, (), ["ann"])
    table.bring_all()
    table.take("bob", table.peers["bob"].leave(0.0))
    table.bring_all()
    assert table.reasons("bob") == [None]
    table.peers["again"] = again = Peer("bob", VectorSession, incarnation=9, greet=["ann"])
    table.news["again"] = []
    table.take("again", again.begin(0.0))
    table.bring_all()
    (reason,) = table.reasons("again")
    assert reason == "ann refuses bob: bob is a member, or was one: come by another name"


def test_what_does_not_decode_or_comes_from_strangers_is_counted() -> None:
    table = two()
    ann, bob = table.peers.values()
    assert ann.receive(b"garbage", "x", now=0.0) == []
    stranger = two(start=100).peers["bob"]  # a later start of this group
    sent = [each for each in stranger.multicast(b"", now=0.0) if isinstance(each, Send)]
    assert ann.receive(sent[0].data, "bob", now=0.0) == []
    assert ann.refused == 2
    table.take("bob", bob.multicast(b"true", now=0.0))
    table.bring_all()
    assert [each.message.data for each in table.news["ann"] if isinstance(each, Delivered)] == [
        b"true"
    ]


@pytest.mark.parametrize(
    ("incarnation", "target", "count"),
    [(2, 1, 1), (7, 1, 0), (2, 7, 0)],
    ids=["right", "an earlier start of bob", "for an earlier start of ann"],
)
def test_what_comes_from_or_is_for_an_earlier_start_is_dropped(
    incarnation: int, target: int, count: int
) -> None:
    ann = two().peers["ann"]
    whole = encode_payload(Carried(Message("bob", 1, BOTH, b""), None))
    part = Part("bob", incarnation, target, 1, 0, 1, 0, whole)
    found = ann.receive(encode_datagram(part), "bob", now=0.0)
    assert sum(isinstance(each, Delivered) for each in found) == count
    assert ann.refused == 1 - count


def test_who_was_silent_for_too_long_is_gone_and_learns_so() -> None:
    table = two()
    bob = table.peers.pop("bob")
    table.pass_time(11.0)
    assert table.peers["ann"].members == ("ann",)
    table.under_way.clear()
    table.peers["bob"] = bob
    table.take("bob", bob.multicast(b"back", now=table.now - 8.0))
    table.bring_all()
    (reason,) = table.reasons("bob")
    assert reason == (
        "ann has heard nothing of bob for too long, and counts it as gone; come again by another"
        " name"
    )
    with pytest.raises(LocalProtocolError, match="bob has left, and cannot send any more"):
        bob.multicast(b"", now=table.now)


def test_data_that_are_cut_come_whole_and_more_are_refused() -> None:
    table = two()
    ann = table.peers["ann"]
    largest = bytes(range(256)) * (MAX_DATA_BYTES // 256)
    table.take("ann", ann.multicast(largest, now=0.0))
    table.bring_all()
    (delivered,) = (each for each in table.news["bob"] if isinstance(each, Delivered))
    assert delivered.message.data == largest
    with pytest.raises(LocalProtocolError, match="65537 bytes is too large; 65536 are the most"):
        ann.multicast(largest + b"x", now=0.0)


def test_without_room_a_message_comes_later() -> None:
    table = two()
    ann, bob = table.peers.values()
    sends = [each for each in ann.multicast(b"m", now=0.0) if isinstance(each, Send)]
    assert bob.receive(sends[0].data, "ann", now=0.0, room=False) == []
    again = [each for each in ann.pass_time(0.1) if isinstance(each, Send)]
    news = bob.receive(again[0].data, "ann", now=0.1)
    assert [each.message.data for each in news if isinstance(each, Delivered)] == [b"m"]
    assert ann.repeated == 1


def test_a_message_that_the_algorithm_refuses_is_reported() -> None:
    table = two(GlobalIdOrError)
    for name in BOTH:
        table.take(name, table.peers[name].multicast(b"", now=0.0))
    table.bring_all()
    (refused,) = (each for each in table.news["ann"] if isinstance(each, NotDelivered))
    assert "ann has received bob1, which is concurrent" in str(refused.error)


def test_what_two_have_passed_on_to_a_latecomer_is_delivered_once() -> None:
    table = Table()
    ann = table.add("ann", VectorSession, ())
    bob = table.add("bob", VectorSession, (), ["ann"])
    table.bring_all()
    table.take("ann", ann.multicast(b"m", now=0.0))
    table.bring_all()
    message = next(each.message for each in table.news["bob"] if isinstance(each, Delivered))
    to_bob = ann._others.named("bob")
    assert to_bob is not None
    clock = VectorClock(BOTH)
    clock.tick("ann")
    to_bob.put(Carried(message, clock))
    table.pass_time(0.1)
    assert [each for each in table.news["bob"] if isinstance(each, Delivered)] == [
        Delivered(message)
    ]
    assert bob._group._process.waiting == ()


def test_an_algorithm_for_broadcasts_says_so() -> None:
    with pytest.raises(LocalProtocolError, match="Vector can only broadcast"):
        two(Vector).peers["ann"].multicast(b"", ["bob"], now=0.0)


@pytest.mark.parametrize(
    ("name", "founders", "match"),
    [
        ("", BOTH, "the name '' has 0 bytes; it must have 1 to 64"),
        ("a" * 65, BOTH, "has 65 bytes"),
        ("ann", tuple(map(str, range(MAX_MEMBERS))), "65 members; 64 are the most"),
    ],
)
def test_names_that_do_not_fit_are_refused(
    name: str, founders: tuple[str, ...], match: str
) -> None:
    with pytest.raises(LocalProtocolError, match=match):
        Peer(name, FanOut, incarnation=1, founders=founders)
