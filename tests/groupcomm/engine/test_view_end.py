"""The rest of a view that has ended, step by step: announcements, both parts, false statements."""

from collections.abc import Iterator
from typing import cast

import pytest

from groupcomm.clocks.stamp import Stamp
from groupcomm.config.core import Timing
from groupcomm.config.view import View
from groupcomm.engine.delivery import Delivery
from groupcomm.engine.view_change import ViewChange
from groupcomm.errors import BadDatagram, ProtocolViolation
from groupcomm.groups.announcement import cut_announcement
from groupcomm.level import ServiceLevel
from groupcomm.link.forwarding import Forwarding
from groupcomm.link.routes import Routes
from groupcomm.membership.recovered_set import RecoveredSet
from groupcomm.ring.reception import Reception
from groupcomm.wire.bundle import Bundle, BundleKind
from groupcomm.wire.data import DataPacket
from groupcomm.wire.membership import Holding, Past
from tests.groupcomm.membership.histories import make_view
from tests.groupcomm.order.receiver import AGREED, CAUSAL, FIFO, RELIABLE, SAFE, Receiver, bundle

VIEW, TWO_RINGS = make_view(1, 3), make_view(2, 3)
ME = 0
ALL_REGULAR = ["a", "waits before None", "positions", "turn", "transitional positions", "end"]
"""The log of a view with one message, which is in its regular part."""


class Ended:
    """The end of a view of three daemons at the first of them.

    Attributes:
        log: what its delivery was told, in order.
        complete: whether all announcements have come.
        completes: whether the next announcement is the last one.
        before_rest: what was logged when what steps had left was delivered.
        untold: whether programs are still to be told that the regular part is over.
        pieces: the steps that end while a bundle is delivered.
        steps: the steps that have ended.
    """

    def __init__(self, *, complete: bool = True, view: View = VIEW) -> None:
        self.receiver = Receiver(len(view.rings))
        self.order, self.streams = self.receiver.order, self.receiver.streams
        self.complete = complete
        self.completes = False
        self.log: list[str] = []
        self.before_rest: list[str] = []
        self.untold = False
        self.pieces = self.steps = 0
        self.groups = self
        self.change = ViewChange(
            view,
            ME,
            cast(Delivery, self),
            Reception(view.rings[0], ME, self.streams, Timing()),
            Forwarding(view, ME, Routes(view, ME), self.streams, Timing()),
        )

    def learn_groups(self, packets: list[DataPacket]) -> None:
        """See Delivery: nothing is local here."""

    def receive_announcements(self, bundles: list[Bundle]) -> None:
        for each in bundles:
            if each.kind == BundleKind.STATE and not each.released:
                each.released = True
                self.log.append("announcement")
                self.complete |= self.completes

    def catch_up(self) -> Iterator[None]:
        self.before_rest = self.before_rest or self.log.copy()
        return iter(())

    def finish_bundle(self) -> Iterator[None]:
        self.untold = False
        return iter((None,) * self.pieces)

    def turn(self) -> None:
        """The regular part is over: some programs are told so at once, the rest a little later."""
        self.log.append("turn")
        self.untold = True

    def deliver_bundle(self, delivered: Bundle) -> None:
        assert not self.untold, "some programs take it for a delivery of the regular part"
        self.log.append(bytes(delivered.body[-1:]).decode())

    def pop_waits(self, boundary: Stamp | None) -> tuple[list[Bundle], list[Bundle]]:
        self.log.append(f"waits before {None if boundary is None else tuple(boundary)}")
        return [], []

    def send_positions(self, bundles: list[Bundle], *, transitional: bool) -> Iterator[None]:
        self.log.append("transitional positions" if transitional else "positions")
        return iter(())

    def end(self) -> None:
        self.log.append("end")

    def receive_horizon(self, ring: int, value: int, upto: int) -> None:
        self.log.append(f"horizon {value} after {upto}")

    def has_packet(self, packet: DataPacket) -> bool:
        return packet.number in self.streams[packet.ring].packets

    def receive_recovered(self, packet: DataPacket) -> bool:
        return bool(self.streams[packet.ring].accept(packet))

    def prepare(self, *, frontier: int = 0, members: frozenset[int] = frozenset((ME, 1))) -> bool:
        """Prepare with what this daemon holds, all of which others know to be held up to a time."""
        past = self.change.past
        known = tuple(Holding(h.forgotten, h.spans, h.notices, frontier) for h in past.holdings)
        return self.change.prepare(
            RecoveredSet({ME: Past(past.view, known, past.obligation)}), members
        )

    def recover(self, packet: DataPacket) -> None:
        """Have a packet come after the end of the view."""
        assert self.streams[packet.ring].accept(packet)
        self.order.classify(packet)

    def finish(self) -> bool:
        """Deliver all that is left; count the steps that it takes besides the first."""
        pieces = self.change.finish(self.turn)
        while True:
            try:
                next(pieces)
            except StopIteration as end:
                return bool(end.value)
            self.steps += 1


