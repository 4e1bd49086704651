"""A subscriber: history first, live events then, joined without a gap and without a duplicate.

Pure: events of a session and the time in, messages to send and events for the program out. An
archive is a subscriber, too: it fetches what it lacks. docs/history.md has the states.
"""

import enum
from collections.abc import Collection, Sequence
from math import inf
from typing import Final, TypeAlias, cast

import attrs

from groupcomm.clocks.stamp import Position
from groupcomm.events import DaemonView, GroupView, MemberId, Message, Undeliverable
from groupcomm.level import ServiceLevel
from groupcomm_client.events import Received, Reconnected, Unfiltered, Unreadable
from groupcomm_client.history.frames import (
    ARCHIVES,
    HEAD,
    Channel,
    Find,
    Frame,
    More,
    Offer,
    Part,
    Piece,
    Read,
    Stop,
    decode_untrusted,
    encode,
    events_of_untrusted,
)
from groupcomm_client.history.gap_wait import GAP_WAIT_S, GapWait
from groupcomm_client.history.given import CaughtUp, Compacted, Gap, Start
from groupcomm_client.history.given_queue import QUEUE_BYTES, GivenQueue
from groupcomm_client.history.live import MARK, LiveLine, Queued, runs_of
from groupcomm_client.history.offers import best_of, lowest_of, reach
from groupcomm_client.history.parts import PartReader
from groupcomm_client.history.places import Line, Progress, place_of
from groupcomm_client.history.streams import (
    ChannelAction,
    CloseChannel,
    OpenChannel,
    PauseChannel,
    ResumeChannel,
    Stream,
)

FIND_S: Final = 0.5
"""The time for which a subscriber waits for offers."""

RETRY_S: Final = 1.0
"""The time after which a subscriber asks again if no archive has what it needs. It doubles each
time until there is an offer, as an archive may be busy. Late offers to earlier questions count."""

LONGEST_RETRY_S: Final = 8.0

BEHIND_S: Final = 0.1
"""The time after which it asks again if a live archive has not come as far as it has."""

ALONE_S: Final = 5.0
"""The time for which an archive waits for the offers of all others before it goes on alone."""

PIECE_S: Final = 1.0
"""The time in which an archive sends the next piece, else another one is looked for. It doubles
each time until a piece comes: hosts may be busy, and a late piece is of no use any more."""

LONGEST_PIECE_S: Final = 30.0

UNREACHABLE_S: Final = 60.0
"""The time for which a subscriber opens no channel to an archive after one has failed."""

WINDOW: Final = 4
"""The pieces that an archive may send ahead through the daemons."""

AT_ONCE: Final = 1000
"""About as many live messages are handled before any is given."""


class State(enum.Enum):
    """What a subscriber does."""

    FINDING = enum.auto()  # it asks the archives what they have
    READING = enum.auto()  # an archive sends pieces
    LIVE = enum.auto()  # events of the session are given as they come


@attrs.frozen
class Send:
    """An action: multicast this to a group or a private name."""

    to: str
    data: bytes
    level: ServiceLevel


Action: TypeAlias = Send | ChannelAction


