"""Wrong ways to trust datagrams."""

from groupcomm.security.layout import HEAD_BYTES, Channel, ReplayWindow
from groupcomm.security.opening import Decrypt, Opener, ReceiveChannel
from groupcomm.security.sealing import Sealer
from tests.verification.mutants.mutant import Right, mutant

_COUNTER_AT = HEAD_BYTES - 8


@mutant((ReplayWindow, "check"))
def replays_taken(_right: Right) -> Right:
    """A datagram that comes twice is accepted twice."""

    def check(_self: ReplayWindow, _counter: int) -> bool:
        return True

    return check


@mutant((Sealer, "seal"))
def seal_for_anyone(right: Right) -> Right:
    """The seal of a token does not name its receiver."""

    def seal(self: Sealer, packet: bytes, channel: Channel, _receiver: int | None = None) -> bytes:
        sealed: bytes = right(self, packet, channel)
        return sealed

    return seal


@mutant((Opener, "_open"))
def window_moved_by_forgery(right: Right) -> Right:
    """A replay window moves before it is known that a datagram is authentic."""

    def open_packet(
        self: Opener, lane: ReceiveChannel | None, decrypt: Decrypt, datagram: bytes, scope: int
    ) -> bytes:
        if lane is not None:
            lane.window.accept(int.from_bytes(datagram[_COUNTER_AT:HEAD_BYTES]))
        packet: bytes = right(self, lane, decrypt, datagram, scope)
        return packet

    return open_packet


BUGS = (replays_taken, seal_for_anyone, window_moved_by_forgery)