def with_announcement(ended: Ended) -> Bundle:
    """Have a packet with a SAFE message and an announcement be held; return the latter."""
    safe = bundle(SAFE, 1, "a")
    ended.receiver.packet(1, safe)
    (made,) = cut_announcement(b"announcement", 1000)
    safe.packet.bundles.append(made)
    made.packet, made.place = safe.packet, 1
    return made


def test_the_regular_part_then_the_turn_then_the_transitional_part() -> None:
    ended = Ended()
    ended.receiver.packet(1, bundle(AGREED, 1, "a"))
    ended.receiver.packet(2, bundle(SAFE, 1, "b"), bundle(AGREED, 2, "c"), previous=1)
    assert ended.receiver.out == ["a"]
    assert ended.prepare()
    assert ended.finish()
    assert ended.log == [
        "waits before (20, 0)",
        "positions",
        "turn",
        "b",
        "c",
        "transitional positions",
        "end",
    ]


def test_a_step_may_end_after_each_bundle_and_nothing_is_delivered_twice() -> None:
    ended = Ended()
    ended.pieces = 2
    ended.receiver.packet(1, bundle(AGREED, 1, "a"))
    ended.receiver.packet(2, bundle(SAFE, 1, "b"), bundle(AGREED, 2, "c"), previous=1)
    assert ended.prepare()
    assert ended.finish()
    assert [each for each in ended.log if len(each) == 1] == ["b", "c"]
    assert ended.steps == 3 * ended.pieces, "at the turn, and after each bundle"


def test_without_a_boundary_all_that_is_left_is_regular() -> None:
    ended = Ended()
    ended.receiver.packet(1, bundle(SAFE, 1, "a"))
    assert ended.prepare(frontier=10)
    assert ended.finish()
    assert ended.log == ALL_REGULAR


def test_what_is_held_without_a_gap_is_regular_also_without_horizons() -> None:
    ended = Ended()
    ended.recover(ended.receiver.make(1, bundle(AGREED, 1, "a")))
    assert ended.prepare()
    assert ended.finish()
    assert ended.log == ALL_REGULAR


def test_the_slowest_ring_sets_the_boundary() -> None:
    ended = Ended(view=TWO_RINGS)
    ended.recover(ended.receiver.make(1, bundle(AGREED, 1, "a"), time=10))
    ended.recover(ended.receiver.make(1, bundle(AGREED, 1, "b"), ring=1, daemon=1, time=20))
    ended.recover(ended.receiver.make(2, bundle(AGREED, 1, "c"), previous=1, time=30))
    assert ended.prepare()
    assert ended.finish()
    assert ended.log == [
        "a",
        "b",
        "waits before (30, 0)",
        "positions",
        "turn",
        "c",
        "transitional positions",
        "end",
    ]


@pytest.mark.parametrize("frontier", [0, 10], ids=["transitional", "regular"])
def test_announcements_that_are_left_may_complete_the_view(frontier: int) -> None:
    ended = Ended(complete=False)
    ended.completes = True
    with_announcement(ended)
    assert ended.prepare(frontier=frontier)
    assert ended.finish()
    assert ended.log[0] == "announcement"
    assert ended.before_rest == ["announcement"], "then what steps have left, then the rest"
    assert ended.log.count("announcement") == 1
    assert [each for each in ended.log if each in "a"] == ["a"], "an announcement is no message"


