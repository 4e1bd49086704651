"""Checks of decoded packets: against the view, and against the state of this daemon.

Pure. Decoders bound what a packet can hold. The functions here make sure that its indices lie in
this view; a packet that fails was sent by a daemon of the cluster that breaks the protocol.

`Plausibility` checks whether statements about the token, horizons and links can be true. It changes
nothing: a packet that fails is refused before it can lead this daemon to break a rule of its own.
A value that a correct daemon would have refused itself is its sender's fault. A value that the
sender may have adopted from another daemon is a contradiction, for which no daemon is blamed.
"""

from typing import Final, Never

from groupcomm.clocks.ring_clock import LatestTime
from groupcomm.config.view import View
from groupcomm.engine.delivery import Delivery
from groupcomm.errors import Contradiction, ProtocolViolation
from groupcomm.names import MAX_NAME_BYTES, is_private
from groupcomm.order.admission import too_far
from groupcomm.ring.ring import Ring
from groupcomm.ring.states import TokenState
from groupcomm.stream.stream import MAX_AHEAD
from groupcomm.wire.data import DataPacket, UnreliablePacket
from groupcomm.wire.horizon import HorizonNotice
from groupcomm.wire.link import ResendRequest
from groupcomm.wire.token import HeldNotice, RestNotice, Token, TokenRequest

SHORT: Final = (MAX_NAME_BYTES - 2) // 4
"""The number of any letters, of a user's and a daemon's name, that surely fit a private name."""


def _require(holds: bool, reason: str, what: str) -> None:
    if not holds:
        raise ProtocolViolation(reason, what)


def check_data(packet: DataPacket, view: View) -> None:
    """Raise ProtocolViolation unless a data packet is of a daemon of its ring in the view."""
    ring_of = view.ring_of
    if packet.daemon >= len(ring_of) or ring_of[packet.daemon] != packet.ring:
        raise ProtocolViolation("data", f"daemon {packet.daemon} is not in ring {packet.ring}")
    if packet.vector is not None and len(packet.vector) != len(view.rings):
        raise ProtocolViolation(
            "data", f"a vector of {len(packet.vector)} counts, and {len(view.rings)} rings"
        )
    _check_senders(packet, view)


def _check_senders(packet: DataPacket | UnreliablePacket, view: View) -> None:
    """Raise ProtocolViolation unless the senders of all bundles can have private names."""
    name = view.daemons[packet.daemon].name
    for bundle in packet.bundles:
        if len(bundle.user) + len(name) > SHORT:
            _require(
                is_private(bundle.user, name), "data", f"user {bundle.user!r} at {name}: too long"
            )


def check_unreliable(packet: UnreliablePacket, view: View) -> None:
    """Raise ProtocolViolation unless an UNRELIABLE datagram is of a daemon of the view."""
    _require(packet.daemon < len(view.daemons), "unreliable", f"there is no daemon {packet.daemon}")
    _check_senders(packet, view)


def check_token(token: Token, view: View, ring: int) -> None:
    """Raise ProtocolViolation unless a token is of this ring, with a row for each daemon."""
    members = view.rings[ring]
    rings = len(view.rings)
    if token.ring != ring or token.last_sender not in members:
        raise ProtocolViolation(
            "token", f"a token of ring {token.ring}, last sender {token.last_sender}"
        )
    columns = rings + view.reports_deliverable
    if len(token.rows) != len(members) or len(token.rows[0].held) != columns:
        raise ProtocolViolation(
            "token", f"{len(token.rows)} rows for {len(members)} daemons, or short ones"
        )
    if token.wanted and not all(daemon in members for daemon in token.wanted):
        raise ProtocolViolation("token", f"wanted by {token.wanted}, not all in the ring")
    if token.requests and any(request[0] >= rings for request in token.requests):
        raise ProtocolViolation("token", "a request for a ring that is not in the view")


