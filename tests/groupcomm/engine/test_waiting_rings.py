"""Who waits for the order because of a packet: the rings of its receivers, and its own."""

from typing import Any

import pytest

from groupcomm.clocks.stamp import Stamp
from groupcomm.config.core import Timing
from groupcomm.engine.waiting_rings import WaitingRings
from groupcomm.groups.pruning import Reach
from groupcomm.level import ServiceLevel
from groupcomm.ring.addressed_notices import AddressedNotices
from groupcomm.wire.bundle import (
    Bundle,
    BundleKind,
    decode_body_untrusted,
    encode_body,
    keys_bundle,
)
from groupcomm.wire.data import DataPacket
from tests.groupcomm.ring.harness import make_view
from tests.groupcomm.wire.payloads import encode_messages

VIEW = make_view((0, 1), (2,), (3,), (4, 5))
ALL = 0b1111


class Told(AddressedNotices):
    """A schedule that notes its uses."""

    def __init__(self) -> None:
        super().__init__(Timing(), 1.0, 0.0, rings=4, own=0)
        self.uses: list[tuple[int, int, bool, bool]] = []

    def note_use(self, rings: int, time: int, now: float, *, agreed: bool, foreign: bool) -> None:
        self.uses.append((rings, time, agreed, foreign))


def bundle(kind: BundleKind, level: ServiceLevel, *groups: str) -> Bundle:
    payload = encode_messages([(0, b"x")]) if kind == BundleKind.MESSAGES else b""
    made = decode_body_untrusted(encode_body(kind, level, 0, 1, groups, payload))
    made.address(1, "u", ())
    return made


def packet(*bundles: Bundle, ring: int = 1, time: int = 9, **more: Any) -> DataPacket:
    top = max(each.level for each in bundles)
    agreed, safe = top >= ServiceLevel.AGREED, top == ServiceLevel.SAFE
    return DataPacket(
        ring=ring,
        number=1,
        time=time,
        daemon=2,
        previous=0,
        bundles=list(bundles),
        in_agreed_order=agreed,
        safe=safe,
        **more,
    )


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def waiting(told: Told) -> WaitingRings:
    reach = Reach(VIEW, 0)
    reach.subscribe(3, "g")
    reach.subscribe(5, "h")
    reach.subscribe(4, "h")
    return WaitingRings(VIEW, 0, reach, told)


def note(waiting: WaitingRings, packet: DataPacket, **options: bool) -> None:
    waiting.note(packet, 1.0, **{"by_all": False, "early": False, **options})


MESSAGES, AGREED = BundleKind.MESSAGES, ServiceLevel.AGREED


@pytest.mark.parametrize(
    ("bundles", "rings"),
    [
        ([bundle(MESSAGES, AGREED, "g")], 0b0110),
        ([bundle(MESSAGES, AGREED, "g", "h")], 0b1110),
        ([bundle(MESSAGES, AGREED, "nobody")], 0b0010),
        ([bundle(MESSAGES, AGREED, "#u#d05")], 0b1010),
        ([bundle(MESSAGES, AGREED, "#u#d01")], 0b0011),
        ([bundle(MESSAGES, AGREED, "#u#gone")], 0b0010),
        ([bundle(MESSAGES, AGREED, "g"), bundle(MESSAGES, ServiceLevel.FIFO, "h")], 0b1110),
        ([bundle(MESSAGES, AGREED, "g"), bundle(MESSAGES, ServiceLevel.RELIABLE, "h")], 0b0110),
        ([bundle(MESSAGES, ServiceLevel.SAFE, "g")], ALL),
        ([bundle(BundleKind.JOIN, AGREED, "h")], 0b1010),
        ([bundle(BundleKind.CONNECT, AGREED)], 0b0010),
        ([bundle(BundleKind.DISCONNECT, AGREED)], ALL),
        ([keys_bundle(b"")], ALL),
    ],
)
def test_an_agreed_packet_concerns_its_receivers_and_its_senders(
    waiting: WaitingRings, told: Told, bundles: list[Bundle], rings: int
) -> None:
    note(waiting, packet(*bundles))
    assert told.uses == [(rings, 9, True, True)]


def test_a_header_concerns_the_ring_that_has_all_its_receivers(
    waiting: WaitingRings, told: Told
) -> None:
    note(waiting, packet(bundle(BundleKind.DISCONNECT, AGREED), pruned=True, ring=3))
    assert told.uses == [(0b1000, 9, True, True)]


def test_before_the_groups_are_known_all_wait(waiting: WaitingRings, told: Told) -> None:
    note(waiting, packet(bundle(MESSAGES, AGREED, "g"), ring=0), by_all=True)
    assert told.uses == [(ALL, 9, True, False)]


@pytest.mark.parametrize("level", [ServiceLevel.FIFO, ServiceLevel.CAUSAL])
def test_other_levels_wait_for_agreed_packets_before_them(
    waiting: WaitingRings, told: Told, level: ServiceLevel
) -> None:
    note(waiting, packet(bundle(MESSAGES, level, "h")))
    assert told.uses == [], "there is none"
    note(waiting, packet(bundle(MESSAGES, AGREED, "g"), time=5))
    note(waiting, packet(bundle(MESSAGES, level, "h")))
    note(waiting, packet(bundle(MESSAGES, level, "h")), early=True)
    note(waiting, packet(bundle(MESSAGES, level, "h"), time=4))
    assert told.uses[1:] == [(0b1010, time, False, True) for time in (5, 9, 4)]
    told.known_to_all = 5
    note(waiting, packet(bundle(MESSAGES, level, "h")))
    assert len(told.uses) == 4, "all have heard of a horizon above it"
    note(waiting, packet(bundle(MESSAGES, level, "h"), agreed=Stamp(7, 3), vector=(0,) * 4))
    assert told.uses[4:] == [(0b1010, 7, False, True)], "a cause that is not here yet"


def test_what_has_no_order_waits_for_nothing(waiting: WaitingRings, told: Told) -> None:
    note(waiting, packet(bundle(MESSAGES, ServiceLevel.RELIABLE, "h")), early=True)
    assert told.uses == [(0, 9, False, True)], "no ring"
