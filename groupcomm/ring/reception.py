"""Reception: notice that packets of the ring's daemons do not arrive here, though tokens do.

Pure. ``now`` is in seconds. A network card may lose long datagrams only: then tokens and beacons
pass, retransmissions are lost like the packets, and the view would stay for ever with packets that
some daemon never gets. A daemon watches the first packet that it lacks of each stream. Holders of
it are the daemons whose rows in the token say that they hold all up to it. They answer requests at
each visit of the token, so a daemon that has been a holder for long is one whose packets do not
arrive.

Source: Amir et al., "The Totem Single-Ring Ordering and Membership Protocol", ACM TOCS 13(4), 1995:
failure to receive (fail_to_rcv_const). There all leave out the daemon that does not receive; here
that daemon knows whose packets it lacks, and does not count those as heard, so it stays with all
others.
"""

from typing import Final

from groupcomm.config.core import Timing
from groupcomm.stream.stream import Stream
from groupcomm.wire.token import Token

LACKING_TIMEOUTS: Final = 3
"""Token timeouts for which a packet is lacking before its holders count as not received."""

LACKING_VISITS: Final = 16
"""Visits of the token in that time, at least: in each of them a holder could answer."""


class _Lacking:
    """The first packet of a stream that is lacking here.

    Attributes:
        stream: the stream.
        held: all up to this number is held here.
        holders: the time since which each holder is known, and the visits since then, by place.
    """

    __slots__ = ("held", "holders", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.held = stream.held
        self.holders: dict[int, tuple[float, int]] = {}


class Reception:
    """The packets that one daemon lacks, and the daemons of the ring that hold them.

    Attributes:
        overdue: whether packets of a daemon do not arrive here, so that the view has to end.
    """

    __slots__ = ("_lacking", "_limit_s", "_me", "_members", "overdue")

    def __init__(
        self, members: tuple[int, ...], me: int, streams: list[Stream], timing: Timing
    ) -> None:
        self._members = members
        self._me = me
        self._lacking = [_Lacking(stream) for stream in streams]
        self._limit_s = LACKING_TIMEOUTS * timing.token_timeout_s
        self.overdue = False

    def on_token(self, token: Token, entered: frozenset[int], now: float) -> None:
        """Note which daemons hold what is lacking here, as the token that has just come says.

        Args:
            token: the token.
            entered: the rings whose packets come over a link here; the ring is not asked for them.
            now: seconds.
        """
        for lacking in self._lacking:
            stream = lacking.stream
            if stream.held != lacking.held or stream.ring in entered:
                lacking.held = stream.held
                if lacking.holders:
                    lacking.holders.clear()
            elif stream.known > lacking.held:
                self._note_holders(lacking, token, now)

    def _note_holders(self, lacking: _Lacking, token: Token, now: float) -> None:
        ring, held, holders = lacking.stream.ring, lacking.held, lacking.holders
        for place, row in enumerate(token.rows):
            if row.held[ring] > held and self._members[place] != self._me:  # others may lie
                since, visits = holders.get(place, (now, 0))
                holders[place] = since, min(visits + 1, LACKING_VISITS)
                if visits == LACKING_VISITS and now >= since + self._limit_s:
                    self.overdue = True

    def not_received(self, now: float) -> set[int]:
        """Return the daemons whose packets have not arrived for half the time, as a view ends.

        Others end the view as soon as one daemon does; all that lack the same packets then leave
        out the same daemons. Otherwise they would wait for these packets in the recovery.
        """
        return {
            self._members[place]
            for lacking in self._lacking
            if lacking.stream.held == lacking.held
            for place, (since, visits) in lacking.holders.items()
            if 2 * visits >= LACKING_VISITS and now >= since + self._limit_s / 2
        }
