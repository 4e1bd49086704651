"""Admission: checks that a packet, or a horizon, fits the packets that a daemon holds of the view.

A correct daemon gives each number of a stream once, with rising stamps, above the horizons that it
has promised, and puts each packet after its last one. A packet that does not fit has come from a
broken daemon, or after another packet that had. It is refused, as the order would break an
invariant of its own. Nothing is changed here. A packet that comes in order costs a few comparisons.
"""

from bisect import bisect_left
from collections.abc import Sequence

from groupcomm.errors import Contradiction, ProtocolViolation
from groupcomm.order.chain import Chain
from groupcomm.order.horizons import Blocks
from groupcomm.stream.stream import MAX_AHEAD, Stream
from groupcomm.wire.data import DataPacket


def too_far(reason: str, number: int, stream: Stream) -> ProtocolViolation:
    """Return the error for a number that no window allows.

    Correct daemons hold a stream to points that are less than a window apart. So the sender of a
    number that is just too far may have accepted it itself, and nobody is to blame.
    """
    text = f"number {number} of ring {stream.ring} is beyond any window: {stream.held} are held"
    if number > stream.held + 2 * MAX_AHEAD:
        return ProtocolViolation(reason, text)
    return Contradiction(reason, text)


class Admission:
    """The checks of one daemon in one view."""

    __slots__ = ("_blocks", "_chains", "_streams")

    def __init__(self, streams: list[Stream], chains: Sequence[Chain], blocks: Blocks) -> None:
        self._streams = streams
        self._chains = chains
        self._blocks = blocks

    def check(self, packet: DataPacket) -> None:
        """Raise ProtocolViolation if a new packet does not fit the packets that are here."""
        stream = self._streams[packet.ring]
        self.check_stamp(packet)
        if packet.vector is not None:
            self._check_causes(packet)
        chain = self._chains[packet.daemon]
        if packet.previous == chain.last:
            self._check_references(packet, chain)
        elif packet.previous <= stream.held or packet.previous in chain.early:
            raise Contradiction(
                "chain",
                f"packet {packet.number} of ring {packet.ring} follows {packet.previous} of its"
                f" daemon, whose last one was {chain.last}",
            )
        else:
            self._check_owner(stream, packet.previous, packet)
        if stream.early and packet.number == stream.held + 1:
            self._check_run(packet, stream)

    def check_stamp(self, packet: DataPacket) -> None:
        """Raise ProtocolViolation if a packet's number or stamp does not fit its stream."""
        ring, number, time = packet.ring, packet.number, packet.time
        stream = self._streams[ring]
        if number > stream.held + MAX_AHEAD:
            raise too_far("number", number, stream)
        if time <= self._blocks.values[ring]:
            raise Contradiction(
                "stamp",
                f"packet {number} of ring {ring} is stamped {time}, at or below the horizon"
                f" {self._blocks.values[ring]} of its ring",
            )
        last = stream.packets.get(stream.held)
        # While a view is frozen its blocks do not show this.
        if last is not None and time <= last.time:
            raise Contradiction(
                "stamp",
                f"packet {number} is stamped {time}, not above {last.time} of packet {stream.held}",
            )
        if stream.early:
            self._check_adjacent_stamps(stream, number, time)
        for upto, value in self._blocks.pending(ring):
            if upto < number and time <= value:
                raise Contradiction(
                    "stamp",
                    f"packet {number} is stamped {time}, and after {upto} all are above {value}",
                )

    def _check_adjacent_stamps(self, stream: Stream, number: int, time: int) -> None:
        """Raise Contradiction unless stamps rise with the numbers."""
        early, packets = stream.early, stream.packets
        place = bisect_left(early, number)
        before = packets[early[place - 1]].time if place else 0
        after = packets[early[place]].time if place < len(early) else time + 1
        if not before < time < after:
            raise Contradiction(
                "stamp",
                f"packet {number} is stamped {time}, its neighbours {before} and {after}",
            )

    def _check_causes(self, packet: DataPacket) -> None:
        """Raise unless the causes that a packet names can have been there before it."""
        assert packet.vector is not None
        assert packet.agreed is not None
        streams = self._streams
        if packet.agreed.time >= packet.time or packet.vector[packet.ring] >= packet.number:
            raise ProtocolViolation("causes", f"packet {packet.number} is its own cause")
        for stream, number in zip(streams, packet.vector, strict=True):
            if number > stream.held + MAX_AHEAD:
                raise too_far("causes", number, stream)

    # ---- chains ----

    def _check_references(self, packet: DataPacket, chain: Chain) -> None:
        """Raise unless a packet, and those that wait for it, refer to the last full causes."""
        full = chain.full
        follower: DataPacket | None = packet
        while follower is not None:
            if follower.vector is not None:
                full = follower.number
            elif follower.reference and follower.reference != full:
                text = (
                    f"packet {follower.number} refers to {follower.reference} for its causes, and"
                    f" the last packet of its daemon that has them in full is {full}"
                )
                raise Contradiction("causes", text)
            follower = chain.early.get(follower.number)

    def _check_owner(self, stream: Stream, number: int, packet: DataPacket) -> None:
        """Raise Contradiction if a packet follows one of another daemon."""
        other = stream.packets.get(number)
        if other is not None and other.daemon != packet.daemon:
            raise Contradiction(
                "chain",
                f"packet {packet.number} follows {number}, which daemon {other.daemon} numbered",
            )

    def _check_run(self, packet: DataPacket, stream: Stream) -> None:
        """Raise unless the packets after a gap that closes follow those of their daemons."""
        lasts = {packet.daemon: packet.number}
        number = packet.number
        for early in stream.early:
            number += 1
            if early != number:
                return
            other = stream.packets[early]
            last = lasts.get(other.daemon)
            if last is None:
                last = self._last_below(other, packet.number)
            if other.previous != last:
                text = f"packet {early} follows {other.previous} of its daemon, not {last}"
                raise Contradiction("chain", text)
            lasts[other.daemon] = early

    def _last_below(self, packet: DataPacket, number: int) -> int:
        """Return the last packet of a daemon below a gap; its chain may have later ones already."""
        chain = self._chains[packet.daemon]
        return packet.previous if chain.last >= packet.number else chain.last

    # ---- horizons ----

    def check_horizon(self, ring: int, value: int, upto: int) -> None:
        """Raise ProtocolViolation if a packet that is here breaks a promise."""
        stream = self._streams[ring]
        if upto > stream.held + MAX_AHEAD:
            raise too_far("horizon", upto, stream)
        if value <= self._blocks.values[ring]:
            return
        broken = upto < stream.held  # the block is at the stamp of the last held packet, or above
        if not broken and stream.early and stream.early[-1] > upto:
            behind = stream.early[bisect_left(stream.early, upto + 1)]
            broken = stream.packets[behind].time <= value
        if broken:
            raise Contradiction(
                "horizon",
                f"a packet held here breaks horizon {value} after packet {upto} of ring {ring}",
            )
