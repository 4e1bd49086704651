"""The ring: the holder of one token numbers packets; the token carries the state of all daemons.

Pure. ``now`` is in seconds on the daemon's monotonic clock. States and their changes:

    AWAY       the token is elsewhere. A daemon that wants it asks for it by a request.
      | token arrives                                    | token passed on
      v                                                  |
    ARRIVED    (within one step) repair, number, write its row -----------------+
      | no daemon asks, all hold the whole stream, the last packet is of this daemon
      v
    RESTING    the token stays; rest notices say so. Messages of this daemon are numbered at once.
      | a message is numbered that others may lack
      v
    LINGERING  the token stays a moment more, in a view of one ring as long as more messages
               follow; then it circulates. If others report that they hold everything, it rests.

A request ends RESTING and LINGERING at once. A token that arrives may also linger, where it would
otherwise be passed on after a packet was numbered.

Sources: Amir, Moser, Melliar-Smith, Agarwal, Ciarfella, "The Totem Single-Ring Ordering and
Membership Protocol", ACM TOCS 13(4), 1995 (numbering, repair by the token, flow control); Babay,
Amir, "Fast Total Ordering for Modern Data Centers", ICDCS 2016 (the token overtakes the last
packets of a burst, so a gap is requested only if the previous token showed it). Unlike both, the
token rests while no daemon needs it, and a copy of it is recognized by its hop number alone.
"""

from math import inf

from groupcomm.clocks.ring_clock import RingClock
from groupcomm.config.core import CoreConfig
from groupcomm.config.view import RING, View
from groupcomm.ring.context import RingContext
from groupcomm.ring.far_columns import FarColumns
from groupcomm.ring.flow_control import FlowControl
from groupcomm.ring.horizon_notices import HorizonNotices
from groupcomm.ring.lingering import Holdings, Lingering
from groupcomm.ring.reception import Reception
from groupcomm.ring.states import TokenState
from groupcomm.ring.token_handling import (
    add_requests,
    answer_requests,
    first_token,
    queue_wanted,
    request_foreign,
    token_form,
)
from groupcomm.ring.token_monitor import TokenMonitor
from groupcomm.stream.packer import Packer
from groupcomm.stream.stream import Gaps, Stream
from groupcomm.wire.data import DataPacket
from groupcomm.wire.token import HeldNotice, RestNotice, Token, TokenRequest

LINGER_PART = 4
"""The token does not linger if the window divided by this was numbered, or more, and other daemons
number packets, too."""

ACCELERATED_PACKETS = 16
"""Packets of a longer burst that follow the token. A short burst goes first: if the token overtook
it, it would look missing to the successor and cost a second round before the token rests."""


