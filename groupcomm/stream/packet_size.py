"""Packet size: how large the packets are that a daemon numbers, and how large its datagrams.

Pure. A packet costs the daemons of a ring about as much as forty more segments of it do, so packets
are as large as possible while nothing is lost. A packet of which one segment is lost is sent again
as a whole, so they become smaller where packets are lost: a half once a quarter of them was sent
again, and larger by a half while less than a sixteenth was. With a loss of one segment in a
thousand they keep their size; with one in twenty they have about one segment, as without segments.

A packet has one bundle at least, so programs that send large bundles make large packets even then.

The system says which datagrams a path carries, but large ones may be lost silently (a *black hole*,
RFC 2923). If a packet was sent again and again in vain, datagrams become as small as is safe, in
two steps; after a while the path is tried again. While views change they are that small at once.

Source: RFC 8899 (DPLPMTUD), section 4.3, for the black hole. Here requests in the token take the
place of probes.
"""

from typing import Final

from groupcomm.config.view import SAFE_PACKET_BYTES
from groupcomm.security.layout import HEAD_BYTES, MAX_DATAGRAM_BYTES, SEAL_BYTES
from groupcomm.wire.segments import SEGMENT_HEAD_BYTES

SEALED_BYTES: Final = HEAD_BYTES + SEAL_BYTES
"""The bytes that head and seal add to a packet."""

SMALLER_PART: Final = 4
LARGER_PART: Final = 16
LEAST_PACKETS: Final = 8
"""Packets become smaller or larger after as many, so one loss alone decides nothing."""

WAIT_VISITS: Final = 3
"""Visits of the token in which repairs still belong to the time before the size changed."""

LOOPBACK_BYTES: Final = 65_000
"""Only loopback carries such datagrams, and it has no black holes."""

NARROW_S: Final = 60.0
"""The time for which a black hole is believed, before the path is tried again."""


class PacketSize:
    """The size of packets and datagrams of one daemon, over all views.

    Attributes:
        bytes: the bytes of a full packet, from now on.
        usual: the bytes of a full packet, or of the mean of the latest if these are larger.
        segments: the number of segments of such a packet.
        datagram_bytes: the largest datagram that is sent in one piece; larger ones go in segments.
        numbered: packets that were numbered since the last visit of the token.
        adapts: whether sizes follow what visits of the token show.
        is_new: whether the shell does not know yet how large datagrams are, or for whom.
    """

    __slots__ = (
        "_again",
        "_least_most",
        "_mean",
        "_most",
        "_narrow_bytes",
        "_narrow_until",
        "_packets",
        "_path_bytes",
        "_sent",
        "_usual_bytes",
        "_wait",
        "adapts",
        "bytes",
        "datagram_bytes",
        "is_new",
        "numbered",
        "segments",
        "usual",
    )

    def __init__(self, packet_limit: int) -> None:
        """Begin; datagrams of `packet_limit` and a seal count as usual on every path."""
        self._usual_bytes = self._path_bytes = self.datagram_bytes = packet_limit + SEALED_BYTES
        self._least_most = self._most = self.bytes = packet_limit
        self._narrow_until = 0.0
        self._narrow_bytes = 0  # what counts until then; 0: the path is believed
        self._sent = self._again = self._packets = self._wait = 0
        self._mean = self.numbered = 0
        self.adapts = self.is_new = False
        self._update()

    def begin_view(self, most: int) -> None:
        """Begin a view whose packets have at most so many bytes."""
        grown = most > self._most
        self._most = most
        self.adapts = most != self._least_most or self._narrow_bytes > 0
        self.bytes = most if grown else min(self.bytes, most)
        self._use(self._narrow_bytes or self._path_bytes)

    def end_view(self) -> None:
        """End a view: what is exchanged now has to arrive."""
        if self._most > self._least_most:
            self._use(self.safe_bytes)

    def use_path(self, datagram_bytes: int) -> None:
        """Use the size of datagrams that the system says the paths of the ring carry.

        Args:
            datagram_bytes: without the heads of IP and UDP. A little more than the usual size
                changes nothing: tunnels take some of it without a word.
        """
        usual = self._usual_bytes
        path = datagram_bytes if datagram_bytes >= 2 * usual else min(datagram_bytes, usual)
        path = max(SAFE_PACKET_BYTES // 2, min(path, MAX_DATAGRAM_BYTES))
        if path != self._path_bytes:
            self._path_bytes = path
            self._narrow_bytes = 0
            self._use(path)

    def _use(self, datagram_bytes: int) -> None:
        self.datagram_bytes = datagram_bytes
        self.is_new = True
        self.bytes = max(self.bytes, self.least)
        self._reset()

    def _reset(self) -> None:
        self._sent = self._again = self._packets = 0
        self._wait = WAIT_VISITS
        self._update()

    @property
    def least(self) -> int:
        """Return the bytes of a packet that is never cut."""
        return min(self._most, self.datagram_bytes - SEALED_BYTES)

    def _update(self) -> None:
        self.usual = max(self.bytes, self._mean)
        size, room = self.usual + SEALED_BYTES, self.datagram_bytes - SEGMENT_HEAD_BYTES
        self.segments = 1 if size <= self.datagram_bytes else -(-size // room)

    def token_returned(self, sent: int, again: int, now: float) -> None:
        """Adapt the sizes, once for each visit of the token.

        Args:
            sent: the bytes that were numbered at the visit before.
            again: the bytes of this daemon's packets that were sent again since.
            now: seconds.
        """
        if self._narrow_bytes and now >= self._narrow_until:
            self._narrow_bytes = 0
            self._use(self._path_bytes)
        if self._most == self._least_most:
            return  # nothing travels in segments
        self._packets, self.numbered = self._packets + self.numbered, 0
        self._sent += sent
        self._again += again
        if self._packets:
            self._mean = self._sent // self._packets
            self._update()
        some = LEAST_PACKETS * self.usual
        if self._wait:
            self._wait -= 1
        elif self._again * SMALLER_PART > max(self._sent, some):
            self.bytes = max(self.least, self.bytes // 2)
            self._reset()
        elif self._sent >= some:
            if self._again * LARGER_PART < self._sent:
                self.bytes = min(self._most, self.bytes + self.bytes // 2)
                self._update()
            self._sent = self._again = self._packets = 0

    def sent_in_vain(self, now: float) -> None:
        """Send smaller datagrams for a while: the usual ones, or those that pass every path."""
        usual = self._usual_bytes
        smaller = usual if self.datagram_bytes > usual else self.safe_bytes
        if smaller < self.datagram_bytes < LOOPBACK_BYTES:
            self._narrow_bytes, self._narrow_until = smaller, now + NARROW_S
            self._use(smaller)

    @property
    def safe_bytes(self) -> int:
        """Return the bytes of a datagram that passes every path."""
        return min(self._usual_bytes, SAFE_PACKET_BYTES + SEALED_BYTES)
