"""Whether what is told of the token, of horizons and of links can be true, by what is known here.

Pure. Nothing is changed: what fails is refused before it can lead this daemon to break a rule of
its own. A value that a daemon in order would have refused itself is its sender's fault; one that
it may have taken over from another daemon is a contradiction, for which nobody is blamed.
"""

from typing import Final

from groupcomm.clocks.latest import LatestTime
from groupcomm.config.view import View
from groupcomm.engine.delivery import Delivery
from groupcomm.errors import Contradiction, ProtocolViolation
from groupcomm.order.admission import too_far
from groupcomm.ring.ring import Ring, TokenState
from groupcomm.stream.stream import MAX_AHEAD
from groupcomm.wire.held import HeldNotice
from groupcomm.wire.horizon import HorizonNotice
from groupcomm.wire.request import TokenRequest
from groupcomm.wire.resend import ResendRequest
from groupcomm.wire.rest import RestNotice
from groupcomm.wire.token import Token

MOST_HOPS: Final = 2**32
"""By which a token may have moved on since it was heard of last: years of passing it."""


class Plausible:
    """Of one daemon in one view.

    Args:
        view: the view.
        me: index of this daemon.
        ring: its ring.
        delivery: its streams and order.
        latest: the latest time that can be true.
    """

    __slots__ = ("_delivery", "_latest", "_me", "_own_ring", "_place", "_ring", "_streams", "_view")

    def __init__(
        self, view: View, me: int, ring: Ring, delivery: Delivery, latest: LatestTime
    ) -> None:
        self._view = view
        self._me = me
        self._own_ring = view.ring_of[me]
        self._place = view.rings[self._own_ring].index(me)
        self._ring = ring
        self._streams = delivery.streams
        self._delivery = delivery
        self._latest = latest

    # ---- the token ----

    def check_token(self, token: Token) -> None:
        """Raise ProtocolViolation if a token that was not here yet cannot be the ring's."""
        self._check_hop(token.hop)
        self._latest.check(token.clock)
        self._check_rows(token)
        for ring, first, last in token.requests:
            self._check_range(ring, first, last)
        stream = self._streams[self._own_ring]
        if token.last > stream.held + MAX_AHEAD:
            raise too_far("token", token.last, stream)
        if self._ring.state is not TokenState.AWAY:
            raise Contradiction("token", f"hop {token.hop}, and the token is here")
        if token.last < stream.known:
            raise Contradiction("token", f"last {token.last}, where {stream.known} are known")
        row = token.rows[self._place]
        held = any(told > s.held for told, s in zip(row.held, self._streams, strict=True))
        if held or row.frontier > self._delivery.order.frontier:
            raise Contradiction("token", "it tells of this daemon what that never told")

    def _check_rows(self, token: Token) -> None:
        ring, last, sent = self._own_ring, token.last, 0
        for row in token.rows:
            self._latest.check(row.frontier)
            sent += row.sent
            if row.held[ring] > last:
                raise ProtocolViolation("token", f"{row.held[ring]} are held of {last}")
            for stream, held in zip(self._streams, row.held, strict=True):
                if held > stream.held + MAX_AHEAD:
                    raise too_far("token", held, stream)
        if sent != token.burst:
            raise ProtocolViolation("token", f"a burst of {token.burst}, where {sent} were sent")

    def _check_hop(self, hop: int) -> None:
        if hop > self._ring.monitor.hop + MOST_HOPS:
            raise ProtocolViolation("hop", f"{hop}, after {self._ring.monitor.hop}")

    def _check_range(self, ring: int, first: int, last: int) -> None:
        stream = self._streams[ring]
        if not first:
            raise ProtocolViolation("number", f"{first} to {last} of ring {ring} are asked for")
        if last > stream.held + MAX_AHEAD:
            raise too_far("number", last, stream)

    def check_rest(self, notice: RestNotice, sender: int) -> None:
        """Raise ProtocolViolation if the token cannot rest like that."""
        if notice.holder != sender:
            raise ProtocolViolation("sender", f"daemon {sender} tells that {notice.holder} rests")
        self._check_hop(notice.hop)
        self._latest.check(notice.horizon)
        for frontier in notice.frontiers:
            self._latest.check(frontier)
        held = self._streams[self._own_ring].held
        if notice.last > held:
            raise Contradiction("rest", f"all hold {notice.last}, and here {held} are held")
        if notice.frontiers[self._place] > self._delivery.order.frontier:
            raise Contradiction("rest", "a frontier of this daemon that it never told")
        if self._ring.state is not TokenState.AWAY and notice.hop > self._ring.monitor.hop:
            raise Contradiction("rest", f"hop {notice.hop}, and the token is here")
        self._delivery.order.admission.check_horizon(notice.ring, notice.horizon, notice.last)

    def check_held(self, notice: HeldNotice, sender: int) -> None:
        """Raise ProtocolViolation if a daemon tells of another one, or of what never was."""
        if notice.daemon != sender:
            raise ProtocolViolation("sender", f"daemon {sender} tells of {notice.daemon}")
        self._latest.check(notice.frontier)
        stream = self._streams[self._own_ring]
        if notice.held > stream.held + MAX_AHEAD:
            raise too_far("held", notice.held, stream)
        self.check_given(notice.held)

    def check_request(self, request: TokenRequest, sender: int) -> None:
        """Raise ProtocolViolation if a daemon asks in the name of another one, or from nowhere."""
        if request.daemon != sender:
            raise ProtocolViolation("sender", f"daemon {sender} asks for {request.daemon}")
        self._check_hop(request.hop)

    def check_given(self, number: int) -> None:
        """Raise Contradiction if a number of the own ring is told that nobody can have given."""
        ring = self._ring
        if ring.state is not TokenState.AWAY and number > ring.most:
            raise Contradiction("number", f"{number}, and the token is here with {ring.most}")

    # ---- between rings ----

    def check_horizon(self, notice: HorizonNotice) -> None:
        """Raise ProtocolViolation if a ring cannot have promised this."""
        self._latest.check(notice.horizon)
        self._latest.check(notice.frontier)
        for ring, number in notice.held:
            if number > self._streams[ring].held + MAX_AHEAD:
                raise too_far("horizon", number, self._streams[ring])
        if notice.ring == self._own_ring:
            self.check_given(notice.upto)
            if notice.frontier > self._delivery.order.frontier:
                raise Contradiction("horizon", "a frontier that this daemon never told")
        self._delivery.order.admission.check_horizon(notice.ring, notice.horizon, notice.upto)

    def check_resend(self, request: ResendRequest, sender: int) -> None:
        """Raise ProtocolViolation if a daemon asks for what never was, or for another one."""
        if request.asker != sender:
            raise ProtocolViolation("sender", f"daemon {sender} asks for {request.asker}")
        for first, last in request.ranges:
            self._check_range(request.ring, first, last)