def test_announcements_that_were_received_before_are_not_received_again() -> None:
    ended = Ended(complete=False)
    with_announcement(ended).released = True
    assert ended.prepare()
    assert not ended.finish()
    assert ended.log == ["turn"]


def test_a_view_without_all_announcements_ends_without_effect() -> None:
    ended = Ended(complete=False)
    ended.receiver.packet(1, bundle(SAFE, 1, "a"))
    assert ended.prepare(frontier=10)
    assert not ended.finish()
    assert ended.log == ["turn"]


# ---- false statements ----


def with_a_gap(ended: Ended, *bundles: Bundle) -> DataPacket:
    """Have a packet of daemon 2 be held, the one before it by nobody: the walk drops the bundles.

    Only daemon 2 could still send that one, and it does not come along.
    """
    ended.receiver.packet(1, bundle(RELIABLE, 1, "r"))
    packet = ended.receiver.make(3, *bundles, daemon=2, previous=2)
    ended.recover(packet)
    return packet


def test_what_was_not_delivered_before_may_be_dropped_behind_the_boundary() -> None:
    ended = Ended()
    with_a_gap(ended, bundle(SAFE, 1, "s"), bundle(CAUSAL, 2, "c"))
    assert ended.prepare()
    assert ended.finish()
    assert "s" not in ended.log
    assert "c" not in ended.log


@pytest.mark.parametrize("place", [0, 1])
def test_what_was_delivered_before_contradicts_a_drop(place: int) -> None:
    ended = Ended()
    packet = with_a_gap(ended, bundle(FIFO, 1, "f"), bundle(FIFO, 2, "g"))
    packet.bundles[place].released = True
    assert not ended.prepare()


def test_one_contradiction_is_enough() -> None:
    ended = Ended()
    packet = with_a_gap(ended, bundle(FIFO, 1, "f"))
    packet.bundles[0].released = True
    later = ended.receiver.make(4, bundle(FIFO, 1, "g"), daemon=2, previous=3)
    ended.recover(later)
    assert not ended.prepare(), "the later one may be dropped"


@pytest.mark.parametrize(
    ("level", "sound"), [(FIFO, True), (CAUSAL, True), (AGREED, False), (SAFE, False)]
)
def test_an_agreed_message_below_the_boundary_is_never_dropped(
    level: ServiceLevel, sound: bool
) -> None:
    """A horizon says that all below it is held, and a packet there is missing: somebody lies."""
    ended = Ended()
    with_a_gap(ended, bundle(level, 1, "f"))
    past = ended.change.past
    holding = Holding(0, ((1, 1), (3, 3)), ((1, 1000),), 1000)
    assert (
        ended.change.prepare(
            RecoveredSet({ME: Past(past.view, (holding,), ())}), frozenset((ME, 1))
        )
        is sound
    )


def test_a_daemon_that_is_alone_after_a_contradiction_delivers_nothing_more() -> None:
    ended = Ended()
    packet = with_a_gap(ended, bundle(FIFO, 1, "f"), bundle(RELIABLE, 2, "x"))
    packet.bundles[0].released = True
    assert ended.prepare(members=frozenset((ME,)))
    assert ended.finish()
    assert ended.log == [
        "waits before (0, 0)",
        "positions",
        "turn",
        "transitional positions",
        "end",
    ]


def test_what_was_promised_to_a_daemon_that_is_away_is_delivered_in_spite_of_a_gap() -> None:
    ended = Ended()
    with_a_gap(ended, bundle(SAFE, 1, "s"))
    ended.change.obligation = frozenset((2,))
    assert ended.prepare()
    assert ended.finish()
    assert "s" in ended.log


# ---- repairs ----


def recovered(number: int) -> RecoveredSet:
    return RecoveredSet({1: Past(bytes(16), (Holding(0, ((1, number),), (), 0),), ())})


def raw(ended: Ended, key: bytes = VIEW.key, **changes: int) -> bytes:
    """Return the first packet of daemon 1, encoded."""
    packet = ended.receiver.make(1, bundle(FIFO, 1, "f"), daemon=1)
    for name, value in changes.items():
        setattr(packet, name, value)
    return packet.encode(key)


