"""The ring: one token decides who numbers packets, and carries what all must know.

Pure. ``now`` is in seconds on the daemon's monotonic clock. States, and what makes them change:

    AWAY      the token is elsewhere. Wanting it, the daemon asks for it by a request.
      | token arrives                                  | token passed on
      v                                                |
    visit     (within one step) repair, number, write the own row ---------------+
      | nobody asks, all hold the whole stream, the last packet is of this daemon
      v
    RESTING   the token stays; rest notices tell so. Any wish, here or by request: visit again.

Sources: Amir, Moser, Melliar-Smith, Agarwal, Ciarfella, "The Totem Single-Ring Ordering and
Membership Protocol", ACM TOCS 13(4), 1995 (numbering, repair by the token, flow control); Babay,
Amir, "Fast Total Ordering for Modern Data Centers", ICDCS 2016 (the token overtakes the last
packets of a burst, so a gap is asked for only if the visit before showed it). Unlike both, the
token rests while nobody needs it, and a duplicate is known by its hop number alone.
"""

import enum
from math import inf

from groupcomm.clocks.ring_clock import RingClock
from groupcomm.config.core import CoreConfig
from groupcomm.config.view import RING, View
from groupcomm.ring.host import Host
from groupcomm.ring.notices import NoticeSchedule
from groupcomm.ring.visit import add_requests, answer_requests, held_by_ring, least_frontier
from groupcomm.stream.gaps import Gaps
from groupcomm.stream.packer import Packer
from groupcomm.stream.stream import Stream
from groupcomm.wire.data import DataPacket
from groupcomm.wire.horizon import HorizonNotice
from groupcomm.wire.request import TokenRequest
from groupcomm.wire.rest import RestNotice
from groupcomm.wire.token import Row, Token

ACCELERATED_PACKETS = 16
"""Packets of a longer burst that follow the token. A short one goes first: overtaken, it would
look missing to the successor and cost a second round before the token rests."""


class State(enum.Enum):
    """Where the token is, as far as this daemon knows."""

    AWAY = enum.auto()
    ARRIVED = enum.auto()  # it came since the last step
    RESTING = enum.auto()


