"""The invariants of the order, always on.

They stand apart from the code that keeps them, so that each is said once, in the words of the
design. An AssertionError here is a bug of groupcomm, never an input's fault.
"""

from groupcomm.stream.stream import Stream
from groupcomm.wire.data import DataPacket


def assert_stamps_rise(stream: Stream, packet: DataPacket) -> None:
    """Stamps of a stream strictly rise."""
    before = stream.packets.get(packet.number - 1)
    after = stream.packets.get(packet.number + 1)
    assert before is None or before.time < packet.time, f"stamp falls at packet {packet.number}"
    assert after is None or packet.time < after.time, f"stamp falls after packet {packet.number}"


def assert_promise_kept(packet: DataPacket, block: int) -> None:
    """No ring originates at or below a horizon that counts here."""
    assert packet.time > block, (
        f"packet {packet.number} of ring {packet.ring} is stamped {packet.time},"
        f" at or below the horizon {block} of its ring"
    )


def assert_in_order(packet: DataPacket, done: tuple[int, int], least_block: int) -> None:
    """Agreed packets go out by rising stamp, none beyond a block."""
    assert (packet.time, packet.ring) > done, f"stamp {packet.time} is delivered after {done}"
    assert packet.time <= least_block, f"stamp {packet.time} is beyond the block {least_block}"


def assert_causes_delivered(packet: DataPacket, stream: Stream, lowest_pending: int) -> None:
    """Before an agreed packet everything of a lower stamp is delivered, of every level."""
    pending = stream.packets.get(lowest_pending)
    assert pending is None or pending.time >= packet.time, (
        f"packet {lowest_pending} of ring {stream.ring} is undelivered below stamp {packet.time}"
    )