def check_rest(notice: RestNotice, view: View) -> None:
    """Raise ProtocolViolation unless a rest notice names a ring, its holder and all frontiers."""
    if notice.ring >= len(view.rings):
        raise ProtocolViolation("rest", f"there is no ring {notice.ring}")
    members = view.rings[notice.ring]
    if notice.holder not in members or len(notice.frontiers) != len(members):
        raise ProtocolViolation(
            "rest",
            f"holder {notice.holder} with {len(notice.frontiers)} frontiers: the ring is {members}",
        )
    if (notice.deliverable is not None) != view.reports_deliverable:
        raise ProtocolViolation("rest", "a number more, or less, than this view has")


def check_held(notice: HeldNotice, view: View) -> None:
    """Raise ProtocolViolation unless a held notice is of a daemon of its ring."""
    ring_of = view.ring_of
    if notice.daemon >= len(ring_of) or ring_of[notice.daemon] != notice.ring:
        raise ProtocolViolation("held", f"daemon {notice.daemon} is not in ring {notice.ring}")


def check_request(request: TokenRequest, view: View) -> None:
    """Raise ProtocolViolation unless a token request is of a daemon of its ring."""
    ring_of = view.ring_of
    if request.daemon >= len(ring_of) or ring_of[request.daemon] != request.ring:
        raise ProtocolViolation("request", f"daemon {request.daemon} is not in ring {request.ring}")


def check_horizon(notice: HorizonNotice, view: View) -> None:
    """Raise ProtocolViolation unless a horizon notice is of, and about, rings of the view."""
    rings = len(view.rings)
    named = notice.ring >= rings or (notice.held and notice.held[-1][0] >= rings)
    if named or notice.targets >> rings:
        raise ProtocolViolation(
            "horizon",
            f"ring {notice.ring}, one of {notice.held} or of the bits {notice.targets:#x} is not in"
            " the view",
        )


def check_resend(request: ResendRequest, view: View) -> None:
    """Raise ProtocolViolation unless a resend request names a ring and a daemon of the view."""
    known = request.ring < len(view.rings) and request.asker < len(view.daemons)
    _require(known, "resend", f"daemon {request.asker} asks for ring {request.ring}")


MOST_HOPS: Final = 2**32
"""The most hops of a token since it was heard of last: years of passing it."""