class Ring:
    """One daemon's part in its ring.

    Pass arrivals to the ``on_`` methods, then call `step` once; call `step` also when
    `deadline` is reached.

    Attributes:
        state: the place of the token.
        deadline: the next time at which `step` has something to do.
        monitor: watches the token while it is elsewhere.
        flow: the limits for numbering.
        notices: the schedule of horizon notices.
        duplicate_tokens: the number of received copies of the token.
        entered: the rings whose packets enter this ring over a link here.
        held_by_all: the number up to which all daemons of the ring hold its stream.
        last_hop: hop of the token that was last here.
        reception: watches whether packets of others arrive.
    """

    __slots__ = (
        "_alone",
        "_answered",
        "_blocks",
        "_clock",
        "_config",
        "_context",
        "_deliverable",
        "_doubted",
        "_far",
        "_form",
        "_frontier",
        "_gap_above",
        "_gap_at",
        "_gaps",
        "_held",
        "_holdings",
        "_horizons",
        "_key",
        "_lingering",
        "_me",
        "_members",
        "_noted_frontier",
        "_packer",
        "_place",
        "_rest_at",
        "_rest_interval_s",
        "_ring",
        "_round_at",
        "_shown",
        "_single",
        "_stream",
        "_streams",
        "_successor",
        "_token",
        "_wanted",
        "deadline",
        "duplicate_tokens",
        "entered",
        "flow",
        "held_by_all",
        "last_hop",
        "monitor",
        "notices",
        "reception",
        "state",
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
        entered: frozenset[int],
        horizons: HorizonNotices,
        context: RingContext,
        now: float,
    ) -> None:
        self._config = config
        self._context, self._blocks = context, context.blocks
        self._deliverable, reports = context.deliverable, view.reports_deliverable
        self._clock, self._packer, self._streams = clock, packer, streams
        self._gaps, self.entered = gaps, entered  # gaps of foreign streams that no link closes
        self._key, self._me, self._ring = view.key, me, view.ring_of[me]
        self._members = view.rings[self._ring]
        self._place = self._members.index(me)
        self._successor = self._members[(self._place + 1) % len(self._members)]
        self._alone, self._single = len(self._members) == 1, len(streams) == 1
        self._holdings = Holdings(self._members, me, single=self._single)
        self._stream = streams[self._ring]
        timing, self._rest_interval_s = config.timing, config.timing.rest_interval_s
        self.reception = Reception(self._members, me, streams, timing)
        self._horizons, self.notices = horizons, horizons.notices
        self.flow = FlowControl(config, view, self._stream, context.packet_size)
        self.monitor = TokenMonitor(
            self._ring,
            me,
            view.key,
            timing,
            hop=config.starts.hop,
            holder=self._members[0],
            context=context,
            now=now,
        )
        self._frontier = 0  # of the ring, from the token's last visit here
        self._held = [stream.held for stream in streams]  # held by all daemons of the ring
        hop = self.last_hop = config.starts.hop
        self._shown = self.held_by_all = self._stream.held  # what the token showed when it left
        self._doubted = 0  # numbers up to this one are missing, and not merely late
        self._gap_at, self._gap_above = inf, 0  # when a skipped number above this one is not late
        self._noted_frontier = 0  # this daemon's frontier in the last rest notice
        self._form = token_form(view, len(self._members), config.token_bytes)
        self._far = FarColumns(self._ring, len(streams) + reports, timing)
        self._answered: dict[tuple[int, int], int] = {}  # visits in a row, see answer_requests
        self._wanted: list[int] = []  # the daemons that asked for the token while it was here
        self._lingering = Lingering(timing, single=self._single, now=now)
        # When the next rest notice is due, and when the token may circulate for frontiers alone.
        self._rest_at = self._round_at = self.deadline = now
        self.duplicate_tokens = 0
        self._token = first_token(
            self._ring, self._members, hop=hop, clock=clock.value, streams=streams, reports=reports
        )
        self.state = TokenState.RESTING if self._members[0] == me else TokenState.AWAY

    # ---- events ----

    @property
    def most(self) -> int:
        """Return the last number given in the ring, while the token is here."""
        return self._token.last

    def on_token(self, token: Token, now: float) -> None:
        """Accept a token; a copy of one that was here already changes nothing."""
        self.monitor.heard_at = now
        if token.hop <= self.last_hop:
            self.duplicate_tokens += 1
            if self.state is TokenState.RESTING or self.state is TokenState.LINGERING:
                self._rest_at = now  # the sender has not heard that its request arrived
            return
        self.last_hop = token.hop
        counts = self._context.ring_counts
        counts.visits += 1
        if not self.monitor.at_rest:
            counts.rotations += 1
            counts.rotations_s += now - self.monitor.passed_at
        self.monitor.came_by(token.hop)
        if token.far is not None:
            token.keep(self._token.rows)
        self._token = token
        if token.last > self._stream.known:
            self._stream.learn(token.last)
        self.reception.on_token(token, self.entered, now)
        if token.clock > self._clock.value:
            self._clock.follow(token.clock)
        self.state = TokenState.ARRIVED
        self.flow.token_returned(token, token.rows[self._place], now)

    def on_rest(self, notice: RestNotice, now: float) -> None:
        """Accept a rest notice: it is a heartbeat, proves the last pass, and tells stability."""
        self.monitor.heard_at = now
        if notice.last > self._stream.known:
            self._stream.learn(notice.last)
        self.held_by_all = max(self.held_by_all, notice.last)
        self._lingering.note_rest()
        if notice.deliverable is not None:
            self._deliverable.raise_to(notice.deliverable)
        if notice.hop >= self.monitor.hop and self.state is TokenState.AWAY:
            self._noted_frontier = notice.frontiers[self._place]
            wanted = self._packer.source.size > 0  # the token has not passed here since
            self.monitor.rests(notice.hop, notice.holder, now, wanted=wanted)

    def on_request(self, request: TokenRequest) -> None:
        """Accept the request of another daemon; it is answered if the token is here."""
        if request.hop >= self.monitor.hop:
            self.monitor.arrived_there()
        if self.state is not TokenState.AWAY and request.daemon not in self._wanted:
            self._wanted.append(request.daemon)

    def on_packet(self, packet: DataPacket, now: float) -> None:
        """Note a packet that another daemon numbered; only a later holder can number so high."""
        number = packet.number
        self._lingering.note_packet(now)
        if number > self._shown:
            self.monitor.arrived_there()
            if packet.asks:
                self._holdings.on_question(packet.daemon, number, packet.time)
            if packet.lingers and number == self._stream.known and self.state is TokenState.AWAY:
                wanted = self._packer.source.size > 0
                self.monitor.lingers(packet.daemon, now, wanted=wanted)

    def on_held(self, notice: HeldNotice) -> None:
        """Note the report of another daemon about the packets that it holds."""
        self._holdings.on_report(notice.daemon, notice.held, notice.frontier)
        if self.state is TokenState.AWAY:
            return
        row = self._token.rows[self._members.index(notice.daemon)]
        if self._deliverable.is_reported:
            row.held[-1] = max(row.held[-1], notice.held)
        if notice.held > row.held[self._ring]:
            row.held[self._ring] = notice.held
            if not self._single:
                self._held[self._ring] = self._token.held_by_all(self._ring)
        if notice.frontier > row.frontier:
            row.frontier = notice.frontier

    # ---- one step ----

    def step(self, now: float) -> None:
        """Act as the place of the token and the time require; once after all has arrived."""
        if self._holdings.owed:
            self._report_holdings()
        if self._holdings.news:
            self._collect_holdings(now)
        state = self.state
        if state is TokenState.AWAY:
            self._watch(now)
            self.deadline = self.monitor.deadline
            return
        budget, far = self._budget() if self._packer.source.size else (0, False)
        if state is TokenState.ARRIVED:
            self._handle_token(now, budget, far=far)
        elif budget > 0 and not self._wanted:
            # Each step may bring more packets; a token that has lingered circulates anyway.
            self._handle_token(now, budget, far=far, leave=now >= self._lingering.settle_at)
        elif self._must_circulate(now):
            self._handle_token(now, budget, far=far, leave=not self._alone)
        else:
            self._stay(now)
            self.deadline = self._rest_deadline()
            return
        if self.state is TokenState.AWAY:
            self.deadline = self.monitor.deadline
        elif self._packer.source.size and self._must_number():
            self.deadline = now
        else:
            self.deadline = self._rest_deadline()

    def _report_holdings(self) -> None:
        """Report the packets held here to the ring, once all that it asked for are held."""
        answer = self._answers()
        if answer is None:
            return
        self._holdings.owed, self._holdings.news = 0, True
        held, frontier = answer
        notice = HeldNotice(ring=self._ring, daemon=self._me, held=held, frontier=frontier)
        self._context.send(RING, notice.encode(self._key))

    def _answers(self) -> tuple[int, int] | None:
        """Return the number and the time up to which all is held here; None if it is too early.

        As in the token, nothing new is reported while a client is slow: see FlowControl.
        """
        held = self._stream.held if self._single else self._deliverable.own
        if held < self._holdings.owed or (self.flow.blocked and not self._single):
            return None
        if not self._single:
            return held, self._blocks.least
        return self.flow.to_report([held])[0], self._blocks.least

    def _collect_holdings(self, now: float) -> None:
        """Raise the frontier of the ring, and what it can deliver, if all reports allow it."""
        least = self._holdings.pop_risen(self._blocks.least)
        if not self._single:
            self._deliverable.raise_to(self._holdings.least_number(self._deliverable.own))
        elif not least:
            return
        if least:
            self._context.ring_frontier(least)
            self._noted_frontier = max(self._noted_frontier, least)
        if self.state is TokenState.LINGERING:
            self.held_by_all = self._token.held_by_all(self._ring)
            if self.held_by_all >= self._token.last:
                self._lingering.settle_at = inf
                self._settle(now)

    # ---- the token is here ----

    def _budget(self) -> tuple[int, bool]:
        """Return the most bytes to number, and whether bundles for other rings may be among them.

        The number is 0 if nothing may be numbered. Something waits.
        """
        waiting, token = self._packer.source, self._token
        far = self.flow.may_leave_ring(token.last)
        if not waiting.wants(far=far):
            return 0, far
        return self.flow.budget(token, token.rows[self._place]), far

    def _must_number(self) -> bool:
        """Return whether the next step must number, or circulate the token, at once."""
        return self.state is TokenState.LINGERING or self._budget()[0] > 0  # something waits

    def _handle_token(self, now: float, budget: int, *, far: bool, leave: bool = False) -> None:
        """Repair, number and write this daemon's row, then pass the token on or keep it.

        Args:
            now: seconds.
            budget: bytes that may be numbered.
            far: whether packets for other rings may be numbered.
            leave: the token may not stay.
        """
        token = self._token
        rested = self.state is not TokenState.ARRIVED
        self._clock.advance(now)
        shown = max(self._shown, self._doubted)
        if token.requests or self._answered or self._stream.held < shown or not self._single:
            self._repair(token, shown, now)
        packets = self._number(token, budget, now, far=far) if budget > 0 else []
        self._shown = token.last
        self._write_row(token)
        if token.wanted or self._wanted:
            queue_wanted(token, self._wanted, self._me)
        rests = self._alone or (
            token.last_sender == self._me
            and self.held_by_all == token.last
            and not (leave or token.requests or token.wanted)
        )
        lingers = asks = False
        if not (rests or leave):
            safe = self._is_safe(packets)
            asks = safe and self._may_ask(packets)
            here = rested or asks
            lingers = (asks or not safe) and self._may_linger(token, packets, now, rested=here)
        if packets:
            if lingers and (self._single or asks):
                packets[-1].mark_lingering(asks=asks)
            packets = self._publish_first(packets)
        if not self._single:
            self._horizons.horizon_if_due(token.last, self._held, self._frontier, now)
        if rests:
            self._rest(now)
        elif lingers:
            self._linger(token, now, rested=rested, asks=asks)
        else:
            self._pass(token, now)
        for packet in packets:
            self._context.publish(packet)

    def _publish_first(self, packets: list[DataPacket]) -> list[DataPacket]:
        """Send the packets that go before the token; return those that follow it."""
        early = max(len(packets) - ACCELERATED_PACKETS, 0) or len(packets)
        for packet in packets[:early]:
            self._context.publish(packet)
        return packets[early:]

    def _repair(self, token: Token, shown: int, now: float) -> None:
        """Answer the requests of others, and request what is missing here, up to `shown`."""
        if token.requests or self._answered:
            self._answer_requests(token)
        add_requests(token, self._ring, self._stream.missing(shown), self._form.room)
        if not self._single:
            self._request_foreign(token, now)

    def _answer_requests(self, token: Token) -> None:
        """Multicast the packets that others request and that are held here."""
        budget = self._config.windows.repair_bytes
        answers, token.requests = answer_requests(
            token.requests, self._streams, budget, self._answered
        )
        for packet in answers:
            if packet.daemon == self._me:
                self.flow.window.repeated += len(packet.raw)
            self._context.send_again(packet)
            self._context.ring_counts.repeated_packets += 1
            self._context.ring_counts.repeated_bytes += len(packet.raw)

    def _request_foreign(self, token: Token, now: float) -> None:
        """Request packets of other streams from the ring, unless a link here should bring them."""
        if self.entered and token.requests:
            # The whole ring lacks packets that enter here: the token need not circulate for them.
            token.requests = [r for r in token.requests if r[0] not in self.entered]
        request_foreign(token, self._gaps, now, self._form.room)

    def _number(self, token: Token, budget: int, now: float, *, far: bool) -> list[DataPacket]:
        """Give waiting bundles numbers, within the windows."""
        row, flow = token.rows[self._place], self.flow
        packets = self._packer.fill(token.last, budget, self._context.causes, far=far)
        for packet in packets:
            size = len(packet.raw)
            row.sent += size
            token.burst += size
            flow.note_numbered(packet.number, size)
            if packet.local_only:
                flow.note_local_only(packet.number)
            self._context.originate(packet)
        if packets:
            self._lingering.note_packet(now)
            token.last = packets[-1].number
            token.last_sender = self._me
        return packets

    def _write_row(self, token: Token) -> None:
        """Write the numbers held here into the token, and read those held by all daemons."""
        row, ring, flow = token.rows[self._place], self._ring, self.flow
        row.frontier = self._blocks.least
        held = [self._stream.held] if self._single else [stream.held for stream in self._streams]
        row.held = flow.to_report(held) if flow.blocked else held
        flow.reported = row.held
        if self._deliverable.is_reported:
            row.held = [*row.held, self._deliverable.report()]
        before = self._frontier
        self._frontier, self.held_by_all = token.read_rows(row, ring)
        if not self._single:
            self._held = [token.held_by_all(ring) for ring in range(len(self._streams))]
        if self._deliverable.is_reported:
            self._deliverable.raise_to(token.held_by_all(len(self._streams)))
        if self._frontier > before:
            self._context.ring_frontier(self._frontier)

    def _may_linger(
        self, token: Token, packets: list[DataPacket], now: float, *, rested: bool
    ) -> bool:
        """Return whether the packets just numbered may go to others before the token does.

        A lone message is delivered sooner if no daemon has to handle the token first, and messages
        that follow each other share its round. If they fill the window, or a good part of it while
        others number packets, too, the token goes at once. It also goes at once for SAFE messages,
        if the ring has too many daemons to collect their reports.

        In a view of several rings the token goes soon, as headers wait for what the whole ring
        holds; so there only a token that already rested stays.
        """
        sent = token.rows[self._place].sent
        part = LINGER_PART if token.burst > sent else 1  # 1: this daemon alone sends
        return (
            self._lingering.may_stay(now)
            and not token.requests
            and not token.wanted
            and sent * part < self.flow.window.bytes
            and (rested or (self._lingering.steady and bool(packets)))
        )

    def _is_safe(self, packets: list[DataPacket]) -> bool:
        """Return whether SAFE messages wait for the news that all daemons hold them."""
        for packet in packets:
            if packet.safe:
                return True
        return self._single and self._context.safe_waits(0, 2**64)

    def _may_ask(self, packets: list[DataPacket]) -> bool:
        """Return whether the others can report these packets, without the token."""
        if not (packets and self._holdings.are_reported):
            return False
        if self._single:
            return self._blocks.least >= packets[-1].time
        return self._deliverable.waits and self._deliverable.own >= packets[-1].number

    def _linger(self, token: Token, now: float, *, rested: bool, asks: bool) -> None:
        """Keep a token that must circulate; later packets show which of the last ones others lack.

        If no packets follow, the token shows it once it goes.
        """
        self.state = TokenState.LINGERING
        if not rested:
            self._round_at = now + self._rest_interval_s
            self._note_rest(token, now)
        self._lingering.stay(now, asks=asks)

    def _pass(self, token: Token, now: float) -> None:
        self._lingering.settle_at = inf
        if self._form.by_columns:
            self._far.on_pass(token)
        self.flow.window.token_left(token.rows[self._place].sent)
        token.hop += 1
        token.clock = self._clock.value
        target = self._next_holder(token, now) if token.wanted else self._successor
        if target == self._successor:
            self._lingering.note_round(now)
        packet = token.encode(self._key, self._form.limit)
        self.state = TokenState.AWAY
        self.monitor.passed_on(packet, target, token.hop, now)
        self._context.send(target, packet)
        self._watch(now)

    def _next_holder(self, token: Token, now: float) -> int:
        """Return the daemon that gets the token, as some have asked for it: the first of these.

        Daemons that ask in turns must not keep it from the others, which would take it for lost. If
        requests leave it no time to circulate, the next one in the ring gets it first, and each
        that has lacked it does the same.
        """
        if self._lingering.is_starving(now):
            return self._successor
        return token.wanted.pop(0)

    # ---- the token rests ----

    def _rest(self, now: float) -> None:
        self._settle(now)
        self._note_rest(self._token, now)
        self._round_at = now + self._rest_interval_s
        self._announce_rest(now)

    def _settle(self, now: float) -> None:
        """Let the token rest, as all daemons of the ring hold what was numbered."""
        self.state = TokenState.RESTING
        self.flow.settle(self._token, self._token.rows[self._place])
        if self._form.by_columns:
            self._far.on_rest(self._token, self._held, self._streams, now)

    def _announce_rest(self, now: float) -> None:
        """Announce that the token rests here and that all daemons hold its stream."""
        token, horizon = self._token, self._clock.advance(now)
        self._rest_at = now + self._rest_interval_s
        self._lingering.note_rest()
        self._context.promise(horizon, token.last)
        if self._alone:
            return
        notice = RestNotice(
            ring=self._ring,
            hop=token.hop,
            holder=self._me,
            last=token.last,
            horizon=horizon,
            frontiers=[row.frontier for row in token.rows],
            deliverable=self._deliverable.ring if self._deliverable.is_reported else None,
        )
        self._context.send(RING, notice.encode(self._key))

    def _note_rest(self, token: Token, now: float) -> None:
        self._noted_frontier = self._blocks.least
        self.monitor.rests(token.hop, self._me, now, wanted=self._packer.source.size > 0)

    def _stay(self, now: float) -> None:
        if now >= self._rest_at and self.state is TokenState.RESTING:
            self._announce_rest(now)
        if not self._single:
            self._horizons.horizon_if_due(self._token.last, self._held, self._frontier, now)

    def _must_circulate(self, now: float) -> bool:
        """Return whether others need the resting token, or it must collect their holdings."""
        token = self._token
        if (
            now >= self._far.due
            or self._wanted
            or (self._alone and self._lags() and not self.flow.blocked)
        ):
            return True
        if not self._single and (
            any(gaps.deadline <= now for gaps in self._gaps) or self._holds_more()
        ):
            return True
        if self.state is TokenState.LINGERING and (
            now >= self._lingering.settle_at or self._packer.source.size
        ):
            return True
        context = self._context
        written, frontier = token.rows[self._place].frontier, self._blocks.least
        round_is_due = now >= self._round_at and context.holds_packets
        deliverable = self._deliverable
        if deliverable.is_reported and (deliverable.is_due or (round_is_due and deliverable.waits)):
            return True
        return frontier > written and (round_is_due or context.safe_waits(written, frontier))

    def _holds_more(self) -> bool:
        """Return whether senders of other rings will soon wait for what this ring holds."""
        if self.flow.blocked:
            return False
        reported, after = self._token.rows[self._place].held, self._horizons.report_after
        return any(
            stream.held - reported[stream.ring] >= after
            for stream in self._streams
            if stream is not self._stream
        )

    def _lags(self) -> bool:
        """Return whether a slow client made this daemon, a lone one, report less than it holds."""
        return self.held_by_all < self._token.last

    def _rest_deadline(self) -> float:
        deadline = min(self._horizons.horizon_at, self._far.due)
        if self._lags() if self._alone else self.state is TokenState.RESTING:
            deadline = min(deadline, self._rest_at)
        for gaps in self._gaps:
            deadline = min(deadline, gaps.deadline)
        written = self._token.rows[self._place].frontier
        overdue = self._blocks.least > written or (not self._single and self._deliverable.waits)
        overdue = overdue and self._context.holds_packets
        return min(deadline, self._lingering.settle_at, self._round_at if overdue else inf)

    # ---- the token is elsewhere ----

    def _watch(self, now: float) -> None:
        """Have the monitor send the token again, ask for it, or note its loss, if it is time."""
        stream, monitor = self._stream, self.monitor
        if not self._single or stream.held == stream.known or not monitor.at_rest:
            self._gap_at = inf
        else:
            self._time_gap(now)
        missing_at = self._gap_at
        if not self._single:
            missing_at = min(missing_at, self._missing_deadline())
        waits = self._packer.source.size > 0
        wanted = missing_at <= now or (waits and self._may_number())
        # A circulating token collects frontiers; frontiers that it missed appear once it rests.
        if not (wanted or waits) and monitor.at_rest:
            noted, own = self._noted_frontier, self._blocks.least
            wanted = noted < own and self._context.safe_waits(noted, own)
            if not self._single:
                wanted = wanted or self._deliverable.is_due
        urgent = waits or self._gap_at <= now
        monitor.step(now, wanted=wanted, urgent=urgent, missing_at=missing_at)

    def _time_gap(self, now: float) -> None:
        """Time how long packets of this ring's stream are missing while the token lingers.

        A token that circulates shows by itself which packets are missing; one that rests shows that
        none is. Only one that lingers with a sender, in a view of one ring, does neither.
        """
        stream = self._stream
        if self._gap_at == inf or self._gap_above != stream.held:
            self._gap_at = now + self._config.timing.linger_s
            self._gap_above = stream.held
        elif now >= self._gap_at:
            self._doubted = stream.known

    def _missing_deadline(self) -> float:
        """Return the time at which a foreign packet or notice is missing for too long, or inf.

        There are other rings.
        """
        deadline = inf
        for gaps in self._gaps:
            if gaps.deadline < deadline:
                deadline = gaps.deadline
        if self._context.holds_packets:
            deadline = min(deadline, self.notices.missed_at())
        return deadline

    def _may_number(self) -> bool:
        """Return whether the waiting bundles may be numbered, as far as is known here."""
        known, flow = self._stream.known, self.flow
        wants = self._packer.source.wants(far=flow.may_leave_ring(known))
        return wants and flow.may_number(known)
