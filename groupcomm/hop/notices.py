"""Horizon notices that wait to go the same way: they leave together, in few packets.

Pure. ``now`` is in seconds. Of each ring only the newest is of use.
"""

from math import inf

from groupcomm.wire.horizon import HORIZON_HEAD_BYTES, horizon_packet


class WaitingNotices:
    """What waits for one link, or for the own ring.

    Attributes:
        due: when they leave; inf if none waits.
    """

    __slots__ = ("_encoded", "_key", "_room", "due")

    def __init__(self, key: bytes, packet_limit: int) -> None:
        self._key = key
        self._room = packet_limit - HORIZON_HEAD_BYTES
        self._encoded: dict[int, bytes] = {}  # by ring
        self.due = inf

    def add(self, ring: int, encoded: bytes, due: float) -> None:
        """Have a ring's notice leave at `due` at the latest, in the place of an older one."""
        self._encoded[ring] = encoded
        self.due = min(self.due, due)

    def take(self, now: float) -> list[bytes]:
        """The packets that are to leave now."""
        if now < self.due:
            return []
        packets: list[list[bytes]] = [[]]
        room = self._room
        for _, encoded in sorted(self._encoded.items()):
            if len(encoded) > room and packets[-1]:
                packets.append([])
                room = self._room
            packets[-1].append(encoded)
            room -= len(encoded)
        self._encoded.clear()
        self.due = inf
        return [horizon_packet(self._key, packet) for packet in packets]