class Plausibility:
    """The checks of one daemon in one view.

    Args:
        view: the view.
        me: index of this daemon.
        ring: its ring.
        delivery: its streams and order.
        latest: the latest time that can be true.
    """

    __slots__ = (
        "_admission",
        "_blocks",
        "_deliverable",
        "_latest",
        "_own_ring",
        "_place",
        "_ring",
        "_streams",
    )

    def __init__(
        self, view: View, me: int, ring: Ring, delivery: Delivery, latest: LatestTime
    ) -> None:
        self._own_ring = view.ring_of[me]
        self._place = view.rings[self._own_ring].index(me)
        self._ring = ring
        self._streams = delivery.streams
        order, self._deliverable = delivery.order, delivery.order.deliverable
        self._admission, self._blocks = order.admission, order.blocks
        self._latest = latest

    # ---- the token ----

    def check_token(self, token: Token) -> None:
        """Raise ProtocolViolation if a token that was not here yet cannot be the ring's."""
        self._check_rows(token)
        for ring, first, last in token.requests:
            self._check_range(ring, first, last)
        stream = self._streams[self._own_ring]
        if token.last > stream.held + MAX_AHEAD:
            raise too_far("token", token.last, stream)
        if self._ring.state is not TokenState.AWAY:
            raise Contradiction("token", f"a token of hop {token.hop} comes, and the token is here")
        if token.last < stream.known:
            raise Contradiction(
                "token", f"the last number is {token.last}, and {stream.known} is known"
            )
        row = token.rows[self._place]
        more = False
        for told, stream in zip(row.held, self._streams, strict=False):
            more |= told > stream.held
        if self._deliverable.is_reported:
            more |= row.held[-1] > self._deliverable.own
        if more or row.frontier > self._blocks.least:
            raise Contradiction(
                "token", "it holds a row of this daemon that this daemon did not write"
            )

    def _check_rows(self, token: Token) -> None:
        if token.hop > self._ring.monitor.hop + MOST_HOPS:
            self._refuse_hop(token.hop)
        if token.clock > self._latest.limit:
            self._latest.check(token.clock)
        ring, last, sent = self._own_ring, token.last, 0
        for row in token.rows:
            if row.frontier > self._latest.limit:
                self._latest.check(row.frontier)
            sent += row.sent
            most = row.held[ring]
            if self._deliverable.is_reported:
                most = max(most, row.held[-1])
            if most > last:
                raise ProtocolViolation(
                    "token", f"a daemon holds {most}, and {last} is the last number"
                )
            for stream, held in zip(self._streams, row.held, strict=False):
                if held > stream.held + MAX_AHEAD:
                    raise too_far("token", held, stream)
        if sent != token.burst:
            raise ProtocolViolation(
                "token", f"a burst of {token.burst} bytes, and its rows add up to {sent}"
            )

    def _refuse_hop(self, hop: int) -> Never:
        raise ProtocolViolation("hop", f"hop {hop} is too far ahead of {self._ring.monitor.hop}")

    def _check_range(self, ring: int, first: int, last: int) -> None:
        stream = self._streams[ring]
        if not first:
            raise ProtocolViolation(
                "number", f"packets {first} to {last} of ring {ring} are asked for"
            )
        if last > stream.held + MAX_AHEAD:
            raise too_far("number", last, stream)

    def check_rest(self, notice: RestNotice, sender: int) -> None:
        """Raise ProtocolViolation if the token cannot rest like that."""
        if notice.holder != sender:
            raise ProtocolViolation(
                "sender", f"daemon {sender} says that {notice.holder} has the token"
            )
        if notice.hop > self._ring.monitor.hop + MOST_HOPS:
            self._refuse_hop(notice.hop)
        latest = max(notice.horizon, *notice.frontiers)
        if latest > self._latest.limit:
            self._latest.check(latest)
        held = self._streams[self._own_ring].held
        if notice.last > held:
            raise Contradiction(
                "rest", f"all are said to hold {notice.last}, and {held} is held here"
            )
        if notice.frontiers[self._place] > self._blocks.least:
            raise Contradiction("rest", "it names a frontier of this daemon that it never reported")
        if notice.deliverable is not None and notice.deliverable > self._deliverable.own:
            raise Contradiction("rest", "all are said to be able to deliver what is not so here")
        if self._ring.state is not TokenState.AWAY and notice.hop > self._ring.monitor.hop:
            raise Contradiction("rest", f"a token of hop {notice.hop} rests, and the token is here")
        self._admission.check_horizon(notice.ring, notice.horizon, notice.last)

    def check_held(self, notice: HeldNotice, sender: int) -> None:
        """Raise ProtocolViolation if a daemon reports for another one, or impossible numbers."""
        if notice.daemon != sender:
            raise ProtocolViolation("sender", f"daemon {sender} reports for {notice.daemon}")
        self._latest.check(notice.frontier)
        stream = self._streams[self._own_ring]
        if notice.held > stream.held + MAX_AHEAD:
            raise too_far("held", notice.held, stream)
        self.check_given(notice.held)

    def check_request(self, request: TokenRequest, sender: int) -> None:
        """Raise ProtocolViolation if a daemon asks for another one, or with an impossible hop."""
        if request.daemon != sender:
            raise ProtocolViolation("sender", f"daemon {sender} asks for {request.daemon}")
        if request.hop > self._ring.monitor.hop + MOST_HOPS:
            self._refuse_hop(request.hop)

    def check_given(self, number: int) -> None:
        """Raise Contradiction if no daemon can have given a number of this ring."""
        ring = self._ring
        if ring.state is not TokenState.AWAY and number > ring.most:
            raise Contradiction(
                "number", f"number {number} is named, and the token here has {ring.most}"
            )

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
            if notice.frontier > self._blocks.least:
                raise Contradiction(
                    "horizon", "it names a frontier that this daemon never reported"
                )
        self._admission.check_horizon(notice.ring, notice.horizon, notice.upto)

    def check_resend(self, request: ResendRequest, sender: int) -> None:
        """Raise ProtocolViolation if a daemon asks for another one, or for impossible numbers."""
        if request.asker != sender:
            raise ProtocolViolation("sender", f"daemon {sender} asks for {request.asker}")
        for first, last in request.ranges:
            self._check_range(request.ring, first, last)
