"""Delivery: nothing before all announcements, then everything once; who is told what, and when."""

from functools import partial
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest

from groupcomm.clocks.ring_clock import LatestTime, PhysicalClock, RingClock
from groupcomm.config.core import CounterStarts
from groupcomm.config.versions import Versions
from groupcomm.engine.delivery import MOST_CONNECTIONS, MOST_UNRELIABLE, Delivery
from groupcomm.engine.probe import NoProbe
from groupcomm.errors import ProtocolViolation
from groupcomm.groups.announcement import NOTHING, Rows, cut_announcement, encode_announcement
from groupcomm.groups.carried import CarriedGroups
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import (
    Bundle,
    BundleKind,
    keys_bundle,
    report_bundle,
    roster_bundle,
    subscription_bundle,
)
from groupcomm.wire.data import DataPacket, UnreliablePacket
from tests.groupcomm.membership.histories import make_view
from tests.groupcomm.order.receiver import AGREED, FIFO, RELIABLE, SAFE, bundle

EMPTY = encode_announcement(NOTHING, Rows(), Versions(), 1000)


class Recorder:
    """The groups, the sessions and the probe of a daemon; it keeps what they are told, in order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.checks: list[int] = []
        self.table = SimpleNamespace()
        self.highest: list[int] = []
        self.awaited = False
        self.departing: int | None = None
        self.pieces = 1  # in which the table is made
        self.room = inf  # for deliveries
        self.rest: list[str] = []  # what goes on in the next step
        self.lines = SimpleNamespace(granted=[])
        self.subscriptions = SimpleNamespace(
            on_known=lambda one: self._note(f"known {one.groups[0]}")
        )

    def _note(self, text: str) -> None:
        self.log.append(text)

    # ---- the groups ----

    def begin(
        self,
        carried: object,
        announcements: object,
        *,
        lines: object,
        on_session: object,
        on_table: Any,
    ) -> SimpleNamespace:
        self._note("begin")
        left = iter(range(self.pieces))

        def advance(units: int) -> bool:
            at = next(left)
            if at == 0:
                on_table()
            return at == self.pieces - 1

        return SimpleNamespace(advance=advance)

    def go_on_departing(self) -> bool:
        if self.departing is not None:
            self._note("departs")
            self.departing = self.departing - 1 or None
        return self.departing is None

    def sender(self, some: Bundle) -> SimpleNamespace:
        return SimpleNamespace(name="#u#d1")

    def deliver(self, some: Bundle) -> None:
        self._note(text_of(some))

    def deliver_unreliable(self, some: Bundle) -> None:
        self._note(f"unreliable {text_of(some)}")

    def settle(self, progress: int) -> None:
        self._note(f"settle {progress}")
        self.checks = []

    # ---- the sessions ----

    def on_numbered(self, some: Bundle) -> bool:
        return self.awaited

    def send_position(self, some: Bundle, *, transitional: bool = False) -> None:
        self._note(f"{'transitional ' * transitional}position of {text_of(some)}")

    def charge(self, units: int) -> None:
        self.room -= units

    def go_on(self) -> bool:
        while self.rest and self.room > 0:
            self._note(self.rest.pop())
        return not self.rest

    def review_members(self) -> None:
        self._note("review")

    def may_deliver(self) -> bool:
        self.room -= 1
        return self.room >= 0


class Traced(NoProbe):
    """A probe that keeps what was numbered, held and released."""

    def __init__(self) -> None:
        self.released_places: list[tuple[int, int, int, int, str]] = []
        self.log: list[tuple[str, int, int, int]] = []

    def stamped(self, ring: int, number: int, time: int) -> None:
        self.log.append(("stamped", ring, number, time))

    def held(self, ring: int, number: int, time: int) -> None:
        self.log.append(("held", ring, number, time))

    def released(
        self, ring: int, number: int, time: int, bundle_index: int, bundle: Bundle, sender: str
    ) -> None:
        self.released_places.append((ring, number, time, bundle_index, sender))


def text_of(some: Bundle) -> str:
    return bytes(some.body[-1:]).decode()


class Daemon:
    """The delivery of the first of two daemons of one ring."""

    def __init__(
        self,
        *,
        versions: Versions | None = None,
        starts: CounterStarts | None = None,
        complete: bool = True,
    ) -> None:
        view = make_view(1, 2)
        if versions is not None:
            view = attrs.evolve(view, versions=versions)
        self.recorder, self.probe = Recorder(), Traced()
        self.clock = view.clock
        self.ring_clock = RingClock(PhysicalClock(0.0, 0.0), view.clock)
        self.delivery = Delivery(
            view,
            0,
            starts or CounterStarts(),
            clock=self.ring_clock,
            sessions=cast(Any, self.recorder),
            on_complete=lambda: self.recorder.log.append("complete"),
            carried=CarriedGroups(),
            handlers={
                kind: partial(self._note, kind.name.lower())
                for kind in (BundleKind.KEYS, BundleKind.REPORT, BundleKind.ROSTER)
            },
            latest=LatestTime(view.clock, view.clock, 0.0),
            probe=self.probe,
        )
        self.delivery.groups = cast(Any, self.recorder)
        self._last = [0, 0]
        self._number = 0
        if complete:
            for daemon in (0, 1):
                self.packet(*cut_announcement(EMPTY, 1000), daemon=daemon)
            self.delivery.deliver()
            self.recorder.log.clear()

    def _note(self, kind: str, daemon: int, _bundle: Bundle) -> None:
        self.recorder.log.append(f"{kind} of {daemon}")

    def make(self, *bundles: Bundle, daemon: int = 1, time: int = 0) -> DataPacket:
        """Return the next packet."""
        self._number += 1
        packet = DataPacket(
            ring=0,
            number=self._number,
            time=time or self.clock + 10 * self._number,
            daemon=daemon,
            previous=self._last[daemon],
            bundles=list(bundles),
        )
        self._last[daemon] = self._number
        for place, each in enumerate(bundles):
            each.packet, each.place = packet, place
        packet.raw = packet.encode(bytes(16))
        return packet

    def packet(self, *bundles: Bundle, daemon: int = 1, own: bool = False) -> int:
        """Have the next packet come; return its time."""
        packet = self.make(*bundles, daemon=daemon)
        if own:
            self.delivery.originate(packet)
        else:
            assert self.delivery.receive(packet)
        return packet.time

    @property
    def log(self) -> list[str]:
        """Return what was told since the last time."""
        found, self.recorder.log = self.recorder.log, []
        return found


def test_nothing_is_delivered_before_all_announcements_and_then_everything_in_order() -> None:
    daemon = Daemon(complete=False)
    assert not daemon.delivery.holds_packets
    daemon.packet(*cut_announcement(EMPTY, 1000), daemon=1)
    daemon.packet(bundle(RELIABLE, 1, "r"), bundle(AGREED, 1, "a"), bundle(FIFO, 2, "f"), daemon=1)
    daemon.delivery.deliver()
    assert daemon.log == []
    assert not daemon.delivery.complete
    assert daemon.delivery.holds_packets
    daemon.packet(*cut_announcement(EMPTY, 1000), daemon=0)
    assert daemon.delivery.complete
    assert daemon.log == ["begin", "complete", "review"]
    daemon.delivery.deliver()
    assert daemon.log == ["r", "f", "a"]


def test_while_the_groups_are_made_and_shown_nothing_is_delivered_but_subscriptions_count() -> None:
    daemon = Daemon(complete=False)
    daemon.recorder.pieces = 3
    wanted: list[str] = []
    daemon.delivery.wanted = cast(
        Any, SimpleNamespace(subscribe=lambda daemon, group: wanted.append(group))
    )
    daemon.packet(*cut_announcement(EMPTY, 1000), subscription_bundle(BundleKind.SUBSCRIBE, "g"))
    assert wanted == [], "the group table is not known"
    daemon.packet(*cut_announcement(EMPTY, 1000), daemon=0)
    assert wanted == ["g"]
    daemon.packet(bundle(FIFO, 1, "f"), subscription_bundle(BundleKind.SUBSCRIBE, "h"))
    assert wanted == ["g", "h"], "others rely on it once it is here"
    for _ in range(2):
        assert daemon.delivery.unfinished
        assert not daemon.delivery.complete
        assert "f" not in daemon.log
        daemon.delivery.deliver()
    assert daemon.log == ["review", "f"]
    assert not daemon.delivery.unfinished


def test_a_view_that_ends_while_it_begins_is_complete_if_all_announcements_are_here() -> None:
    daemon = Daemon(complete=False)
    daemon.recorder.pieces = 9
    daemon.packet(*cut_announcement(EMPTY, 1000), bundle(FIFO, 1, "f"))
    assert [*daemon.delivery.catch_up()] == []
    assert not daemon.delivery.complete
    daemon.packet(*cut_announcement(EMPTY, 1000), daemon=0)
    assert daemon.log == ["begin", "complete"]
    assert len([*daemon.delivery.catch_up()]) == 9 - 2, "the first and the last piece end no step"
    assert daemon.delivery.complete
    assert daemon.log == ["review", "f"]


def test_what_a_step_has_no_room_for_waits_for_the_next_in_its_order_at_every_level() -> None:
    daemon = Daemon()
    daemon.recorder.room = 2
    daemon.packet(bundle(FIFO, 1, "1"), bundle(FIFO, 2, "2"), bundle(FIFO, 3, "3"))
    daemon.packet(bundle(RELIABLE, 4, "4"), bundle(AGREED, 5, "5"))
    assert daemon.log == ["1", "2"]
    daemon.recorder.room = 1
    daemon.delivery.deliver()
    assert daemon.log == ["3"]
    assert daemon.delivery.unfinished
    assert daemon.delivery.holds_packets, "nothing is forgotten before it is delivered"
    daemon.recorder.room = inf
    daemon.delivery.receive_horizon(0, daemon.clock + 1000, 9)
    daemon.packet(bundle(FIFO, 6, "6"))
    daemon.delivery.deliver()
    assert daemon.log == ["4", "6", "5"]


def test_nothing_is_delivered_while_a_session_departs_from_many_groups() -> None:
    daemon = Daemon()
    daemon.recorder.departing = 3
    daemon.packet(bundle(FIFO, 1, "f"), bundle(AGREED, 2, "a"))
    daemon.delivery.receive_horizon(0, daemon.clock + 1000, 9)
    for _ in range(2):
        daemon.delivery.deliver()
        assert daemon.log == ["departs"]
        assert daemon.delivery.unfinished
    daemon.delivery.deliver()
    assert daemon.log == ["departs", "f", "a"]
    daemon.recorder.departing = 9
    daemon.packet(bundle(FIFO, 3, "g"))
    assert len([*daemon.delivery.catch_up()]) == 9 - 1
    assert daemon.log == ["departs"] * 9 + ["g"]


def test_what_is_released_is_traced_with_its_place() -> None:
    daemon = Daemon()
    time = daemon.packet(bundle(RELIABLE, 1, "r"), bundle(FIFO, 1, "f"))
    assert daemon.log == ["r", "f"]
    places = [(0, 3, time, 0, "#u#d1"), (0, 3, time, 1, "#u#d1")]
    assert daemon.probe.released_places == places


def test_reports_go_to_those_whom_they_concern() -> None:
    daemon = Daemon()
    daemon.packet(keys_bundle(b"k"), report_bundle(b"r"), roster_bundle(b"s"), daemon=1)
    daemon.delivery.deliver()
    assert daemon.log == ["keys of 1", "report of 1", "roster of 1"]


def test_a_subscription_of_another_ring_is_hurried_and_one_that_ends_is_not() -> None:
    daemon = Daemon()
    told: list[tuple[str, int, str]] = []
    daemon.delivery.wanted = cast(
        Any,
        SimpleNamespace(
            subscribe=lambda at, group: told.append(("subscribe", at, group)),
            unsubscribe=lambda at, group: told.append(("unsubscribe", at, group)),
        ),
    )
    time = daemon.packet(subscription_bundle(BundleKind.SUBSCRIBE, "g"))
    assert daemon.delivery.order.hurried == [time]
    daemon.packet(subscription_bundle(BundleKind.UNSUBSCRIBE, "g"))
    assert daemon.delivery.order.hurried == [time]
    assert told == [("subscribe", 1, "g"), ("unsubscribe", 1, "g")]


# ---- own messages ----


def test_positions_are_sent_once_nothing_lower_can_come() -> None:
    daemon = Daemon()
    daemon.recorder.awaited = True
    daemon.packet(bundle(AGREED, 1, "a"), own=True)
    safe = daemon.packet(bundle(SAFE, 1, "s"), own=True)
    daemon.delivery.deliver()
    assert daemon.log == ["a", "position of a"]
    daemon.delivery.receive_frontier(0, safe)
    daemon.delivery.deliver()
    assert daemon.log == ["s", "position of s"]
    daemon.recorder.awaited = False
    daemon.packet(bundle(AGREED, 1, "b"), own=True)
    daemon.delivery.deliver()
    assert daemon.log == ["b"], "nobody waits for its position"


def test_an_own_subscription_is_known_once_all_daemons_hold_it() -> None:
    daemon = Daemon()
    time = daemon.packet(subscription_bundle(BundleKind.SUBSCRIBE, "g"), own=True)
    daemon.delivery.deliver()
    assert daemon.log == []
    daemon.delivery.receive_frontier(0, time)
    daemon.delivery.deliver()
    assert daemon.log == ["known g"]


def test_positions_that_wait_at_the_end_are_sent_by_part() -> None:
    daemon = Daemon()
    daemon.recorder.awaited = True
    daemon.packet(bundle(SAFE, 1, "r"), own=True)
    time = daemon.packet(bundle(SAFE, 1, "t"), own=True)
    regular, transitional = daemon.delivery.pop_waits(cast(Any, (time, 0)))
    assert [*daemon.delivery.send_positions(regular, transitional=False)] == []
    assert daemon.log == ["position of r"]
    assert [*daemon.delivery.send_positions(transitional, transitional=True)] == []
    assert daemon.log == ["transitional position of t"]


# ---- steps ----


def test_private_messages_are_settled_as_far_as_the_order_has_come() -> None:
    daemon = Daemon()
    daemon.recorder.checks = [1]
    time = daemon.packet(bundle(AGREED, 1, "a"))
    daemon.delivery.deliver()
    assert daemon.log == ["a", f"settle {time}"]
    daemon.packet(bundle(AGREED, 1, "b"))
    daemon.delivery.deliver()
    assert daemon.log == ["b"]


def test_a_packet_is_held_until_every_daemon_can_deliver_it() -> None:
    daemon = Daemon()
    time = daemon.packet(bundle(AGREED, 1, "a"))
    daemon.delivery.deliver()
    assert daemon.delivery.holds_packets
    daemon.delivery.receive_frontier(0, time - 1)
    daemon.delivery.deliver()
    assert daemon.delivery.streams[0].packets.keys() == {3}
    assert daemon.delivery.holds_packets
    daemon.delivery.receive_frontier(0, time)
    daemon.delivery.deliver()
    assert not daemon.delivery.streams[0].packets
    assert not daemon.delivery.holds_packets


def test_a_step_in_which_nothing_came_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Daemon()
    daemon.packet(bundle(AGREED, 1, "a"))
    daemon.delivery.deliver()
    daemon.recorder.checks = [1]
    assert daemon.log == ["a"]
    daemon.delivery.deliver()
    daemon.delivery.receive_horizon(0, daemon.clock + 1, 1)
    daemon.delivery.receive_frontier(0, daemon.clock)
    daemon.delivery.deliver()
    assert daemon.log == [], "neither of them is news"
    daemon.delivery.receive_horizon(0, daemon.clock + 1000, 3)
    daemon.delivery.deliver()
    assert daemon.log == [f"settle {daemon.clock + 1000}"]


def test_datagrams_outside_the_streams_are_lost_before_all_is_announced() -> None:
    for complete in (False, True):
        daemon = Daemon(complete=complete)
        packet = UnreliablePacket(
            daemon=1, counter=1, bundles=[bundle(ServiceLevel.UNRELIABLE, 1, "u")]
        )
        daemon.delivery.deliver_unreliable(packet)
        assert daemon.log == ["unreliable u"] * complete
        assert daemon.probe.released_places == [(0, 0, 0, 0, "#u#d1")] * complete
        assert packet.bundles == []


# ---- packets that come ----


FAR_AHEAD = 2**62


def test_a_time_that_cannot_be_true_is_refused_in_the_view_and_after_it() -> None:
    daemon = Daemon()
    packet = daemon.make(bundle(AGREED, 1, "a"), time=FAR_AHEAD)
    for receive in (daemon.delivery.receive, daemon.delivery.receive_recovered):
        with pytest.raises(ProtocolViolation, match="latest time that can be true"):
            receive(packet)
    assert daemon.delivery.streams[0].held == 2
    assert daemon.ring_clock.value < FAR_AHEAD


def test_a_packet_that_comes_after_the_view_is_held_and_classified_and_not_delivered() -> None:
    daemon = Daemon()
    daemon.probe.log.clear()
    packet = daemon.make(bundle(SAFE, 1, "s"))
    assert daemon.delivery.receive_recovered(packet)
    assert daemon.probe.log == [("held", 0, 3, packet.time)]
    assert (packet.in_agreed_order, packet.safe) == (True, True)
    assert daemon.log == []


def test_packets_are_traced_and_the_clock_follows_them() -> None:
    daemon = Daemon()
    daemon.probe.log.clear()
    one = daemon.packet(bundle(RELIABLE, 1, "r"))
    assert daemon.ring_clock.value >= one
    two = daemon.packet(bundle(RELIABLE, 1, "s"), own=True)
    assert daemon.probe.log == [("held", 0, 3, one), ("stamped", 0, 4, two), ("held", 0, 4, two)]


def test_a_packet_comes_once_also_when_it_is_forgotten_already() -> None:
    daemon = Daemon()
    packet = daemon.make(bundle(AGREED, 1, "a"))
    assert daemon.delivery.receive(packet)
    assert not daemon.delivery.receive(packet)
    daemon.delivery.receive_frontier(0, packet.time)
    daemon.delivery.deliver()
    assert not daemon.delivery.streams[0].packets
    assert not daemon.delivery.receive(packet)
    assert daemon.log == ["a"]


def test_counters_of_datagrams_outside_the_streams_may_jump_so_far() -> None:
    daemon = Daemon()

    def is_new(counter: int) -> bool:
        packet = UnreliablePacket(daemon=1, counter=counter, bundles=[])
        return daemon.delivery.is_new_unreliable(packet)

    assert is_new(MOST_UNRELIABLE)
    assert is_new(2 * MOST_UNRELIABLE)
    with pytest.raises(ProtocolViolation, match="too far ahead"):
        is_new(3 * MOST_UNRELIABLE + 1)


def test_connection_numbers_that_were_seen_count_from_the_first_of_the_view() -> None:
    first = 2**50
    daemon = Daemon(starts=CounterStarts(connection=first))
    most = 1 + first + MOST_CONNECTIONS  # 1 is the counter of the view
    daemon.recorder.highest = [5, most, most + 1]
    assert daemon.delivery.highest_connection == most
