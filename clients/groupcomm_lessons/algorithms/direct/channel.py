"""A channel to one other peer, on which nothing is lost and nothing comes twice.

Pure. ``now`` is in seconds on one monotonic clock.

Source: the numbers, acknowledgements and repetitions of V. Cerf, R. Kahn, "A Protocol for Packet
Network Intercommunication", IEEE Transactions on Communications 22(5), 1974; acknowledgements that
name the parts beyond a gap as in RFC 2018, timeouts that double as in RFC 6298, section 5.5.

Items are cut into parts that fit a datagram. An item is handed out as soon as all its parts are
here, even before earlier ones, unless its sender wants order.
"""

from collections import deque
from typing import Final, NamedTuple

import attrs

from groupcomm.errors import LocalProtocolError
from groupcomm_lessons.algorithms.direct.settings import Timing

PART_BYTES: Final = 1200
"""The size of one part; a datagram with it fits every usual path."""

WINDOW: Final = 128
"""The most unacknowledged parts in flight; no receiver holds more beyond a gap."""

MAX_PARTS: Final = 2**14
"""The most parts of one item: stamps that grow without end become large."""


class Piece(NamedTuple):
    """A part on its channel; see `datagrams.Part`."""

    number: int
    place: int
    parts: int
    in_order: int
    data: bytes


@attrs.define
class _Sent:
    piece: Piece
    tries: int
    again_at: float


@attrs.define
class _Whole:
    """The parts of one item, by their places."""

    pieces: dict[int, Piece]

    @property
    def is_there(self) -> bool:
        return len(self.pieces) == next(iter(self.pieces.values())).parts

    def data(self) -> bytes:
        return b"".join(piece.data for _, piece in sorted(self.pieces.items()))


class Channel:
    """Both ends of the communication with one other peer.

    Attributes:
        must_ack: whether parts have come since the last call of `ack`.
        repeated: the number of parts that were sent again.
        doubled: the number of parts that came again.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._last = 0  # the number given last
        self._queue: deque[Piece] = deque()
        self._sent: dict[int, _Sent] = {}  # parts that are not acknowledged
        self._upto = 0
        self._beyond: set[int] = set()
        self._wholes: dict[int, _Whole] = {}  # messages in parts, by the number of their first part
        self.must_ack = False
        self.repeated = self.doubled = 0

    # ---- out ----

    def put(self, data: bytes, *, in_order: bool) -> None:
        """Queue an item for sending; `in_order`: hand it out after all items before it.

        Raises:
            LocalProtocolError: the item is too large.
        """
        chunks = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)] or [b""]
        if len(chunks) > MAX_PARTS:
            raise LocalProtocolError(
                f"a message of {len(data)} bytes, stamp included, is too large for a "
                f"channel: send {MAX_PARTS * PART_BYTES} bytes at most"
            )
        for place, chunk in enumerate(chunks):
            self._last += 1
            self._queue.append(Piece(self._last, place, len(chunks), int(in_order), chunk))

    def due(self, now: float) -> list[Piece]:
        """Return the parts to send now: new ones, and those that were not acknowledged in time."""
        found = []
        for sent in self._sent.values():
            if sent.again_at <= now:
                sent.tries += 1
                sent.again_at = now + self._timing.wait_s(sent.tries)
                self.repeated += 1
                found.append(sent.piece)
        while self._queue and self._queue[0].number < self._oldest + WINDOW:
            piece = self._queue.popleft()
            self._sent[piece.number] = _Sent(piece, 1, now + self._timing.wait_s(1))
            found.append(piece)
        return found

    @property
    def _oldest(self) -> int:
        """Return the lowest unacknowledged number; parts from it on fit the receiver's window."""
        first = self._queue[0].number if self._queue else self._last + 1
        return min(self._sent, default=first)

    def acknowledged(self, upto: int, beyond: tuple[int, ...]) -> None:
        """Note that the other end has all parts up to a number, and some more."""
        there = set(beyond)
        done = [number for number in self._sent if number <= upto or number in there]
        for number in done:
            del self._sent[number]

    @property
    def is_idle(self) -> bool:
        """Return whether the other end has all items."""
        return not self._sent and not self._queue

    @property
    def waiting_parts(self) -> int:
        """Return the number of parts that were not sent yet."""
        return len(self._queue)

    @property
    def deadline(self) -> float | None:
        """Return the time at which `due` has parts again; None if that takes an acknowledgement."""
        return min((sent.again_at for sent in self._sent.values()), default=None)

    # ---- in ----

    def receive(self, piece: Piece) -> list[bytes]:
        """Accept a part; return the items to hand out now, in the order of their sending.

        An impossible part is dropped, and so is one that came before.
        """
        self.must_ack = True
        number = piece.number
        if number <= self._upto or number in self._beyond:
            self.doubled += 1
            return []
        if number > self._upto + WINDOW or not self._fits(piece):
            return []
        self._beyond.add(number)
        while self._upto + 1 in self._beyond:
            self._upto += 1
            self._beyond.remove(self._upto)
        first = number - piece.place
        self._wholes.setdefault(first, _Whole({})).pieces[piece.place] = piece
        return self._hand_out(first)

    def _fits(self, piece: Piece) -> bool:
        """Return whether a part fits the item of which other parts are here."""
        first = piece.number - piece.place
        if not 0 <= piece.place < piece.parts <= MAX_PARTS or first < 1:
            return False
        whole = self._wholes.get(first)
        known = next(iter(whole.pieces.values())) if whole else piece
        return (known.parts, known.in_order) == (piece.parts, piece.in_order)

    def _hand_out(self, first: int) -> list[bytes]:
        found = []
        whole = self._wholes[first]
        if whole.is_there and not whole.pieces[0].in_order:
            found.append(whole.data())
            del self._wholes[first]
        for start in sorted(self._wholes):
            whole = self._wholes[start]
            # All parts of the message and all earlier parts have arrived: none is in flight.
            if not (whole.is_there and start + len(whole.pieces) - 1 <= self._upto):
                continue
            found.append(self._wholes.pop(start).data())
        return found

    def ack(self) -> tuple[int, tuple[int, ...]]:
        """Return the acknowledgement: all parts up to a number, and some more."""
        self.must_ack = False
        return self._upto, tuple(sorted(self._beyond))
