"""What the holder of the token tells everybody: rest notices, and horizons for other rings."""

from math import inf

from groupcomm.clocks.ring_clock import RingClock
from groupcomm.config.core import Timing
from groupcomm.config.view import RING, View
from groupcomm.ring.far import tell_after
from groupcomm.ring.host import Host
from groupcomm.ring.notices import HeldTold, NoticeSchedule
from groupcomm.ring.visit import held_by_ring
from groupcomm.wire.horizon import HorizonNotice
from groupcomm.wire.rest import RestNotice
from groupcomm.wire.token import Token


class Announcer:
    """One daemon's announcements while it has the token.

    Attributes:
        rest_at: when the next rest notice is due.
        horizon_at: when the next horizon notice is owed, as of the last look; inf with one ring.
        notices: how often horizons are announced.
        tell_after: so many packets more of a stream than was told are to be told.
    """

    __slots__ = (
        "_clock",
        "_fellows",
        "_held",
        "_host",
        "_key",
        "_me",
        "_ring",
        "_rings",
        "_timing",
        "horizon_at",
        "notices",
        "rest_at",
        "tell_after",
    )

    def __init__(
        self,
        view: View,
        me: int,
        timing: Timing,
        *,
        clock: RingClock,
        host: Host,
        now: float,
    ) -> None:
        self._ring = view.ring_of[me]
        self._fellows = len(view.rings[self._ring]) - 1
        self._me = me
        self._key = view.key
        self._timing = timing
        self._rings = len(view.rings)
        self.tell_after = tell_after(view.packet_limit)
        self._held = HeldTold(len(view.rings), timing.rest_interval_s)
        self._clock = clock
        self._host = host
        self.notices = NoticeSchedule(timing, view.longest_delay_s, now)
        self.rest_at = now
        self.horizon_at = inf

    def rest(self, token: Token, now: float) -> None:
        """The token rests here, and all hold its stream."""
        horizon = self._clock.advance(now)
        self.rest_at = now + self._timing.rest_interval_s
        self._host.promise(horizon, token.last)
        if not self._fellows:
            return
        notice = RestNotice(
            ring=self._ring,
            hop=token.hop,
            holder=self._me,
            last=token.last,
            horizon=horizon,
            frontiers=[row.frontier for row in token.rows],
        )
        self._host.send(RING, notice.encode(self._key))

    def horizon_if_due(self, token: Token, frontier: int, now: float) -> None:
        """Tell other rings how far this one is, if they are to hear of it now.

        Args:
            token: which is here.
            frontier: of the ring, by the token when it was here last.
            now: the time.
        """
        if self._rings == 1:
            return
        held = [held_by_ring(token, ring) for ring in range(self._rings)]
        self._look(held, frontier, now)
        if self.horizon_at > now:
            return
        horizon = self._clock.promise(now, above=self.notices.announced)
        notice = HorizonNotice(
            ring=self._ring,
            horizon=horizon,
            upto=token.last,
            frontier=frontier,
            unsettled=self._host.holds_packets,
            held=self._held.tell(held, now),
        )
        self.notices.issued(now, frontier, horizon)
        self._look(held, frontier, now)
        self._host.promise(horizon, token.last)
        self._host.announce(notice)

    def _look(self, held: list[int], frontier: int, now: float) -> None:
        self.horizon_at = self.notices.due_at(
            now,
            safe_waits=self._host.safe_waits(self.notices.announced_frontier, frontier),
            holds_packets=self._host.holds_packets,
            holds_more=self._held.lags(held, self.tell_after),
        )
