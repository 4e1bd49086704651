"""The largest packets that daemons can come to: messages about views fit into their parts."""

import pytest
from msgspec import structs

from groupcomm.config.core import CoreConfig
from groupcomm.config.shared import shared_settings
from groupcomm.config.view import (
    MAX_DAEMONS,
    MAX_RINGS,
    MOST_OF_SITE,
    SAFE_PACKET_BYTES,
    Incarnation,
)
from groupcomm.link.forwarding import REQUEST_RANGES
from groupcomm.wire.control import MAX_PARTS, cut_message
from groupcomm.wire.horizon import MOST_HELD, HorizonNotice, HorizonPacket
from groupcomm.wire.link import MAX_ACK_RANGES, Acknowledgement, ResendRequest
from groupcomm.wire.membership import (
    MAX_HELD_RANGES,
    MAX_MISSING,
    MAX_NOTICES,
    Commit,
    ControlMessage,
    Holding,
    Join,
    Past,
    Proposal,
    Seat,
    Settings,
    decode_message_untrusted,
    encode_message,
    most_reported,
)
from groupcomm.wire.token import RestNotice

LARGEST = 2**64 - 2**33
SMALLEST_PACKET = 600
"""The least `packet_bytes` of a configuration."""


def settings() -> Settings:
    """The settings of a cluster of as many daemons as there may be, with long names and keys."""
    names = [f"{n:04}" + "d" * 251 for n in range(MAX_DAEMONS)]
    advised = tuple((f"sites.s.daemons.{name}", ("ü" * 300,) * 8) for name in names)
    sites = tuple(tuple(names[at::64]) for at in range(64))
    config = CoreConfig(sites=sites, advised=advised)
    own = shared_settings(config)
    return Settings(name=names[0], digests=own.digests, required=own.required, advised=own.advised)


def spans(count: int) -> tuple[tuple[int, int], ...]:
    first = LARGEST - 4 * count
    return tuple((first + 4 * n, first + 4 * n + 1) for n in range(count))


def join(rings: int) -> Join:
    held, notices = most_reported(rings)
    holding = Holding(LARGEST, spans(held), spans(notices), LARGEST)
    return Join(
        attempt=LARGEST,
        name="d" * 255,
        digests=bytes(16),
        heard=spans(MAX_DAEMONS),
        reading=LARGEST,
        clock=LARGEST,
        counter=LARGEST,
        mark=LARGEST,
        past=Past(bytes(16), (holding,) * rings, (MAX_DAEMONS,) * MAX_DAEMONS),
        spoken=(1, 1, 0),
    )


def commit() -> Commit:
    bits = bytes(MAX_DAEMONS // 8)
    seats = [Seat(LARGEST + n, LARGEST, LARGEST, LARGEST, bits) for n in range(MAX_DAEMONS)]
    missing = (spans(MAX_MISSING),) * MAX_RINGS
    return Commit(LARGEST, Proposal(tuple(seats)), False, False, missing)


@pytest.mark.parametrize(
    "message",
    [join(1), join(2), join(5), join(9), join(MAX_RINGS), commit(), settings()],
    ids=lambda _: "",
)
def test_it_is_cut_into_parts_and_accepted(message: ControlMessage) -> None:
    kind, body = encode_message(message)
    parts = cut_message(1, Incarnation(1, 1), 1, kind, body, SMALLEST_PACKET)
    assert len(parts) <= MAX_PARTS
    assert decode_message_untrusted(kind, body) == message


def test_few_rings_are_reported_in_full() -> None:
    assert most_reported(1) == most_reported(4) == (MAX_HELD_RANGES, MAX_NOTICES)
    assert structs.asdict(join(4))["past"].holdings[0].spans == spans(MAX_HELD_RANGES)


def test_a_notice_to_all_rings_and_a_request_for_many_packets_fit_the_smallest_packet() -> None:
    held = [(ring, LARGEST) for ring in range(MAX_RINGS - MOST_HELD, MAX_RINGS)]
    notice = HorizonNotice(
        ring=MAX_RINGS - 1,
        horizon=LARGEST,
        upto=LARGEST,
        frontier=LARGEST,
        unsettled=True,
        held=held,
        targets=2**MAX_RINGS - 1,
    )
    request = ResendRequest(ring=1, asker=1, ranges=[(LARGEST, LARGEST)] * REQUEST_RANGES)
    ack = Acknowledgement(sender=1, delay_us=1, ranges=[(LARGEST, LARGEST)] * MAX_ACK_RANGES)
    rest = RestNotice(
        ring=1,
        hop=1,
        holder=1,
        last=LARGEST,
        horizon=LARGEST,
        frontiers=[LARGEST] * MOST_OF_SITE,
        deliverable=LARGEST,
    )
    key = bytes(16)
    packets = [HorizonPacket(notices=[notice]).encode(key), request.encode(key), ack.encode(key)]
    assert [len(each) for each in packets if len(each) > SMALLEST_PACKET] == []
    assert len(rest.encode(key)) <= SAFE_PACKET_BYTES
