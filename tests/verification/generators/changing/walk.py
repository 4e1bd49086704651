"""The walk: the deliveries of a view that has ended, by the rules of all that come along."""

from tests.verification.generators.changing.records import GeneratedRecovery, ViewPacket
from tests.verification.generators.records import AGREED, CAUSAL, RELIABLE, Bundle, Place, Session


def last_whole(union: GeneratedRecovery) -> list[int]:
    """Return per ring the time of the last packet before the first gap; 0 if there is none."""
    times = [0] * len(union.prefix)
    for packet in union.packets:
        if packet.number <= union.prefix[packet.ring]:
            times[packet.ring] = packet.time
    return times


def find_boundary(union: GeneratedRecovery, horizon: int, frontier: int) -> tuple[int, int] | None:
    """Return the stamp of the first packet of the transitional part; None if there is none."""
    for packet in union.packets:
        beyond = packet.time > horizon or (packet.is_safe and packet.time > frontier)
        if packet.is_agreed and beyond:
            return (packet.time, packet.ring)
    return None


class Walk:
    """The deliveries of the recovered set, packet by packet in the order of their stamps."""

    def __init__(self, union: GeneratedRecovery, start: int) -> None:
        self._recovery = union
        self._start = start
        self._numbers = union.numbers
        self._whole: set[tuple[int, int]] = set()  # packets that end an unbroken chain
        self._broken: set[Session] = set()  # sessions with a dropped bundle
        self._dropped: list[Bundle] = []

    def deliverable(self, packet: ViewPacket) -> list[Bundle]:
        """Return the bundles of the next packet that are not dropped."""
        if packet.previous is None or (packet.ring, packet.previous) in self._whole:
            self._whole.add((packet.ring, packet.number))
        if packet.daemon.identity in self._recovery.fellows:
            return packet.bundles
        return [bundle for bundle in packet.bundles if self._keep(packet, bundle)]

    def _keep(self, packet: ViewPacket, bundle: Bundle) -> bool:
        if bundle.level == RELIABLE:
            return True
        whole = (packet.ring, packet.number) in self._whole
        causes = bundle.level < CAUSAL or self._has_causes(packet)
        if whole and bundle.client not in self._broken and causes:
            return True
        self._broken.add(bundle.client)
        self._dropped.append(bundle)
        return False

    def _has_causes(self, packet: ViewPacket) -> bool:
        vector, agreed = packet.causes
        prefixes = self._recovery.prefix
        if any(number > prefix for number, prefix in zip(vector, prefixes, strict=True)):
            return False
        return not any(self._is_before(lost, vector, agreed, packet) for lost in self._dropped)

    def _is_before(
        self, lost: Bundle, vector: tuple[int, ...], agreed: Place, packet: ViewPacket
    ) -> bool:
        if lost.number == packet.number and lost.ring == packet.ring:
            return False
        if lost.level >= AGREED:
            return lost.key <= agreed
        return lost.number <= vector[lost.ring]
