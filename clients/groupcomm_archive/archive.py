"""One archive: it answers subscribers from its store. What it stores, its own subscriber gets.

Pure: messages, the time and results of the store in, messages and reads of the store out. See
docs/history.md.
"""

from collections.abc import Callable, Collection
from itertools import chain
from typing import Final, TypeAlias

import attrs

from groupcomm.clocks.stamp import Position
from groupcomm.events import GroupView, MemberId, Message, Undeliverable
from groupcomm.level import ServiceLevel
from groupcomm_archive.awaiting import Awaiting, Disk
from groupcomm_archive.holdings import Held, Holding, held_by_all
from groupcomm_client.history.frames import (
    ARCHIVES,
    CHANNEL_ID_BYTES,
    CHANNEL_KEY_BYTES,
    AwaitKept,
    Channel,
    EncodedPiece,
    Find,
    Frame,
    Interval,
    More,
    Offer,
    Piece,
    Read,
    Stop,
    decode_untrusted,
    encode,
    encode_piece,
)
from groupcomm_client.history.parts import messages_of
from groupcomm_client.history.subscriber import Send

IDLE_S: Final = 30.0
"""The time after which a stream without granted pieces ends."""

MOST_STREAMS: Final = 1000
"""The streams of one archive; the one that was used least recently ends for another one."""

MOST_UNSENT: Final = 2
"""The pieces of a stream that may wait to be sent by its channel."""

Key: TypeAlias = tuple[MemberId, int]
"""A stream: its subscriber, and its number there."""


@attrs.frozen(kw_only=True)
class ReadStore:
    """An action: read the next events of a stream, and call `Archive.read` with the piece.

    Attributes:
        key: the stream.
        index: the place of the piece in the stream.
        groups: the groups to read.
        after: the place behind which the piece begins.
        upto: the last place of the interval.
        since_us: begin with the first event received then or later, in place of `after`.
        is_last: whether the interval still grows.
        is_compacted: whether the compacted part of the log is read, which ends at `upto`.
    """

    key: Key
    index: int
    groups: tuple[str, ...]
    after: Position
    upto: Position
    since_us: int | None
    is_last: bool
    is_compacted: bool = False


@attrs.frozen
class SendPiece:
    """An action: send a piece of a stream by its channel."""

    key: Key
    data: bytes


@attrs.frozen
class EndChannel:
    """An action: close the channel of a stream, once all of its pieces are sent."""

    key: Key


Action: TypeAlias = Send | ReadStore | SendPiece | EndChannel


@attrs.frozen
class Listening:
    """What an archive needs for channels.

    Attributes:
        addresses: where it listens, the best first.
        random: returns this number of random bytes.
    """

    addresses: tuple[str, ...]
    random: Callable[[int], bytes]


@attrs.frozen
class _Channel:
    """A channel: its names, and whether its subscriber has connected."""

    id: bytes
    key: bytes
    is_open: bool = False


@attrs.define
class _Stream:
    """One stream: how far it is, and what its subscriber has granted.

    Attributes:
        is_reading: whether the store reads for it, or another process sends its pieces.
        begin: where to look for the first event, while `after` is None; None: from the beginning.
        channel: its channel; None if its pieces go through the daemons.
        unsent: the pieces that wait to be sent by the channel.
        compacted: whether it is to begin in the compacted part.
    """

    groups: tuple[str, ...]
    after: Position | None
    since_us: int | None
    granted: int
    used_at: float
    sent: int = 0
    is_reading: bool = False
    begin: Position | None = None
    channel: _Channel | None = None
    unsent: int = 0
    compacted: bool = False

    @property
    def is_ready(self) -> bool:
        """Return whether another piece may be read for it."""
        if self.is_reading:
            return False
        if self.channel is None:
            return self.sent < self.granted
        return self.channel.is_open and self.unsent < MOST_UNSENT

    @property
    def seeks(self) -> bool:
        """Return whether the first event received at a time is still looked for."""
        return self.after is None and self.since_us is not None


