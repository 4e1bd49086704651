"""While the token is elsewhere: see to it that it moved on, ask for it, notice that it is lost.

Pure. ``now`` is in seconds. A passed token is sent again until something proves that it arrived;
it is then the next holder's to care for. A wish for the token is told by a request: at once if the
token is known to rest, else only if it fails to come by.
"""

from math import inf

from groupcomm.config.core import Timing
from groupcomm.config.view import RING
from groupcomm.ring.flow import Flow
from groupcomm.ring.host import Host
from groupcomm.ring.notices import NoticeSchedule
from groupcomm.ring.repeater import Repeater
from groupcomm.stream.gaps import Gaps
from groupcomm.stream.packer import Packer
from groupcomm.stream.stream import Stream
from groupcomm.wire.request import TokenRequest


class Away:
    """What one daemon knows of a token that it does not have.

    Attributes:
        heard_at: when the token, or a notice of it, was heard or sent on last.
        hop: the highest hop that anything has shown.
        deadline: when `wait` has something to do.
        doubted: numbers up to this are missing, and not merely late.
        token_losses: how often nothing was heard of the token for a whole token timeout.
        token_retransmissions: copies sent of tokens that nothing showed to have arrived.
    """

    __slots__ = (
        "_ask_holder",
        "_asking",
        "_copy",
        "_copy_to",
        "_flow",
        "_gap_above",
        "_gap_at",
        "_gap_s",
        "_gaps",
        "_host",
        "_key",
        "_me",
        "_noted_frontier",
        "_notices",
        "_packer",
        "_passes_within_s",
        "_repeats",
        "_rest_hop",
        "_rests_with",
        "_ring",
        "_stream",
        "_timeout_s",
        "deadline",
        "doubted",
        "heard_at",
        "hop",
        "token_losses",
        "token_retransmissions",
    )

    def __init__(
        self,
        ring: int,
        me: int,
        key: bytes,
        timing: Timing,
        *,
        hop: int,
        holder: int,
        flow: Flow,
        packer: Packer,
        stream: Stream,
        gaps: list[Gaps],
        notices: NoticeSchedule | None,
        host: Host,
        now: float,
    ) -> None:
        self._ring = ring
        self._me = me
        self._key = key
        self._flow = flow
        self._packer = packer
        self._stream = stream
        self._gaps = gaps
        self._notices = notices  # None with one ring, which needs none
        self._host = host
        self._timeout_s = timing.token_timeout_s
        self._repeats = Repeater(timing.token_retransmit_s, timing.longest_wait_s)
        self._asking = Repeater(timing.request_retry_s, timing.longest_wait_s)
        self._passes_within_s = 2 * timing.token_retransmit_s  # also if a copy of it is needed
        self._copy = b""  # the token as it was passed on, until it is known to have arrived
        self._copy_to = me
        self._noted_frontier = 0  # the own frontier in the last rest notice
        self._rest_hop = hop  # of the last rest notice; if it is `hop`, the token rests
        self._rests_with = holder  # who sent it
        self._ask_holder = False  # the next request is the first since then
        self._gap_s = timing.linger_s
        self._gap_at = inf  # when a number that was skipped is not merely late
        self._gap_above = 0  # and it is above this
        self.doubted = 0
        self.heard_at = now
        self.hop = hop
        self.deadline = inf
        self.token_losses = 0
        self.token_retransmissions = 0

    # ---- what is heard ----

    def passed_on(self, packet: bytes, to: int, hop: int, now: float) -> None:
        """The token has just left for another daemon."""
        self.hop = hop
        self._copy = packet
        self._copy_to = to
        self._repeats.start(now)
        self._asking.stop()
        self.heard_at = now

    def heard(self, now: float) -> None:
        """The token, or a notice of it, was heard."""
        self.heard_at = now

    def came_by(self, hop: int) -> None:
        """The token is here; the own wish for it is fulfilled."""
        self.hop = hop
        if self._repeats.at != inf:  # it comes by often, and a look costs less than a call
            self._repeats.stop()
        if self._asking.at != inf:
            self._asking.stop()

    def rests(self, hop: int, holder: int, own_frontier: int, now: float) -> None:
        """The token has come to rest elsewhere, or here."""
        self.hop = self._rest_hop = hop
        self._rests_with = holder
        self._ask_holder = False
        self._noted_frontier = own_frontier
        self._repeats.stop()
        if self._packer.source.size:
            self._ask_at_once(now)  # it has not passed here

    def kept(self, holder: int, now: float) -> None:
        """A fellow has numbered something, and keeps the token until somebody asks for it."""
        self._rest_hop = self.hop
        self._rests_with = holder
        self._ask_holder = False
        if self._packer.source.size:
            self._ask_at_once(now)

    def told(self, frontier: int) -> None:
        """All have told, without the token, that they hold what is at or below a time."""
        if frontier > self._noted_frontier:
            self._noted_frontier = frontier

    def moved_on(self) -> None:
        """Something proves that the token that was passed on has arrived."""
        if self._repeats.at != inf:
            self._repeats.stop()

    # ---- what is done ----

    def wait(self, now: float) -> None:
        """Repeat, ask, watch: whatever it is time for."""
        if now >= self._repeats.at and self._repeats.take(now):
            self.token_retransmissions += 1
            self._host.send(self._copy_to, self._copy)
        if now >= self.heard_at + self._timeout_s:
            self.heard_at = now
            self.token_losses += 1
        missing_at = self._gap_deadline(now)
        if self._gaps or self._notices is not None:
            missing_at = min(missing_at, self._missing_deadline())
        if self._wants_token(missing_at <= now):
            self._ask(now)
        elif self._asking.at != inf:
            self._asking.stop()
        self._set_deadline(missing_at)

    def _wants_token(self, something_is_missing: bool) -> bool:
        waits = self._packer.source.size > 0
        if something_is_missing or (waits and self._may_number()):
            return True
        if waits:
            return False
        # A token that moves collects frontiers; what it missed shows once it rests.
        if self._rest_hop != self.hop:
            return False
        noted, own = self._noted_frontier, self._host.blocks.least
        return noted < own and self._host.safe_waits(noted, own)

    def _may_number(self) -> bool:
        """Whether what waits may be numbered, as far as is known without the token."""
        known, flow = self._stream.known, self._flow
        wants = self._packer.source.wants(far=flow.may_leave(known))
        return wants and flow.may_number(known)

    def _ask(self, now: float) -> None:
        """Request a resting token at once; one that goes round, only when it fails to come by.

        The first request of a resting token wakes nobody but its holder. Later ones are for all:
        the holder may have changed, and a request is also proof that the token moved on.
        """
        if self._asking.at == inf:
            if self._rest_hop != self.hop:
                self._asking.start(now, self._passes_within_s)
            elif self._packer.source.size or self._gap_at <= now:
                self._ask_at_once(now)
            else:
                self._asking.start(now)  # its holder may have seen the need itself
        if self._asking.take(now):
            target, self._ask_holder = self._rests_with if self._ask_holder else RING, False
            request = TokenRequest(ring=self._ring, daemon=self._me, hop=self.hop)
            self._host.send(target, request.encode(self._key))

    def _ask_at_once(self, now: float) -> None:
        self._asking.start(now, 0.0)
        self._ask_holder = True

    def _set_deadline(self, missing_at: float) -> None:
        deadline = self.heard_at + self._timeout_s
        if self._repeats.at < deadline:
            deadline = self._repeats.at
        if self._asking.at < deadline:
            deadline = self._asking.at
        elif missing_at < deadline and self._asking.at == inf:
            deadline = missing_at
        self.deadline = deadline

    def _gap_deadline(self, now: float) -> float:
        """When to ask for the token as packets of the own stream are missing; inf if none is.

        One that moves shows by itself what is missing, and one that rests, that nothing is. Only
        one that is kept by who sends on, in a view of one ring, does neither.
        """
        stream = self._stream
        at_rest = self._rest_hop == self.hop
        if self._notices is not None or stream.held == stream.known or not at_rest:
            self._gap_at = inf
        elif self._gap_at == inf or self._gap_above != stream.held:
            self._gap_at, self._gap_above = now + self._gap_s, stream.held
        elif now >= self._gap_at:
            self.doubted = stream.known
        return self._gap_at

    def _missing_deadline(self) -> float:
        """When a packet or a notice has been missing for too long; inf if nothing is."""
        deadline = inf
        for gaps in self._gaps:
            if gaps.deadline < deadline:
                deadline = gaps.deadline
        if self._notices is not None and self._host.holds_packets:
            deadline = min(deadline, self._notices.missed_at())
        return deadline