class Ring:
    """One daemon's part in its ring.

    Feed what arrives to the ``on_`` methods, then call `step` once; call `step` also when
    `deadline` is reached.

    Attributes:
        state: where the token is.
        deadline: the next time at which `step` has something to do.
        notices: when the next horizon notice is owed.
        token_losses: how often the token was late by a whole token timeout.
        token_retransmissions: copies of tokens sent because nothing showed that they moved on.
        duplicate_tokens: copies received.
    """

    __slots__ = (
        "_alone",
        "_ask_at",
        "_ask_wait_s",
        "_clock",
        "_config",
        "_copy",
        "_copy_at",
        "_copy_to",
        "_copy_wait_s",
        "_far_held",
        "_frontier",
        "_gaps",
        "_heard_at",
        "_hop",
        "_host",
        "_is_gateway",
        "_key",
        "_last_hop",
        "_me",
        "_members",
        "_noted_frontier",
        "_notice_at",
        "_notice_due",
        "_packer",
        "_place",
        "_rest_hop",
        "_ring",
        "_round_at",
        "_shown",
        "_stream",
        "_streams",
        "_timeout_s",
        "_token",
        "_wanted",
        "deadline",
        "duplicate_tokens",
        "notices",
        "state",
        "token_losses",
        "token_retransmissions",
    )

    def __init__(
        self,
        view: View,
        me: int,
        config: CoreConfig,
        *,
        streams: list[Stream],
        clock: RingClock,
        packer: Packer,
        gaps: list[Gaps],
        host: Host,
        now: float,
    ) -> None:
        self._config = config
        self._host = host
        self._clock = clock
        self._packer = packer
        self._streams = streams
        self._gaps = gaps  # of foreign streams; none at the gateway, which asks other rings
        self._key = view.key
        self._me = me
        self._ring = view.ring_of[me]
        self._members = view.rings[self._ring]
        self._place = self._members.index(me)
        self._alone = len(self._members) == 1
        self._is_gateway = view.gateway(self._ring) == me
        self._stream = streams[self._ring]
        self.notices = NoticeSchedule(config.timing, view.longest_delay_s)
        self._far_held = [self._stream.held] * len(streams)  # of this stream, by other rings
        self._frontier = 0  # of the ring, by the token when it was here last
        self._notice_due = inf  # when the next horizon notice is owed, as of the last step
        self._hop = config.starts.hop  # highest hop that anything has shown
        self._last_hop = self._hop  # hop of the token that was here last
        self._rest_hop = self._hop  # hop of the last rest notice
        self._noted_frontier = 0  # the own frontier in the last rest notice
        self._shown = self._stream.held  # last number that the token showed when it left here
        self._wanted: list[int] = []  # who asked for the token while it was here
        self._copy: bytes | None = None  # the token passed on, until it is known to have arrived
        self._copy_to = 0
        self._copy_at = inf
        self._copy_wait_s = 0.0  # doubles with every copy, as does the wait between requests
        self._ask_at = inf
        self._ask_wait_s = 0.0
        self._timeout_s = config.timing.token_timeout_s
        self._heard_at = now
        self._notice_at = now
        self._round_at = now
        self.token_losses = 0
        self.token_retransmissions = 0
        self.duplicate_tokens = 0
        self._token = self._first_token()
        self.state = State.RESTING if self._members[0] == me else State.AWAY
        self.deadline = now

    def _first_token(self) -> Token:
        base = self._stream.held
        rows = [Row(frontier=0, sent=0, held=[base] * len(self._streams)) for _ in self._members]
        return Token(
            ring=self._ring,
            hop=self._hop,
            last=base,
            last_sender=self._members[0],
            clock=self._clock.value,
            burst=0,
            rows=rows,
            requests=[],
            wanted=[],
        )

    # ---- what arrives ----

    def on_token(self, token: Token, now: float) -> None:
        """Take a token; a copy of one that was here already changes nothing."""
        self._heard_at = now
        if token.hop <= self._last_hop:
            self.duplicate_tokens += 1
            if self.state is State.RESTING:
                self._notice_at = now  # its sender has not heard that it arrived
            return
        self._last_hop = self._hop = token.hop
        self._copy = None
        self._token = token
        self._stream.learn(token.last)
        self._clock.follow(token.clock)
        self.state = State.ARRIVED

    def on_rest(self, notice: RestNotice, now: float) -> None:
        """Take a rest notice: heartbeat, proof of the last pass, stability."""
        self._heard_at = now
        self._stream.learn(notice.last)
        if notice.hop < self._hop or self.state is not State.AWAY:
            return
        self._copy = None
        self._hop = self._rest_hop = notice.hop
        self._noted_frontier = notice.frontiers[self._place]
        if self._packer.waiting:
            self._ask_at = now  # the token has come to rest without passing here

    def on_request(self, request: TokenRequest) -> None:
        """Take a fellow's request; it is answered if the token is here."""
        if request.hop >= self._hop:
            self._copy = None
        if self.state is not State.AWAY and request.daemon not in self._wanted:
            self._wanted.append(request.daemon)

    def on_packet(self, number: int) -> None:
        """A fellow's packet has this number: only a later holder can have given one so high."""
        if number > self._shown:
            self._copy = None

    def hear_held(self, ring: int, number: int) -> None:
        """All daemons of another ring hold this ring's stream up to `number`."""
        self._far_held[ring] = max(self._far_held[ring], number)

    # ---- one step ----

    def step(self, now: float) -> None:
        """Do what the token's place and the time call for; once after all that has arrived."""
        if self.state is State.ARRIVED:
            self._visit(now)
        elif self.state is State.RESTING:
            if self._has_reason(now):
                self._visit(now, leave=not self._alone)
            else:
                self._stay(now)
        else:
            self._wait(now)
        self._set_deadline(now)

    def _visit(self, now: float, *, leave: bool = False) -> None:
        token = self._token
        self._clock.advance(now)
        if token.requests:
            self._answer(token)
        add_requests(token, self._ring, self._stream.missing(self._shown))
        self._ask_foreign(token, now)
        packets = self._number(token)
        self._shown = token.last
        self._write_row(token)
        self._ask_at = inf
        if token.wanted or self._wanted:
            self._merge_wanted(token)
        early = max(len(packets) - ACCELERATED_PACKETS, 0) or len(packets)
        for packet in packets[:early]:
            self._host.publish(packet)
        self._notice_due = self._horizon_due(now)
        if self._notice_due <= now:
            self._announce_horizon(now)
        if self._may_rest(token) and not leave:
            self._rest(now)
        else:
            self._pass(token, now)
        for packet in packets[early:]:
            self._host.publish(packet)

    def _answer(self, token: Token) -> None:
        """Multicast what others ask for and is held here."""
        budget = self._config.windows.repair_bytes
        answers, token.requests = answer_requests(token.requests, self._streams, budget)
        for raw in answers:
            self._host.send(RING, raw)

    def _ask_foreign(self, token: Token, now: float) -> None:
        """Ask the ring for packets of other streams; the gateway has other ways to ask."""
        if self._is_gateway and token.requests:
            # What the gateway lacks the whole ring lacks: it asks the other ring, and multicasts
            # what comes, so nobody keeps the token going round for it.
            token.requests = [request for request in token.requests if request[0] == self._ring]
        for gaps in self._gaps:
            add_requests(token, gaps.stream.ring, gaps.take_due(now))

    def _number(self, token: Token) -> list[DataPacket]:
        """Give waiting bundles numbers, within the windows."""
        row = token.rows[self._place]
        token.burst -= row.sent
        row.sent = 0
        budget = self._budget(token) if self._packer.waiting else 0
        if budget <= 0:
            return []
        packets = self._packer.fill(token.last, budget, self._host.causes)
        for packet in packets:
            row.sent += len(packet.raw)
            self._host.originate(packet)
        token.burst += row.sent
        token.last = packets[-1].number
        token.last_sender = self._me
        return packets

    def _budget(self, token: Token) -> int:
        windows = self._config.windows
        behind = min(held_by_ring(token, self._ring), self._far_least())
        if token.last - behind >= windows.stream_packets:
            return 0
        return min(windows.visit_bytes, windows.ring_bytes - token.burst)

    def _far_least(self) -> int:
        """Up to where all other rings hold this ring's stream."""
        far = [held for ring, held in enumerate(self._far_held) if ring != self._ring]
        return min(far, default=self._stream.known)

    def _write_row(self, token: Token) -> None:
        row = token.rows[self._place]
        row.frontier = self._host.frontier
        row.held = [stream.held for stream in self._streams]
        self._frontier = least_frontier(token)
        self._host.ring_frontier(self._frontier)

    def _merge_wanted(self, token: Token) -> None:
        """Queue those who asked for the token; it is here, so the own wish is answered."""
        queue = token.wanted + [daemon for daemon in self._wanted if daemon not in token.wanted]
        token.wanted = [daemon for daemon in queue if daemon != self._me]
        self._wanted.clear()

    def _may_rest(self, token: Token) -> bool:
        return (
            token.last_sender == self._me
            and not token.requests
            and not token.wanted
            and held_by_ring(token, self._ring) == token.last
        )

    def _pass(self, token: Token, now: float) -> None:
        token.hop += 1
        token.clock = self._clock.value
        successor = self._members[(self._place + 1) % len(self._members)]
        self._copy_to = token.wanted.pop(0) if token.wanted else successor
        self._copy = token.encode(self._key)
        self._copy_wait_s = self._config.timing.token_retransmit_s
        self._copy_at = now + self._copy_wait_s
        self._heard_at = now
        self._hop = token.hop
        self.state = State.AWAY
        self._host.send(self._copy_to, self._copy)

    # ---- at rest ----

    def _rest(self, now: float) -> None:
        self.state = State.RESTING
        self._rest_hop = self._hop
        self._round_at = now + self._config.timing.rest_interval_s
        self._announce_rest(now)

    def _stay(self, now: float) -> None:
        if now >= self._notice_at:
            self._announce_rest(now)
        self._notice_due = self._horizon_due(now)
        if self._notice_due <= now:
            self._announce_horizon(now)

    def _has_reason(self, now: float) -> bool:
        """Whether the resting token is needed: to send, to repair, to collect frontiers."""
        token = self._token
        if self._wanted or (self._packer.waiting and self._budget(token) > 0):
            return True
        host = self._host
        if self._gaps and self._gap_deadline() <= now:
            return True
        written = token.rows[self._place].frontier
        if host.frontier <= written:
            return False
        if written < host.lowest_safe <= host.frontier:
            return True
        return now >= self._round_at and host.holds_packets

    def _announce_rest(self, now: float) -> None:
        token = self._token
        horizon = self._clock.advance(now)
        self._notice_at = now + self._config.timing.rest_interval_s
        self._heard_at = now
        self._host.promise(horizon, token.last)
        if self._alone:
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

    # ---- horizons for other rings ----

    def _announce_horizon(self, now: float) -> None:
        token = self._token
        horizon = self._clock.advance(now)
        notice = HorizonNotice(
            ring=self._ring,
            horizon=horizon,
            upto=token.last,
            frontier=self._frontier,
            held=[held_by_ring(token, ring) for ring in range(len(self._streams))],
        )
        packet = notice.encode(self._key)
        self.notices.issued(now, self._frontier)
        self._notice_due = self._horizon_due(now)
        self._host.promise(horizon, token.last)
        if not self._alone:
            self._host.send(RING, packet)
        self._host.send_rings(packet)

    def _horizon_due(self, now: float) -> float:
        """When the next notice is owed, if the token is here then; inf with one ring."""
        if len(self._streams) == 1:
            return inf
        host = self._host
        return self.notices.due_at(
            now,
            frontier=self._frontier,
            lowest_safe=host.lowest_safe,
            holds_packets=host.holds_packets,
        )

    # ---- away ----

    def _wait(self, now: float) -> None:
        if self._copy is not None and now >= self._copy_at:
            self._copy_wait_s = min(2 * self._copy_wait_s, self._config.timing.longest_wait_s)
            self._copy_at = now + self._copy_wait_s
            self.token_retransmissions += 1
            self._host.send(self._copy_to, self._copy)
        if now >= self._heard_at + self._timeout_s:
            self._heard_at = now
            self.token_losses += 1
        if self._wants_token(now):
            self._ask(now)
        else:
            self._ask_at = inf

    def _wants_token(self, now: float) -> bool:
        if self._packer.waiting:
            ahead = self._stream.known - self._far_least()
            return ahead < self._config.windows.stream_packets
        if self._gaps and self._gap_deadline() <= now:
            return True
        lowest_safe = self._host.lowest_safe
        return self._noted_frontier < lowest_safe <= self._host.frontier

    def _ask(self, now: float) -> None:
        """Request a resting token at once; one that goes round, only when it fails to come by."""
        if self._ask_at == inf:
            at_rest = self._rest_hop == self._hop
            self._ask_wait_s = self._config.timing.request_retry_s
            self._ask_at = now if at_rest and self._packer.waiting else now + self._ask_wait_s
        if now >= self._ask_at:
            self._ask_at = now + self._ask_wait_s
            self._ask_wait_s = min(2 * self._ask_wait_s, self._config.timing.longest_wait_s)
            request = TokenRequest(ring=self._ring, daemon=self._me, hop=self._hop)
            self._host.send(RING, request.encode(self._key))

    # ---- time ----

    def _set_deadline(self, now: float) -> None:
        if self.state is State.RESTING:
            self.deadline = self._rest_deadline(now)
            return
        deadline = self._heard_at + self._timeout_s
        if self._copy is not None and self._copy_at < deadline:
            deadline = self._copy_at
        if self._ask_at < deadline:
            deadline = self._ask_at
        elif self._gaps and self._ask_at == inf:
            deadline = min(deadline, self._gap_deadline())
        self.deadline = deadline

    def _rest_deadline(self, now: float) -> float:
        if self._packer.waiting and self._budget(self._token) > 0:
            return now
        deadline = self._notice_due
        if self._notice_at < deadline and not self._alone:
            deadline = self._notice_at
        if self._gaps:
            deadline = min(deadline, self._gap_deadline())
        risen = self._host.frontier > self._token.rows[self._place].frontier
        if risen and self._host.holds_packets:
            deadline = min(deadline, self._round_at)
        return deadline

    def _gap_deadline(self) -> float:
        deadline = inf
        for gaps in self._gaps:
            if gaps.deadline < deadline:
                deadline = gaps.deadline
        return deadline