class Subscriber:
    """A subscriber; call `handle` for every event, and `wake` once `deadline` is reached.

    Attributes:
        state: see `State`.
        live: the live events of the session.
        groups: the groups to subscribe to.
        waiting: the events that the program has not got yet, in order.
        deadline: when to call `wake`; None for never.
        alone_since: since when it looks for an archive, in a view of the line, and none has
            answered; None if it does not, or one has.
        ahead_of: a place of the line that its own place is ahead of, for good: the place is of
            another line, and nothing is given. None if it is not, or if it went back behind a gap,
            as it does with `alone_s`.
    """

    def __init__(
        self,
        me: MemberId,
        groups: Collection[str],
        start: Start | Position | int,
        *,
        now: float,
        view: DaemonView | None = None,
        stable: bool = False,
        is_archive: bool = False,
        queue_bytes: int = QUEUE_BYTES,
        has_channels: bool = False,
        first_number: int = 0,
        alone_s: float | None = None,
        compacted: bool = False,
        gap_wait_s: float = GAP_WAIT_S,
    ) -> None:
        """Begin in a session that is not a member of the groups yet, and joins all of them.

        Args:
            me: the session.
            groups: the groups to subscribe to.
            start: where to begin: behind a position, or with the first event that an archive has
                received at a time, in microseconds since 1970, or later.
            now: the time in seconds.
            view: the present view of daemons, if it was received already.
            stable: give an event only once all daemons of its view hold it.
            is_archive: whether it may go on alone if no archive answers.
            queue_bytes: see `Connection.subscribe`.
            has_channels: whether the program can open channels to archives.
            first_number: the number before its first one; subscribers of one session differ in it.
            alone_s: when live events follow behind a gap if no archive answers; None for never.
            compacted: whether the last message of each key is enough of what nobody has as a whole.
            gap_wait_s: see `GapWait`; an archive waits as `ALONE_S` says instead.
        """
        self.state = State.FINDING
        self.live = LiveLine(me, groups, view, stable=stable, queue_bytes=queue_bytes)
        self.waiting = GivenQueue(queue_bytes)
        self.deadline: float | None = now
        self.alone_since: float | None = None if start is Start.LATEST else now
        self.groups, self._start = tuple(groups), start
        self._is_archive, self._alone_s, self._compacted = is_archive, alone_s, compacted
        self.ahead_of: Position | None = None
        self._doubted = start if isinstance(start, Position) else None  # may be of another line
        self._gap_wait = GapWait(gap_wait_s, now)
        self._horizon: Position | None = None  # the last one that was told
        self._progress = Progress(self._doubted)
        self._numbers = first_number
        self._first_find = first_number + 1  # since it looks for an archive
        self._offers: dict[MemberId, Offer] = {}
        self._since, self._parts = now, PartReader()  # of this state, and of the next piece
        self._asked_at: float | None = None  # of the Find that is open
        self._stream: Stream | None = None
        self._marked_at, self._heard_at = -inf, now  # the latter of the last piece, or grant
        self._piece_s, self._retry_s = PIECE_S, RETRY_S
        self._archives: Collection[MemberId] = ()  # the other members of their group, if known
        self._has_channels, self._is_near = has_channels, False  # near to live events
        self._seen: Position | None = None  # `complete_after` when the last piece came
        self._unreachable: dict[MemberId, float] = {}  # until when no channel to it is opened
        self._actions: list[Action] = []

    @property
    def position(self) -> Position | None:
        """Return the place up to which every event was put into `waiting`."""
        return self._progress.after

    @property
    def wants_live(self) -> bool:
        """Return whether it begins with its own first live event, and has not begun."""
        return self._start is Start.LATEST and self._progress.after is None

    @property
    def waits_for_archive(self) -> bool:
        """Return whether a gap is next unless an archive comes back that has these events."""
        return self.state is State.FINDING and self._gap_wait.is_on

    # ---- input ----

    def handle_all(self, events: Sequence[Received], now: float) -> None:
        """Handle events of the session, in order; quicker than one call for each."""
        runs = list(runs_of(events))
        if self._is_far and self.live.may_drop and not any(map(self._is_special, runs)):
            self.live.drop_all(events)
            return
        count = 0  # of messages that were handled, and not followed
        for run in runs:
            if self._is_special(run):
                self._follow(now)  # a view may drop what is not given yet
                for event in run:
                    self.handle(event, now)
                count = 0
                continue
            if self.live.handle_run(cast(list[Message], run)) and self.state is State.LIVE:
                self._find(now)
            count += len(run)
            if count >= AT_ONCE:
                self._follow(now)
                count = 0
        self._follow(now)

    def _is_special(self, run: Sequence[Received]) -> bool:
        """Return whether there are frames or marks among events, or what is no message."""
        return type(run[0]) is not Message or self._is_private(run[0])

    @property
    def _is_far(self) -> bool:
        """Return whether live events are not worth their memory: much is to be read before them.

        An archive keeps them, as it may be the only one to have them.
        """
        return self.state is State.READING and not self._is_near and not self._is_archive

    def handle(self, event: Received, now: float) -> None:
        """Handle one event of the session."""
        match event:
            case Message() if event.data.startswith(HEAD) and self._is_private(event):
                self._on_frame(event, now)
                return
            case Undeliverable():
                self._on_undeliverable(event, now)
                return
            case GroupView() if event.group == ARCHIVES:
                self._archives = [m for m in event.members if m != self.live.me]
                return
        dropped = self.live.handle(event)
        if isinstance(event, Reconnected):
            self._doubted = self._progress.after
        if isinstance(event, Reconnected) or (dropped and self.state is State.LIVE):
            self._find(now)
        self._follow(now)

    def _is_private(self, message: Message) -> bool:
        """Return whether a message was sent to this session alone."""
        return message.groups == (self.live.me.name,)

    def _follow(self, now: float) -> None:
        """Give the live events that may be given."""
        if self.state is not State.LIVE:
            self._join_if_complete()
        self._give_live()
        self._set_deadline(now)

    def wake(self, now: float) -> None:
        """Let time pass."""
        if self._expects_piece and now >= self._heard_at + self._piece_s:
            self._piece_s = min(2 * self._piece_s, LONGEST_PIECE_S)
            self._avoid_silent_channel(now)
            self._find(now)
        if self.state is State.FINDING:
            self._look(now)
        if self.live.wants_mark and now >= self._marked_at + self.live.mark_after_s:
            self._marked_at = now
            self.live.has_mark_in_flight = True
            self._actions.append(Send(self.live.me.name, MARK, ServiceLevel.SAFE))
        self._set_deadline(now)

    def taken(self, now: float) -> None:
        """Note that the program has taken events out of `waiting`."""
        self._give_live()
        self._grant(now)
        self._set_deadline(now)

    # ---- other groups ----

    def add_group(self, group: str, now: float) -> None:
        """Subscribe to another group, before the view with which this session joins it."""
        self.groups += (group,)
        self.live.add_group(group)
        if self.state is not State.LIVE:
            self._find(now)

    def remove_group(self, group: str) -> None:
        """Subscribe to a group no more."""
        self.groups = tuple(each for each in self.groups if each != group)
        self.live.remove_group(group)

    def pop_actions(self) -> list[Action]:
        """Remove and return what to do, in order."""
        actions, self._actions = self._actions, []
        return actions

    # ---- archives ----

    @property
    def _expects_piece(self) -> bool:
        stream = self._stream
        return self.state is State.READING and stream is not None and stream.expects_piece

    def _find(self, now: float) -> None:
        """Look for an archive that has what comes next."""
        self._stop()
        self.state = State.FINDING
        self._since = self.alone_since = now
        self._first_find = self._numbers + 1
        self._gap_wait.begin(now)
        self._is_near, self._seen = False, None
        self._asked_at = None
        self.deadline = now

    def _stop(self) -> None:
        if self._stream is not None:
            self._send(self._stream.archive.name, Stop(self._stream.number))
            self._forget_stream()

    def _forget_stream(self) -> None:
        if self._stream is not None and self._stream.has_channel:
            self._actions.append(CloseChannel())
        self._stream = None

    def _look(self, now: float) -> None:
        """Ask the archives, or choose among their offers."""
        if self.wants_live or self.ahead_of is not None or self.waiting.is_full:
            return  # it needs none; or nobody can help; or the program has enough to do
        if not self.live.is_on_line and self.alone_since is not None:
            self.alone_since = now
        if self._asked_at is None or now >= self._asked_at + self._retry_s:
            self._numbers += 1
            if self._asked_at is not None and not self._offers:
                self._retry_s = min(2 * self._retry_s, LONGEST_RETRY_S)
            self._offers = {}
            self._asked_at = now
            self._gap_wait.ask(now=now, is_on_line=self.live.is_on_line)
            self._send(ARCHIVES, Find(self._numbers, self.groups))
        elif now >= self._asked_at + FIND_S or self._have_all_answered:
            self._choose(now)

    @property
    def _have_all_answered(self) -> bool:
        return bool(self._archives) and self._offers.keys() >= set(self._archives)

    def _on_frame(self, message: Message, now: float) -> None:
        frame = decode_untrusted(message.data)
        if isinstance(frame, Offer):
            self._on_offer(message.sender, frame, now)
        elif isinstance(frame, Piece | Part):
            self._on_piece_or_part(message.sender, frame, now)
        elif isinstance(frame, Channel):
            self._on_channel(message.sender, frame, now)
        self._set_deadline(now)

    def _on_piece_or_part(self, sender: MemberId, frame: Piece | Part, now: float) -> None:
        if self._stream is None or (sender, frame.number) != self._stream.name:
            return
        self._heard_at = now
        piece = self._parts.add(frame) if isinstance(frame, Part) else frame
        if piece is not None:
            self._on_piece(piece, events_of_untrusted(piece), now)

    def _on_offer(self, sender: MemberId, offer: Offer, now: float) -> None:
        if self.state is not State.FINDING or offer.number < self._first_find:
            return
        if self._asked_at is None or sender == self.live.me:
            return
        self.alone_since = None
        self._offers[sender] = offer
        self._gap_wait.note_away(offer.away_ms, now)
        self._retry_s = RETRY_S
        after = self._progress.after
        if offer.is_live and after is not None and reach(offer, after) is not None:
            self._read(sender, now)
        elif offer.is_live and self._is_behind(offer):
            self._asked_at = now - self._retry_s + BEHIND_S
        elif self._have_all_answered or now >= self._asked_at + FIND_S:
            self._choose(now)

    def _choose(self, now: float) -> None:
        """Read from the archive that has most behind the present place, or go on behind a gap."""
        after = self._progress.after
        best = best_of(self._offers, after)
        if best is not None and (best[0] != after or self._will_grow(self._offers[best[1]])):
            self._read(best[1], now)
            return
        if any(map(self._is_behind, self._offers.values())):
            return  # it is asked again, and may have come this far
        if self._doubted is not None and self.live.complete_after is not None:
            return  # a mark will say whether the line has come this far
        lowest = lowest_of(self._offers, after, compacted=self._compacted)
        own = self.live.complete_after
        if own is not None and self._may_go_alone(now) and (lowest is None or own <= lowest[0]):
            if self._may_skip(now):
                self._skip_to(own)
                self._join_if_complete()
                self._give_live()
        elif lowest is not None:
            first, archive, is_compacted = lowest
            if after is not None and first > after:
                if not self._may_skip(now):
                    return
                self._skip_to(first)
            self._read(archive, now, compacted=is_compacted)

    def _may_skip(self, now: float) -> bool:
        """Return whether no archive that may have the next events can come back in time."""
        has_waited = self.live.is_on_line and self._gap_wait.is_over(now)
        may_skip = has_waited or self._is_archive or self._progress.after is None
        self._gap_wait.is_on = not may_skip
        return may_skip

    def _may_go_alone(self, now: float) -> bool:
        """Return whether live events may be given although no archive has what is before them."""
        if not self._is_archive:
            return bool(self._offers) or (self._alone_at is not None and now >= self._alone_at)
        return self._have_all_answered or not self._archives or now >= self._since + ALONE_S

    @property
    def _alone_at(self) -> float | None:
        """Return when it may go on without an archive; None for never."""
        if self._alone_s is None or self.alone_since is None:
            return None
        return self.alone_since + self._alone_s

    def _will_grow(self, offer: Offer) -> bool:
        """Return whether an archive will have more behind its last place.

        An archive that is not live may wait for this one, if this is an archive, too.
        """
        return offer.is_live or not self._is_archive

    def _is_behind(self, offer: Offer) -> bool:
        """Return whether an archive has not come as far as this subscriber, and will."""
        if not self._will_grow(offer):
            return False
        if not offer.intervals:
            return True  # it has begun, and nothing is on its disk yet
        after = self._progress.after
        return after is not None and offer.intervals[-1][1] < after

    def _skip_to(self, place: Position) -> None:
        """Go on behind a place, after a gap."""
        self.waiting.append(Gap(after=self._progress.after, upto=place))
        self._progress.complete(place)  # views at a higher place may have been given already

    def _read(self, archive: MemberId, now: float, *, compacted: bool = False) -> None:
        self.state = State.READING
        self._parts.clear()
        self._numbers += 1
        by_channel = self._has_channels and now >= self._unreachable.get(archive, now)
        self._stream = Stream(archive, self._numbers, WINDOW, by_channel)
        self._heard_at = now
        after = self._progress.after
        since_us = self._start if after is None and isinstance(self._start, int) else None
        of = (self._numbers, self.groups, after, since_us, WINDOW, by_channel)
        request = Read(*of, compacted)
        self._send(archive.name, request)

    # ---- channels ----

    def _on_channel(self, sender: MemberId, channel: Channel, now: float) -> None:
        stream = self._stream
        if stream is None or (sender, channel.number) != stream.name:
            return
        if stream.by_channel and not stream.has_channel:
            self._stream = attrs.evolve(stream, has_channel=True)
            self._heard_at = now
            self._actions.append(OpenChannel(channel))

    def handle_piece(self, piece: Piece, events: list[Line] | None, now: float) -> None:
        """Handle a piece that has come by the channel.

        Args:
            piece: the piece.
            events: its events, None if its parts contradict each other.
            now: the time in seconds.
        """
        stream = self._stream
        if stream is not None and stream.has_channel and stream.number == piece.number:
            self._on_piece(piece, events, now)
            self._set_deadline(now)

    def handle_failure(self, number: int, now: float) -> None:
        """Read again: the channel of a stream has broken, or cannot be opened.

        If it has brought nothing, the next stream goes through the daemons.
        """
        stream = self._stream
        if stream is not None and stream.has_channel and stream.number == number:
            if not stream.next_piece:
                self._avoid_channel(stream.archive, now)
            self._stop()
            self._read(stream.archive, now)
            self._set_deadline(now)

    def _avoid_silent_channel(self, now: float) -> None:
        stream = self._stream
        if stream is not None and stream.has_channel and not stream.next_piece:
            self._avoid_channel(stream.archive, now)

    def _avoid_channel(self, archive: MemberId, now: float) -> None:
        self._unreachable = {a: until for a, until in self._unreachable.items() if until > now}
        self._unreachable[archive] = now + UNREACHABLE_S

    # ---- pieces ----

    def _on_piece(self, piece: Piece, events: list[Line] | None, now: float) -> None:
        stream = self._stream
        assert stream is not None, "checked by the caller"
        after = self._progress.after
        if after is None and piece.index == 0:
            after = piece.after
            self._skip_to(after)
        if events is None or piece.after != after:
            self._find(now)  # a piece was lost, or the archive has another format
            return
        if piece.horizon is not None and piece.horizon != self._horizon:
            self._horizon = piece.horizon
            self.waiting.append(Compacted(after=piece.after, upto=piece.horizon))
        self._stream = attrs.evolve(stream, next_piece=piece.index + 1)
        self._heard_at, self._piece_s = now, PIECE_S
        self._give(events)
        self._progress.complete(piece.upto)
        self._note_distance(piece.upto)
        self._join_if_complete()
        if self.state is State.LIVE:
            self._give_live()
        elif piece.is_end:
            self._find(now)
        else:
            self._grant(now)

    def _give(self, events: list[Line]) -> None:
        """Give events of a piece, which rise; the first ones may have been given already."""
        progress = self._progress
        start = 0
        while start < len(events) and not _is_new(progress, events[start]):
            start += 1
        if start < len(events):
            self.waiting.extend(events[start:])
            progress.give_all(events[start:])

    def _grant(self, now: float) -> None:
        """Let the archive send more if there is room for it, else no more."""
        stream = self._stream
        if self.state is not State.READING or stream is None:
            return
        is_full = self.waiting.is_full
        if stream.has_channel:
            if is_full != stream.is_paused:
                self._stream = attrs.evolve(stream, is_paused=is_full)
                self._heard_at = now
                self._actions.append(PauseChannel() if is_full else ResumeChannel())
            return
        if is_full:
            return
        granted = stream.next_piece + WINDOW
        if granted - stream.granted >= WINDOW // 2:
            if stream.next_piece == stream.granted:
                self._heard_at = now
            self._stream = attrs.evolve(stream, granted=granted)
            self._send(stream.archive.name, More(stream.number, granted))

    def _on_undeliverable(self, event: Undeliverable, now: float) -> None:
        if self._stream is not None and event.target == self._stream.archive.name:
            self._forget_stream()
            self._find(now)
            self._set_deadline(now)

    # ---- live events ----

    def _note_distance(self, upto: Position) -> None:
        """Note how far the stream is: near if a piece has what was live when the last one came."""
        seen, self._seen = self._seen, self.live.complete_after
        if seen is not None and upto >= seen:
            self._is_near = True

    def _clear_doubt(self) -> None:
        """Find out whether the line has come to the place from which this goes on.

        A daemon that is cut off, and does not know it yet, may be behind a place of the line. A
        mark that comes back proves that it is not: the line has no later view then.
        """
        doubted, start, marked = self._doubted, self.live.complete_after, self.live.marked
        if doubted is None or start is None:
            return
        is_ahead = doubted > start and (marked is None or doubted > marked)
        self.live.needs_mark = is_ahead and marked is None
        if not is_ahead:
            self._doubted = None
        elif marked is not None and self._alone_s is not None:
            self._skip_to(start)
            self._progress, self._doubted = Progress(start), None
        elif marked is not None:
            self._stop()
            self.state, self.ahead_of, self.alone_since = State.FINDING, marked, None

    def _join_if_complete(self) -> None:
        """Give live events from here on, if history has reached them."""
        self._clear_doubt()
        start, after = self.live.complete_after, self._progress.after
        if self._doubted is not None:
            return
        if start is None or not (self.wants_live or (after is not None and after >= start)):
            return
        self._stop()
        if after is None:
            self._progress = Progress(start)
        else:
            self.live.drop_upto(after)
        self.state = State.LIVE
        self.alone_since = None
        self.waiting.append(CaughtUp(position=after or start))

    def _give_live(self) -> None:
        if self.state is not State.LIVE or self.waiting.is_overfull:
            return
        progress = self._progress
        for queued in self.live.pop():
            if not queued.counts:
                self.waiting.extend(queued.events)
            elif progress.last is None or queued.first > progress.last:
                self.waiting.extend(queued.events)
                progress.give_all(list(map(_line_of, queued.events[-1:])))
            else:
                self._give_new(queued)
        if self.live.passed is not None:
            progress.complete(self.live.passed)

    def _give_new(self, queued: Queued) -> None:
        """Give what was not given yet."""
        for event in queued.events:
            line = _line_of(event)
            place = place_of(line)
            if place is not None and self._progress.is_new(line, place):
                self._progress.give(line, place)
                self.waiting.append(event)

    # ---- time ----

    def _set_deadline(self, now: float) -> None:
        times = []
        is_looking = self.state is State.FINDING and self.ahead_of is None
        if is_looking and not self.wants_live and not self.waiting.is_full:
            if self._asked_at is None:
                times.append(now)
            else:
                late = now >= self._asked_at + FIND_S
                times.append(self._asked_at + (self._retry_s if late else FIND_S))
                if self._is_archive and now < self._since + ALONE_S:
                    times.append(self._since + ALONE_S)
                if self._alone_at is not None and now < self._alone_at:
                    times.append(self._alone_at)
        elif self._expects_piece:
            times.append(self._heard_at + self._piece_s)
        if self.live.wants_mark:
            times.append(self._marked_at + self.live.mark_after_s)
        self.deadline = min(times, default=None)

    def _send(self, to: str, frame: Frame) -> None:
        self._actions.append(Send(to, encode(frame), ServiceLevel.FIFO))


def _line_of(event: Received) -> Line:
    line = event.message if isinstance(event, Unfiltered | Unreadable) else event
    assert isinstance(line, Line)
    return line


def _is_new(progress: Progress, event: Line) -> bool:
    place = place_of(event)
    return place is not None and progress.is_new(event, place)
