"""Segments in simulated networks: the paths of a run, and what one daemon cuts and joins.

Each segment is a datagram of its own to the faults of a path, so it is lost, copied, held or
damaged alone. A daemon's system says what the paths of its site carry; in a black hole they carry
less, and do not say so.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from groupcomm.engine import Segmentation, Transmission
from groupcomm.sim.faults.paths import Forged
from groupcomm.wire.segments import SEGMENT_VERSION, Cutter, Joiner, train_of

_SENDER: Final = slice(13, 21)


@attrs.frozen(kw_only=True)
class SitePaths:
    """What the paths within the sites of a run carry.

    Attributes:
        said_bytes: the largest datagram that the systems say passes in one piece.
        true_bytes: the largest that does; larger ones up to `said_bytes` are lost in silence.
        segmented_limit: the bytes of the largest packet that travels in segments.
    """

    said_bytes: int
    true_bytes: int
    segmented_limit: int


class SegmentedSends:
    """The segments that one simulated daemon sends and receives."""

    def __init__(self) -> None:
        self._cutter = Cutter()
        self.joiner = Joiner()
        self._segmentation = Segmentation(frozenset(), 0)
        self._damaged: set[bytes] = set()  # the names of trains with a forged segment

    def use(self, segmentation: Segmentation) -> None:
        """Cut these datagrams from now on."""
        self._segmentation = segmentation

    def cut(self, transmissions: Sequence[Transmission]) -> list[Transmission]:
        """Return the same datagrams, the large ones of them in segments, as the daemon does."""
        found, used = list[Transmission](), self._segmentation
        for target, datagram in transmissions:
            names = used.names if target is None else used.names & {target}
            if len(datagram) <= used.datagram_bytes or not names:
                found.append((target, datagram))
                continue
            size = used.datagram_bytes
            train = self._cutter.cut(datagram, size)
            segments = [train[at : at + size] for at in range(0, len(train), size)]
            found += [(name, segment) for name in sorted(names) for segment in segments]
        return found

    def join(self, arrived: bytes) -> bytes | None:
        """Return a datagram that has arrived, or that its last segment completes; else None.

        One with a forged segment is Forged.
        """
        if arrived[:1] != b"%c" % SEGMENT_VERSION:
            return arrived
        source, name = arrived[_SENDER], train_of(arrived)
        before = self.joiner.segments_of(source, name)
        if not before:  # an earlier train of this name may have been given up
            self._damaged.discard(name)
        joined = self.joiner.accept_untrusted(source, bytes(arrived), len(arrived))
        if type(arrived) is Forged and (joined or self.joiner.segments_of(source, name) > before):
            self._damaged.add(name)
        if not joined:
            return None
        damaged = name in self._damaged
        self._damaged.discard(name)
        return Forged(joined[0]) if damaged else joined[0]
