"""The ring: one token decides who numbers packets, and carries what all must know.

Pure. ``now`` is in seconds on the daemon's monotonic clock. States, and what makes them change:

    AWAY      the token is elsewhere. Wanting it, the daemon asks for it by a request.
      | token arrives                                  | token passed on
      v                                                |
    visit     (within one step) repair, number, write the own row ---------------+
      | nobody asks, all hold the whole stream, the last packet is of this daemon
      v
    RESTING   the token stays; rest notices tell so. Messages of this daemon are numbered at once,
              and the token goes round for them a moment later, or in a view of one ring once no
              more follow. Another wish: it goes now, and may stay where something is numbered.

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
from groupcomm.ring.announcer import Announcer
from groupcomm.ring.away import Away
from groupcomm.ring.flow import Flow
from groupcomm.ring.holdings import Holdings
from groupcomm.ring.host import Host
from groupcomm.ring.keeping import Keeping
from groupcomm.ring.visit import (
    add_requests,
    answer_requests,
    first_token,
    held_by_ring,
    least_frontier,
    queue_wishes,
)
from groupcomm.stream.gaps import Gaps
from groupcomm.stream.packer import Packer
from groupcomm.stream.stream import Stream
from groupcomm.wire.data import DataPacket
from groupcomm.wire.held import HeldNotice
from groupcomm.wire.request import TokenRequest
from groupcomm.wire.rest import RestNotice
from groupcomm.wire.token import Token, request_room

LINGER_PART = 4
"""The token goes at once for more than a part of so many of the window."""

_EVER = 2**64

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
        away: what is done while the token is elsewhere.
        flow: how much may be numbered.
        notices: when the next horizon notice is owed.
        duplicate_tokens: copies received.
        entered: the rings whose packets come in over a link here.
        everywhere: all daemons of the ring hold its stream up to this number.
        last_hop: hop of the token that was here last.
    """

    __slots__ = (
        "_alone",
        "_announcer",
        "_blocks",
        "_clock",
        "_config",
        "_frontier",
        "_gaps",
        "_holdings",
        "_host",
        "_keeping",
        "_key",
        "_me",
        "_members",
        "_packer",
        "_place",
        "_ring",
        "_room",
        "_round_at",
        "_shown",
        "_stream",
        "_streams",
        "_token",
        "_wanted",
        "away",
        "deadline",
        "duplicate_tokens",
        "entered",
        "everywhere",
        "flow",
        "last_hop",
        "notices",
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
        host: Host,
        now: float,
    ) -> None:
        self._config = config
        self._host, self._blocks = host, host.blocks
        self._clock = clock
        self._packer = packer
        self._streams = streams
        self._gaps = gaps  # of foreign streams, but for those that are asked for over a link
        self.entered = entered
        self._key, self._me = view.key, me
        self._ring = view.ring_of[me]
        self._members = view.rings[self._ring]
        self._place = self._members.index(me)
        self._alone = len(self._members) == 1
        self._holdings = Holdings(self._members, me)
        self._stream = streams[self._ring]
        self._announcer = Announcer(view, me, config.timing, clock=clock, host=host, now=now)
        self.notices = self._announcer.notices
        self.flow = Flow(config, view, self._stream)
        self.away = Away(
            self._ring,
            me,
            view.key,
            config.timing,
            hop=config.starts.hop,
            holder=self._members[0],
            flow=self.flow,
            packer=packer,
            stream=self._stream,
            gaps=gaps,
            notices=self.notices if len(streams) > 1 else None,
            host=host,
            now=now,
        )
        self._frontier = 0  # of the ring, by the token when it was here last
        self.last_hop = config.starts.hop
        self._shown = self._stream.held  # last number that the token showed when it left here
        self._room = request_room(len(self._members), len(streams), view.packet_limit)
        self._wanted: list[int] = []  # who asked for the token while it was here
        self._keeping = Keeping(config.timing, single=len(streams) == 1)
        self._round_at = now  # when the token may go round to collect frontiers only
        self.duplicate_tokens = 0
        self.everywhere = self._stream.held
        self._token = first_token(
            self._ring, self._members, hop=config.starts.hop, clock=clock.value, streams=streams
        )
        self.state = State.RESTING if self._members[0] == me else State.AWAY
        self.deadline = now

    # ---- what arrives ----

    @property
    def most(self) -> int:
        """Return the last number given in the ring, while the token is here."""
        return self._token.last

    def on_token(self, token: Token, now: float) -> None:
        """Take a token; a copy of one that was here already changes nothing."""
        self.away.heard(now)
        if token.hop <= self.last_hop:
            self.duplicate_tokens += 1
            if self.state is State.RESTING:
                self._announcer.rest_at = now  # its sender has not heard that it arrived
            return
        self.last_hop = token.hop
        self.away.came_by(token.hop)
        self._token = token
        self._stream.learn(token.last)
        self._clock.follow(token.clock)
        self.state = State.ARRIVED
        self.flow.back(token, token.rows[self._place])

    def on_rest(self, notice: RestNotice, now: float) -> None:
        """Take a rest notice: heartbeat, proof of the last pass, stability."""
        self.away.heard(now)
        self._stream.learn(notice.last)
        self.everywhere = max(self.everywhere, notice.last)
        if notice.hop >= self.away.hop and self.state is State.AWAY:
            self.away.rests(notice.hop, notice.holder, notice.frontiers[self._place], now)

    def on_request(self, request: TokenRequest) -> None:
        """Take a fellow's request; it is answered if the token is here."""
        if request.hop >= self.away.hop:
            self.away.moved_on()
        if self.state is not State.AWAY and request.daemon not in self._wanted:
            self._wanted.append(request.daemon)

    def on_packet(self, packet: DataPacket, now: float) -> None:
        """A fellow has numbered a packet: only a later holder can have given one so high."""
        number = packet.number
        self._keeping.note_packet(now)
        if number > self._shown:
            self.away.moved_on()
            if packet.asks:
                self._holdings.asked(packet.daemon, number, packet.time)
            if packet.keeps and number == self._stream.known and self.state is State.AWAY:
                self.away.kept(packet.daemon, now)

    def on_held(self, notice: HeldNotice) -> None:
        """A fellow has told what it holds."""
        self._holdings.heard(notice.daemon, notice.frontier)
        if self.state is State.AWAY:
            return
        row = self._token.rows[self._members.index(notice.daemon)]
        if notice.held > row.held[self._ring]:
            row.held[self._ring] = notice.held
        if notice.frontier > row.frontier:
            row.frontier = notice.frontier

    # ---- one step ----

    def step(self, now: float) -> None:
        """Do what the token's place and the time call for; once after all that has arrived."""
        if self._holdings.owed:
            self._tell_held()
        if self._holdings.news:
            self._hear_held()
        if self.state is State.ARRIVED:
            self._visit(now, self._budget())
        elif self.state is State.RESTING:
            budget = self._budget()
            if budget > 0 and not self._wanted:
                # Each step may bring more to number: what lingers goes round all the same.
                self._visit(now, budget, leave=now >= self._keeping.settle_at)
            elif self._must_go_round(now):
                self._visit(now, budget, leave=not self._alone)
            else:
                self._stay(now)
        else:
            self.away.wait(now)
        resting = self.state is State.RESTING
        self.deadline = self._rest_deadline(now) if resting else self.away.deadline

    def _tell_held(self) -> None:
        """Answer to the ring what is held here, once that is what was asked for."""
        answer = self._answers()
        if answer is None:
            return
        self._holdings.owed, self._holdings.news = 0, True
        held, frontier = answer
        notice = HeldNotice(ring=self._ring, daemon=self._me, held=held, frontier=frontier)
        self._host.send(RING, notice.encode(self._key))

    def _answers(self) -> tuple[int, int] | None:
        """Up to which number, and which time, all is held here; None before it is what is asked.

        As in the token it is nothing new while a client is slow: see Flow.
        """
        if self._stream.held < self._holdings.owed:
            return None
        held = self.flow.to_tell([stream.held for stream in self._streams])
        return held[self._ring], self._blocks.least

    def _hear_held(self) -> None:
        """Fellows have told what they hold: it may be what all do."""
        least = self._holdings.risen(self._blocks.least)
        if not least:
            return
        self._host.ring_frontier(least)
        self.away.told(least)
        if self.state is State.RESTING and self._is_unsettled():
            self.everywhere = held_by_ring(self._token, self._ring)
            if self.everywhere >= self._token.last:
                self._keeping.settled()
                self.flow.settled(self._token, self._token.rows[self._place])

    def _visit(self, now: float, budget: int, *, leave: bool = False) -> None:
        """Do what the token is here for; `budget`: see `_budget`."""
        token = self._token
        rested = self.state is State.RESTING
        self._clock.advance(now)
        if token.requests:
            self._answer(token)
        shown = max(self._shown, self.away.doubted)
        add_requests(token, self._ring, self._stream.missing(shown), self._room)
        self._ask_foreign(token, now)
        packets = self._number(token, budget, now) if budget > 0 else []
        self._shown = token.last
        self._write_row(token, now)
        if token.wanted or self._wanted:
            queue_wishes(token, self._wanted, self._me)
        rests = self._alone or (self._may_rest(token) and not leave)
        stays = asks = False
        if not (rests or leave):
            safe = self._is_safe(packets)
            asks = safe and self._may_ask(packets)
            here = rested or asks
            stays = (asks or not safe) and self._may_linger(token, packets, now, rested=here)
        if stays and packets and self._keeping.single:
            packets[-1].keep(asks=asks)
        early = max(len(packets) - ACCELERATED_PACKETS, 0) or len(packets)
        for packet in packets[:early]:
            self._host.publish(packet)
        if not self._keeping.single:
            self._announcer.horizon_if_due(token, self._frontier, now)
        if rests:
            self._rest(now)
        elif stays:
            self._linger(token, now, rested=rested, asks=asks)
        else:
            self._pass(token, now)
        for packet in packets[early:]:
            self._host.publish(packet)

    def _answer(self, token: Token) -> None:
        """Multicast what others ask for and is held here."""
        budget = self._config.windows.repair_bytes
        answers, token.requests = answer_requests(token.requests, self._streams, budget)
        for packet in answers:
            if packet.daemon == self._me:
                self.flow.window.repeated += len(packet.raw)
            self._host.send(RING, packet.raw)

    def _ask_foreign(self, token: Token, now: float) -> None:
        """Ask the ring for packets of other streams; where they come in, one asks over the link."""
        if self.entered and token.requests:
            # Where it comes in the whole ring lacks it: nobody keeps the token going round for it.
            token.requests = [r for r in token.requests if r[0] not in self.entered]
        for gaps in self._gaps:
            add_requests(token, gaps.stream.ring, gaps.take_due(now), self._room)

    def _budget(self) -> int:
        """Return how many bytes may be numbered while the token is here; 0 if nothing waits."""
        waiting, token = self._packer.source, self._token
        if not waiting.size or not waiting.wants(far=self.flow.may_leave(token.last)):
            return 0
        return self.flow.budget(token, token.rows[self._place])

    def _number(self, token: Token, budget: int, now: float) -> list[DataPacket]:
        """Give waiting bundles numbers, within the windows."""
        row = token.rows[self._place]
        far = self.flow.may_leave(token.last)
        packets = self._packer.fill(token.last, budget, self._host.causes, far=far)
        for packet in packets:
            row.sent += len(packet.raw)
            token.burst += len(packet.raw)
            if packet.stays:
                self.flow.stays(packet.number)
            self._host.originate(packet)
        if packets:
            self._keeping.note_packet(now)
            token.last = packets[-1].number
            token.last_sender = self._me
        return packets

    def _write_row(self, token: Token, now: float) -> None:
        row = token.rows[self._place]
        self._keeping.note_rows(token.rows, row, self._ring, token.last, now)
        row.frontier = self._blocks.least
        row.held = self.flow.to_tell([stream.held for stream in self._streams])
        self._frontier = least_frontier(token)
        self.everywhere = held_by_ring(token, self._ring)
        self._host.ring_frontier(self._frontier)

    def _may_rest(self, token: Token) -> bool:
        return (
            token.last_sender == self._me
            and not token.requests
            and not token.wanted
            and self.everywhere == token.last
        )

    def _may_linger(
        self, token: Token, packets: list[DataPacket], now: float, *, rested: bool
    ) -> bool:
        """Whether what was numbered may go to others before the token does.

        A lone message is delivered sooner if nobody has to handle the token first, and messages
        that follow each other share its round. What fills a good part of the window has the token
        go at once; and so has what is SAFE, where daemons are too many to be asked who holds it.

        In a view of several rings it goes soon, as headers wait for what the whole ring holds; so
        there only a token that rested already stays.
        """
        return (
            self._keeping.may_stay(now)
            and not token.requests
            and not token.wanted
            and token.rows[self._place].sent * LINGER_PART < self.flow.window.bytes
            and (rested or (self._keeping.steady and bool(packets)))
        )

    def _is_safe(self, packets: list[DataPacket]) -> bool:
        """Whether SAFE messages wait to hear who holds them."""
        for packet in packets:
            if packet.safe:
                return True
        return self._keeping.single and self._host.safe_waits(0, _EVER)

    def _may_ask(self, packets: list[DataPacket]) -> bool:
        """Whether fellows can be asked who holds these, and need not have the token for it."""
        if not (packets and self._keeping.single and self._holdings.are_told):
            return False
        return self._blocks.least >= packets[-1].time

    def _linger(self, token: Token, now: float, *, rested: bool, asks: bool) -> None:
        """Keep a token that has to go round: what others lack of the last packets shows by those
        that follow, and else once it goes.
        """
        if not rested:
            self.state = State.RESTING
            self._round_at = now + self._config.timing.rest_interval_s
            self.away.rests(token.hop, self._me, self._blocks.least, now)
        self._keeping.stay(now, asks=asks)

    def _pass(self, token: Token, now: float) -> None:
        self._keeping.settle_at = inf
        self.flow.window.leaves(token.rows[self._place].sent)
        token.hop += 1
        token.clock = self._clock.value
        target = self._next(token, now)
        packet = token.encode(self._key)
        self.state = State.AWAY
        self.away.passed_on(packet, target, token.hop, now)
        self._host.send(target, packet)
        self.away.wait(now)

    def _next(self, token: Token, now: float) -> int:
        """Who is to have the token: who asks for it, else the successor.

        Those that ask by turns must not keep it from others, who would take it for lost. If it
        finds no time between wishes to go round, it goes first to who has not had it for longest.
        """
        if not token.wanted:
            return self._members[(self._place + 1) % len(self._members)]
        if not self._keeping.is_starving(now):
            return token.wanted.pop(0)
        others = (place for place in range(len(token.rows)) if place != self._place)
        return self._members[min(others, key=lambda place: token.rows[place].held[self._ring])]

    # ---- at rest ----

    def _rest(self, now: float) -> None:
        self.state = State.RESTING
        self.flow.settled(self._token, self._token.rows[self._place])
        self.away.rests(self._token.hop, self._me, self._blocks.least, now)
        self._round_at = now + self._config.timing.rest_interval_s
        self._announcer.rest(self._token, now)

    def _stay(self, now: float) -> None:
        if now >= self._announcer.rest_at and not self._is_unsettled():
            self._announcer.rest(self._token, now)
        if not self._keeping.single:
            self._announcer.horizon_if_due(self._token, self._frontier, now)

    def _must_go_round(self, now: float) -> bool:
        """Whether others need the resting token, or it has to collect what they hold."""
        token = self._token
        if self._wanted or (self._lags() and not self.flow.blocked):
            return True
        if any(gaps.deadline <= now for gaps in self._gaps) or self._holds_more():
            return True
        if self._is_unsettled() and (now >= self._keeping.settle_at or self._packer.source.size):
            return True
        host = self._host
        written, frontier = token.rows[self._place].frontier, self._blocks.least
        round_is_due = now >= self._round_at and host.holds_packets
        return frontier > written and (round_is_due or host.safe_waits(written, frontier))

    def _holds_more(self) -> bool:
        """Whether senders of other rings soon wait to hear what this one holds of their streams."""
        if self._keeping.single or self.flow.blocked:
            return False
        told, after = self._token.rows[self._place].held, self._announcer.tell_after
        return any(
            stream.held - told[stream.ring] >= after
            for stream in self._streams
            if stream is not self._stream
        )

    def _is_unsettled(self) -> bool:
        """Whether others may lack what was numbered here since the token came to rest."""
        return not self._alone and self.everywhere < self._token.last

    def _lags(self) -> bool:
        """Alone: a client was slow at the last visit, so that less counts as held than is."""
        return self._alone and self.everywhere < self._token.last

    # ---- time ----

    def _rest_deadline(self, now: float) -> float:
        unsettled = self._is_unsettled()
        if self._budget() > 0 or (unsettled and self._packer.source.size):
            return now
        deadline = self._announcer.horizon_at
        if (not self._alone and not unsettled) or self._lags():
            deadline = min(deadline, self._announcer.rest_at)
        for gaps in self._gaps:
            deadline = min(deadline, gaps.deadline)
        written = self._token.rows[self._place].frontier
        overdue = self._blocks.least > written and self._host.holds_packets
        return min(deadline, self._keeping.settle_at, self._round_at if overdue else inf)