def test_a_repair_is_a_packet_of_this_view_by_a_daemon_of_its_ring() -> None:
    ended = Ended()
    with pytest.raises(BadDatagram, match="another view"):
        ended.change.receive_repair(raw(ended, bytes(16)), recovered(1))
    with pytest.raises(ProtocolViolation, match="daemon 3 is not in ring 0"):
        ended.change.receive_repair(raw(ended, daemon=3), recovered(1))
    assert ended.change.receive_repair(raw(ended), recovered(1)) == (0, 1)
    assert ended.change.receive_repair(raw(ended), recovered(1)) is None, "it is here already"


@pytest.mark.parametrize(("ring", "daemon", "fits"), [(0, 2, False), (1, 1, True)])
def test_headers_repair_the_streams_of_other_rings_and_never_the_own_one(
    ring: int, daemon: int, fits: bool
) -> None:
    ended = Ended(view=TWO_RINGS)
    packet = ended.receiver.make(1, bundle(FIFO, 1, "f"), ring=ring, daemon=daemon)
    packet.local_only = True
    packet.raw = packet.encode(TWO_RINGS.key)
    union = RecoveredSet({1: Past(bytes(16), (Holding(0, ((1, 1),), (), 0),) * 2, ())})
    assert ended.change.receive_repair(packet.header(), union) == ((ring, 1) if fits else None)


# ---- holdings and obligations ----


def test_a_daemon_reports_what_it_holds_above_what_all_have_forgotten() -> None:
    ended = Ended()
    for number in (1, 2, 3, 5, 6):
        ended.receiver.packet(number, bundle(RELIABLE, 1, "r"), daemon=number % 3)
    ended.receiver.horizon(0, 1000, 3)
    ended.streams[0].forget(20)
    (holding,) = ended.change.past.holdings
    assert (holding.forgotten, holding.spans) == (2, ((3, 3), (5, 6)))
    assert holding.notices == ((3, 1000),)


def test_what_was_recovered_without_a_gap_counts_as_a_horizon_once_others_rely_on_it() -> None:
    ended = Ended()
    ended.recover(ended.receiver.make(1, bundle(AGREED, 1, "a")))
    assert ended.order.blocks.values == [0]
    ended.change.accept_obligation(recovered(1), frozenset((0, 1)))
    assert ended.order.blocks.values == [10]


def test_what_was_promised_to_others_is_kept() -> None:
    ended = Ended()
    ended.receiver.packet(1, bundle(AGREED, 1, "a"))
    known = Holding(0, ((1, 1),), ((1, 500),), 30)
    union = RecoveredSet({1: Past(VIEW.key, (known,), (2,))})
    ended.change.accept_obligation(union, frozenset((0, 1)))
    assert ended.change.past.obligation == (0, 1, 2)
    ended.change.accept_obligation(union, frozenset((0,)))
    assert ended.change.past.obligation == (0, 1, 2)
    assert ended.order.frontiers.values == [30]
    assert ended.log == ["horizon 500 after 1"] * 2


def test_a_daemon_says_what_all_of_its_ring_can_deliver_and_of_others_what_those_have_said() -> (
    None
):
    ended = Ended(view=TWO_RINGS)
    ended.order.begin_local(0, [], lambda: None)
    for ring, number in ((0, 1), (0, 2), (1, 1)):
        daemon, previous = (0, number - 1) if ring == 0 else (1, 0)
        ended.receiver.packet(
            number, bundle(FIFO, 1, "f"), ring=ring, daemon=daemon, previous=previous
        )
        if ring == 0:
            ended.order.follow(ended.streams[0].packets[number], None)
    ended.order.deliverable.raise_to(1)
    assert ended.order.deliverable.own == 2, "it can deliver more than the others"
    assert [holding.notices for holding in ended.change.past.holdings] == [((1, 0),), ()]
    said = (Holding(0, (), (), 0), Holding(0, ((1, 1),), ((1, 0),), 0))
    ended.change.accept_obligation(
        RecoveredSet({1: Past(TWO_RINGS.key, said, ())}), frozenset((0, 1))
    )
    assert [holding.notices for holding in ended.change.past.holdings] == [((1, 0),), ((1, 0),)]
    assert "horizon 0 after 1" not in ended.log
