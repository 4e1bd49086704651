"""The walk as one would write it who knows all of a view's history; slow, and nothing shared.

From docs/design.md, the walk: packets of members and RELIABLE ones are delivered; any other only if
the union holds its daemon's chain up to it and its session's earlier messages at FIFO or above are
delivered (a daemon's own at FIFO, those of session 0, wait for the chain alone) and, from CAUSAL
up, also everything up to V and A.
"""

from collections.abc import Mapping

from groupcomm.clocks.stamp import Stamp
from groupcomm.level import ServiceLevel
from groupcomm.wire.data import DataPacket

Number = tuple[int, int]
"""Ring and number of a packet."""

Id = tuple[int, int, int]
FIFO, CAUSAL, AGREED, SAFE = tuple(ServiceLevel)[2:]


def by_stamp(packets: Mapping[Number, DataPacket]) -> list[DataPacket]:
    return sorted(packets.values(), key=lambda packet: (packet.time, packet.ring))


def chain_of(packet: DataPacket, known: Mapping[Number, DataPacket]) -> list[DataPacket]:
    """All packets of its daemon before it, the first one first."""
    chain: list[DataPacket] = []
    while packet.previous:
        packet = known[packet.ring, packet.previous]
        chain.insert(0, packet)
    return chain


def walk(
    known: Mapping[Number, DataPacket], recovered_set: set[Number], fellows: frozenset[int]
) -> set[Id]:
    """Return the deliveries of the recovered set.

    Args:
        known: every packet that was ever numbered, with V and A filled in.
        union: the packets that any daemon of those that come along holds, or held.
        fellows: the daemons whose packets are delivered whatever is missing.
    """
    given: set[Id] = set()
    for packet in by_stamp({number: known[number] for number in recovered_set}):
        chain = chain_of(packet, known)
        whole = all((one.ring, one.number) in recovered_set for one in chain)
        for place, bundle in enumerate(packet.bundles):
            earlier = [
                (one.ring, one.number, at)
                for one in [*chain, packet]
                for at, before in enumerate(one.bundles)
                if before.session == bundle.session
                and not bundle.is_notice
                and before.level >= FIFO
                and (one is not packet or at < place)
            ]
            fifo = whole and given.issuperset(earlier)
            causal = fifo and (
                bundle.level < CAUSAL or _has_causes(packet, known, recovered_set, given)
            )
            if packet.daemon in fellows or bundle.level < FIFO or causal:
                given.add((packet.ring, packet.number, place))
    return given


def _has_causes(
    packet: DataPacket,
    known: Mapping[Number, DataPacket],
    recovered_set: set[Number],
    given: set[Id],
) -> bool:
    vector, agreed = packet.vector, packet.agreed
    assert vector is not None
    assert agreed is not None
    for number, one in known.items():
        below = number[1] <= vector[number[0]]
        if below and number not in recovered_set:
            return False
        for place, bundle in enumerate(one.bundles):
            cause = below if bundle.level < AGREED else Stamp(one.time, one.ring) <= agreed
            if bundle.level >= FIFO and cause and (*number, place) not in given:
                return False
    return True


def boundary(
    packets: Mapping[Number, DataPacket], horizon: int, frontier: int
) -> tuple[int, int] | None:
    """The stamp of the first packet of the transitional part."""
    for packet in by_stamp(packets):
        top = max(bundle.level for bundle in packet.bundles)
        if top >= AGREED and packet.time > horizon:
            return packet.time, packet.ring
        if top == SAFE and packet.time > frontier:
            return packet.time, packet.ring
    return None