class Archive:
    """An archive; call `handle` for every event of its session, and `wake` now and then.

    Attributes:
        holdings: what its logs hold.
        streams: the open streams.
    """

    def __init__(
        self,
        me: MemberId,
        groups: Collection[str],
        intervals: Collection[Interval] = (),
        listening: Listening | None = None,
        disk: Disk | None = None,
    ) -> None:
        """Begin with what the store holds already.

        Args:
            me: the session of the archive.
            groups: the groups of its first log; none to begin without a log.
            intervals: what that log holds.
            listening: for channels; without it all pieces go through the daemons.
            disk: what it says of itself; None for an archive whose disk does not count.
        """
        self.holdings: list[Holding] = []
        if groups:
            self.add(groups, intervals)
        self.streams: dict[Key, _Stream] = {}
        self.me = me
        self._listening = listening
        self._awaiting = None if disk is None else Awaiting(disk)
        self._channels: dict[bytes, Key] = {}  # those of open streams, by their ids
        self._members: frozenset[MemberId] | None = None  # the archives, once they are known
        self._lost_at: float | None = None  # when the last one went away, or this one came
        self._actions: list[Action] = []

    # ---- the store ----

    def add(self, groups: Collection[str], intervals: Collection[Interval]) -> int:
        """Answer for one more log; return its number."""
        self.holdings.append(Holding(groups, intervals))
        return len(self.holdings) - 1

    @property
    def is_live(self) -> bool:
        """Return whether all logs get the events of the line as they happen."""
        return all(holding.is_live for holding in self.holdings)

    @is_live.setter
    def is_live(self, is_live: bool) -> None:
        for holding in self.holdings:
            holding.is_live = is_live

    @property
    def is_awaited(self) -> bool:
        """Return whether somebody waits until a place is on the disk."""
        return self._awaiting is not None and self._awaiting.count > 0

    @property
    def intervals(self) -> list[Interval]:
        """Return what the first log holds."""
        return self.holdings[0].intervals

    def begin_interval(self, first: Position, log: int = 0) -> None:
        """Note that the next events in a log are behind a gap."""
        self.holdings[log].begin_interval(first)

    def stored(self, upto: Position, now: float, log: int = 0) -> None:
        """Note that a log holds everything of its last interval up to a place."""
        if self.holdings[log].stored(upto):
            self._tell_kept()
            self._pump(now)

    def removed(self, first: Position, log: int = 0) -> None:
        """Note that a log has removed everything up to a place."""
        self.holdings[log].removed(first)

    def _holdings_of(self, groups: Collection[str]) -> list[Holding] | None:
        """Return what the logs of some groups hold; None if not all are recorded."""
        holdings = [holding for holding in self.holdings if holding.groups.intersection(groups)]
        recorded = chain.from_iterable(holding.groups for holding in holdings)
        return holdings if holdings and set(groups).issubset(recorded) else None

    def _held(self, groups: Collection[str]) -> list[Held]:
        """Return the intervals that the logs of some groups have in common."""
        holdings = self._holdings_of(groups)
        return held_by_all(holdings) if holdings else []

    def read(self, key: Key, piece: EncodedPiece, now: float) -> None:
        """Note the piece that a `ReadStore` has asked for."""
        stream = self.streams.get(key)
        if stream is None or not stream.is_reading:
            return
        stream.is_reading = False
        if stream.seeks and piece.is_end and piece.after == piece.upto:
            self._seek_behind(stream, piece.upto)  # all of this interval was received before
        else:
            self._send_piece(key, stream, piece, now)
        self._pump(now)

    def streamed(self, key: Key, pieces: int, after: Position, now: float) -> None:
        """Note that another process has sent pieces of a stream, in place of one that was read.

        Args:
            key: the stream.
            pieces: the pieces that the stream has had.
            after: the place up to which it has had everything.
            now: the time in seconds.
        """
        stream = self.streams.get(key)
        if stream is not None and stream.is_reading:
            stream.is_reading = False
            stream.sent, stream.after, stream.used_at = pieces, after, now
            self._pump(now)

    def _seek_behind(self, stream: _Stream, last: Position) -> None:
        """Go on with looking for a time in the interval behind a place."""
        held = self._held(stream.groups)
        stream.begin = next((each.first for each in held if each.first > last), last)

    def failed(self, key: Key) -> None:
        """Note that the store cannot be read there; the subscriber looks for another archive."""
        self._end(key)

    # ---- channels ----

    def secret_of(self, channel: bytes) -> bytes | None:
        """Return the key of a channel to which nobody has connected; None if there is none."""
        stream = self.streams.get(self._channels[channel]) if channel in self._channels else None
        if stream is None or stream.channel is None or stream.channel.is_open:
            return None
        return stream.channel.key

    def connected(self, channel: bytes, now: float) -> Key:
        """Note that the subscriber has connected to a channel that has a secret; return its stream.

        It has proved that it knows the secret.
        """
        key = self._channels[channel]
        stream = self.streams[key]
        assert stream.channel is not None, "it has an id"
        stream.channel = attrs.evolve(stream.channel, is_open=True)
        stream.used_at = now
        self._pump(now)
        return key

    def piece_sent(self, key: Key, now: float) -> None:
        """Note that a piece was sent by a channel."""
        stream = self.streams.get(key)
        if stream is not None:
            stream.unsent -= 1
            stream.used_at = now
            self._pump(now)

    def disconnected(self, key: Key) -> None:
        """Note that a channel has broken; its subscriber reads again."""
        stream = self.streams.get(key)
        if stream is not None and stream.channel is not None and stream.channel.is_open:
            self._end(key)

    # ---- subscribers ----

    def handle(self, event: object, now: float) -> None:
        """Handle an event of the session."""
        if isinstance(event, Undeliverable):
            for key in [key for key in self.streams if key[0].name == event.target]:
                self._end(key)
        elif isinstance(event, GroupView) and event.group == ARCHIVES:
            self._note_archives(frozenset(event.members), now)
        elif isinstance(event, Message) and event.sender != self.me:
            self._on_frame(event.sender, decode_untrusted(event.data), now)
        self._pump(now)

    def _on_frame(self, sender: MemberId, frame: Frame | None, now: float) -> None:
        match frame:
            case Find():
                self._on_find(sender, frame, now)
            case Read():
                self._on_read(sender, frame, now)
            case More(number, granted):
                stream = self.streams.get((sender, number))
                if stream is not None:
                    stream.granted, stream.used_at = granted, now
            case Stop(number):
                self._end((sender, number))
            case AwaitKept() if self._awaiting is not None:
                self._awaiting.add(sender, frame, now)
                self._tell_kept()
            case _:
                pass

    def _note_archives(self, members: frozenset[MemberId], now: float) -> None:
        """Note who the archives are, and whether one has gone away."""
        if self._members is None or self._members - members:
            self._lost_at = now
        self._members = members

    def _on_find(self, sender: MemberId, find: Find, now: float) -> None:
        holdings = self._holdings_of(find.groups)
        if holdings is not None:
            is_live = all(holding.is_live for holding in holdings)
            held = held_by_all(holdings)
            compacted = holdings[0].offered if len(holdings) == 1 else None
            away_ms = None if self._lost_at is None else int(1000 * (now - self._lost_at))
            intervals = tuple(each[:2] for each in held)
            offer = Offer(find.number, is_live, intervals, compacted, away_ms)
            self._send(sender.name, offer)

    def _on_read(self, sender: MemberId, request: Read, now: float) -> None:
        if self._holdings_of(request.groups) is None:
            return
        if len(self.streams) >= MOST_STREAMS:
            self._end(min(self.streams, key=lambda key: self.streams[key].used_at))
        key = sender, request.number
        self._end(key)
        stream = _Stream(request.groups, request.after, request.since_us, request.granted, now)
        stream.compacted = request.compacted
        self.streams[key] = stream
        if request.by_channel and self._listening is not None:
            random, addresses = self._listening.random, self._listening.addresses
            channel = _Channel(random(CHANNEL_ID_BYTES), random(CHANNEL_KEY_BYTES))
            stream.channel = channel
            self._channels[channel.id] = key
            self._send(sender.name, Channel(request.number, channel.id, channel.key, addresses))

    def wake(self, now: float) -> None:
        """End streams that nobody reads any more, and waits that are too old."""
        if self._awaiting is not None:
            self._awaiting.expire(now)
        for key, stream in list(self.streams.items()):
            if not stream.is_reading and not stream.is_ready and now >= stream.used_at + IDLE_S:
                self._end(key)

    def _end(self, key: Key) -> None:
        """Forget a stream, if there is one."""
        stream = self.streams.pop(key, None)
        if stream is not None and stream.channel is not None:
            del self._channels[stream.channel.id]
            if stream.channel.is_open:
                self._actions.append(EndChannel(key))

    def _tell_kept(self) -> None:
        """Answer those who wait for a place that is held by now."""
        if self._awaiting is not None:
            self._actions += self._awaiting.pop_held(self._held)

    # ---- streams ----

    def _pump(self, now: float) -> None:
        """Go on with the streams that may have another piece."""
        for key, stream in list(self.streams.items()):
            if stream.is_ready:
                self._next(key, stream, now)

    def _next(self, key: Key, stream: _Stream, now: float) -> None:
        if stream.compacted and self._next_compacted(key, stream):
            return
        held = self._held(stream.groups)
        if not held:
            return
        after = stream.after or stream.begin or held[0].first
        for first, last, is_last in held:
            if not first <= after <= last:
                continue
            if after < last or (stream.after is None and is_last):
                stream.is_reading = True
                since_us = stream.since_us if stream.after is None else None
                self._actions.append(
                    ReadStore(
                        key=key,
                        index=stream.sent,
                        groups=stream.groups,
                        after=after,
                        upto=last,
                        since_us=since_us,
                        is_last=is_last,
                    )
                )
            elif not is_last and stream.seeks:
                self._seek_behind(stream, last)
                self._next(key, stream, now)
            elif not is_last:
                end = Piece(key[1], stream.sent, after, after, is_end=True)
                self._send_piece(key, stream, encode_piece(end), now)
            return
        self._end(key)  # retention has removed what comes next

    def _next_compacted(self, key: Key, stream: _Stream) -> bool:
        """Read the next piece of the compacted part; return False behind it, or without one."""
        holdings = self._holdings_of(stream.groups) or []
        offered = holdings[0].offered if len(holdings) == 1 else None
        after = stream.after
        if offered is None or (after is not None and after >= offered[1]):
            stream.compacted = False
            return False
        stream.is_reading = True
        self._actions.append(
            ReadStore(
                key=key,
                index=stream.sent,
                groups=stream.groups,
                after=offered[0] if after is None else max(after, offered[0]),
                upto=offered[1],
                since_us=None,
                is_last=True,
                is_compacted=True,
            )
        )
        return True

    def _send_piece(self, key: Key, stream: _Stream, piece: EncodedPiece, now: float) -> None:
        stream.after = piece.upto
        stream.sent += 1
        stream.used_at = now
        if stream.channel is None:
            for data in messages_of(key[1], piece.data):
                self._actions.append(Send(key[0].name, data, ServiceLevel.FIFO))
        else:
            stream.unsent += 1
            self._actions.append(SendPiece(key, piece.data))
        if piece.is_end:
            self._end(key)

    def pop_actions(self) -> list[Action]:
        """Remove and return what to do, in order."""
        actions, self._actions = self._actions, []
        return actions

    def _send(self, to: str, frame: Frame) -> None:
        self._actions.append(Send(to, encode(frame), ServiceLevel.FIFO))
