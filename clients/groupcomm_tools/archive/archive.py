"""One archive: it answers subscribers from its store. What it stores, its own subscriber gets.

Pure: messages, the time and results of the store in, messages and reads of the store out. See
docs/history.md.
"""

from collections.abc import Collection
from typing import Final, TypeAlias

import attrs

from groupcomm.clocks.stamp import Position
from groupcomm.events import MemberId, Message, Undeliverable
from groupcomm.level import ServiceLevel
from groupcomm_client.history.frames import (
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
)
from groupcomm_client.history.subscriber import Send

IDLE_S: Final = 30.0
"""The time after which a stream without granted pieces ends."""

MOST_STREAMS: Final = 1000
"""The streams of one archive; the one that was used least recently ends for another one."""

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
    """

    key: Key
    index: int
    groups: tuple[str, ...]
    after: Position
    upto: Position
    since_us: int | None
    is_last: bool


Action: TypeAlias = Send | ReadStore


@attrs.define
class _Stream:
    """One stream: how far it is, and what its subscriber has granted.

    Attributes:
        begin: where to look for the first event, while `after` is None; None: from the beginning.
    """

    groups: tuple[str, ...]
    after: Position | None
    since_us: int | None
    granted: int
    used_at: float
    sent: int = 0
    is_reading: bool = False
    begin: Position | None = None

    @property
    def seeks(self) -> bool:
        """Return whether the first event received at a time is still looked for."""
        return self.after is None and self.since_us is not None


class Archive:
    """An archive; call `handle` for every event of its session, and `wake` now and then.

    Attributes:
        is_live: whether the archive gets the events of the line as they happen.
        intervals: what the store holds, in order.
        streams: the open streams.
    """

    def __init__(
        self, me: MemberId, groups: Collection[str], intervals: Collection[Interval] = ()
    ) -> None:
        """Begin with what the store holds already.

        Args:
            me: the session of the archive.
            groups: the groups that it records.
            intervals: what the store holds.
        """
        self.is_live = False
        self.intervals: list[Interval] = list(intervals)
        self.streams: dict[Key, _Stream] = {}
        self.me = me
        self._groups = frozenset(groups)
        self._actions: list[Action] = []

    # ---- the store ----

    def begin_interval(self, first: Position) -> None:
        """Note that the next events in the store are behind a gap."""
        self.intervals.append((first, first))

    def stored(self, upto: Position, now: float) -> None:
        """Note that the store holds everything of the last interval up to a place."""
        first, last = self.intervals[-1]
        if upto > last:
            self.intervals[-1] = first, upto
            self._pump(now)

    def removed(self, first: Position) -> None:
        """Note that the store has removed everything up to a place."""
        kept = [(max(begin, first), last) for begin, last in self.intervals if last > first]
        self.intervals = kept or [(first, first)]

    def read(self, key: Key, piece: Piece, now: float) -> None:
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

    def _seek_behind(self, stream: _Stream, last: Position) -> None:
        """Go on with looking for a time in the interval behind a place."""
        stream.begin = next((first for first, _ in self.intervals if first > last), last)

    def failed(self, key: Key) -> None:
        """Note that the store cannot be read there; the subscriber looks for another archive."""
        self.streams.pop(key, None)

    # ---- subscribers ----

    def handle(self, event: object, now: float) -> None:
        """Handle an event of the session."""
        if isinstance(event, Undeliverable):
            for key in [key for key in self.streams if key[0].name == event.target]:
                del self.streams[key]
        elif isinstance(event, Message) and event.sender != self.me:
            match decode_untrusted(event.data):
                case Find() as find:
                    self._on_find(event.sender, find)
                case Read() as request:
                    self._on_read(event.sender, request, now)
                case More(number, granted):
                    stream = self.streams.get((event.sender, number))
                    if stream is not None:
                        stream.granted, stream.used_at = granted, now
                case Stop(number):
                    self.streams.pop((event.sender, number), None)
        self._pump(now)

    def _on_find(self, sender: MemberId, find: Find) -> None:
        if self._groups.issuperset(find.groups):
            offer = Offer(find.number, self.is_live, tuple(self.intervals))
            self._send(sender.name, offer)

    def _on_read(self, sender: MemberId, request: Read, now: float) -> None:
        if not self._groups.issuperset(request.groups):
            return
        if len(self.streams) >= MOST_STREAMS:
            del self.streams[min(self.streams, key=lambda key: self.streams[key].used_at)]
        self.streams[sender, request.number] = _Stream(
            request.groups, request.after, request.since_us, request.granted, now
        )

    def wake(self, now: float) -> None:
        """End streams that nobody reads any more."""
        for key, stream in list(self.streams.items()):
            if stream.sent >= stream.granted and now >= stream.used_at + IDLE_S:
                del self.streams[key]

    # ---- streams ----

    def _pump(self, now: float) -> None:
        """Go on with the streams that may have another piece."""
        for key, stream in list(self.streams.items()):
            if not stream.is_reading and stream.sent < stream.granted:
                self._next(key, stream, now)

    def _next(self, key: Key, stream: _Stream, now: float) -> None:
        if not self.intervals:
            return
        after = stream.after or stream.begin or self.intervals[0][0]
        for place, (first, last) in enumerate(self.intervals):
            if not first <= after <= last:
                continue
            is_last = place == len(self.intervals) - 1
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
                self._send_piece(key, stream, end, now)
            return
        del self.streams[key]  # retention has removed what comes next

    def _send_piece(self, key: Key, stream: _Stream, piece: Piece, now: float) -> None:
        stream.after = piece.upto
        stream.sent += 1
        stream.used_at = now
        self._send(key[0].name, piece)
        if piece.is_end:
            del self.streams[key]

    def pop_actions(self) -> list[Action]:
        """Remove and return what to do, in order."""
        actions, self._actions = self._actions, []
        return actions

    def _send(self, to: str, frame: Frame) -> None:
        self._actions.append(Send(to, encode(frame), ServiceLevel.FIFO))
