"""The sending of modules: numbered messages at a steady rate, and the map by its changes."""

import struct
import time
from random import Random
from typing import Any, Final

import attrs
import trio

from examples.vehicle.cost_map import TILES, Original, Traffic
from examples.vehicle.table import MAP_DELTA, MAP_PIECE, WELCOME, Kind, Load
from groupcomm_client import Connection

HEAD: Final = struct.Struct("!IQ")
"""The head of every message: its number, and the time when it was made, ns since 1970."""

WELCOME_PIECES: Final = 4
"""The pieces that a newcomer gets at once, one time for each delta."""

SMALL_BYTES: Final = 1000
"""Messages up to this size are collected with --pack."""


@attrs.frozen(kw_only=True)
class Window:
    """The time in which the counted messages are made; on CLOCK_MONOTONIC, nanoseconds.

    Attributes:
        start_ns, end_ns: its ends.
        offset_ns: the offset to the wall clock: one value for all, so that a change of the wall
            clock spoils no delay.
    """

    start_ns: int
    end_ns: int
    offset_ns: int

    @property
    def middle_ns(self) -> int:
        """Return the middle of the window."""
        return (self.start_ns + self.end_ns) // 2


class Numbering:
    """The numbers of the messages of a kind.

    Attributes:
        next: the next number.
        first: the first counted number; None before there is one.
        count: the number of counted messages.
        bytes: their size.
    """

    def __init__(self, window: Window) -> None:
        self.next = 0
        self.first: int | None = None
        self.count = self.bytes = 0
        self._window = window

    def message(self, data: bytes) -> bytes:
        """Return the next message, made now: a head, then the data."""
        now = time.monotonic_ns()
        made = HEAD.pack(self.next, now + self._window.offset_ns) + data
        if self._window.start_ns <= now < self._window.end_ns:
            self.first = self.next if self.first is None else self.first
            self.count += 1
            self.bytes += len(made)
        self.next += 1
        return made

    def report(self) -> dict[str, int]:
        """Return the report for the figures."""
        first = self.first or 0
        return {"first": first, "last": first + self.count - 1, "bytes": self.bytes}


class Pace:
    """A steady rate. A message that is late by a period is skipped: sensors report new values only.

    Attributes:
        skipped: the number of skipped periods.
    """

    def __init__(self, rate_hz: float, window: Window) -> None:
        self.skipped = 0
        self._period_s = 1 / rate_hz
        self._due = trio.current_time()
        self._end_ns = window.end_ns

    async def next(self) -> bool:
        """Wait for the next period; return False if the time is over."""
        await trio.sleep_until(self._due)
        self._due += self._period_s
        late = int((trio.current_time() - self._due) / self._period_s)
        if late > 0:
            self.skipped += late
            self._due += late * self._period_s
        return time.monotonic_ns() < self._end_ns


async def send_kind(
    connection: Connection, kind: Kind, load: Load, window: Window
) -> dict[str, Any]:
    """Send messages of one kind until the end; return the report."""
    numbering, pace = Numbering(window), Pace(kind.rate_hz, window)
    rng = Random(f"{kind.name} {connection.name}")
    pack = load.pack if kind.most <= SMALL_BYTES else 1
    collected: list[bytes] = []
    while await pace.next():
        collected.append(numbering.message(bytes(max(0, kind.size(rng) - HEAD.size))))
        if len(collected) >= pack:
            await send_collected(connection, kind, collected, one_by_one=load.one_by_one)
            collected = []
    if collected:
        await send_collected(connection, kind, collected, one_by_one=load.one_by_one)
    return {**numbering.report(), "skipped": pace.skipped}


async def send_collected(
    connection: Connection, kind: Kind, messages: list[bytes], *, one_by_one: bool
) -> None:
    """Send some messages at once: packed in one bundle, or each by a call."""
    if not one_by_one:
        await connection.multicast_many(
            kind.group, messages, level=kind.level, type=kind.type, self_discard=True
        )
        return
    for data in messages:
        await connection.multicast(
            kind.group, data, level=kind.level, type=kind.type, self_discard=True
        )


class Mapper:
    """The sender of the map: deltas, pieces of all tiles in turn, and larger pieces to
    newcomers."""

    def __init__(
        self, connection: Connection, load: Load, window: Window, newcomers: list[str]
    ) -> None:
        """Prepare an empty map.

        Args:
            connection: the connection.
            load: has both kinds of messages of the map.
            window: the time in which it is sent.
            newcomers: private names; removed once the map is being sent to them.
        """
        kinds = {kind.type: kind for kind in load.kinds}
        self._connection = connection
        self._window = window
        self._delta, self._piece = kinds[MAP_DELTA.type], kinds[MAP_PIECE.type]
        self._tiles = load.piece
        self._newcomers = newcomers
        self._welcomed: list[tuple[str, int]] = []  # newcomers, each with its next tile
        self.original = Original()

    async def run(self) -> dict[str, Any]:
        """Send until the end, and until newcomers have the map; return reports by kind."""
        deltas, pieces = Numbering(self._window), Numbering(self._window)
        pace = Pace(self._delta.rate_hz, self._window)
        traffic = Traffic(seed=1)
        due, tile = 0.0, 0
        while await pace.next() or self._welcomed:
            traffic.step(self.original)
            await self._send(self._delta, deltas.message(self.original.delta()))
            due += self._piece.rate_hz / self._delta.rate_hz
            while due >= 1:
                due -= 1
                await self._send(
                    self._piece, pieces.message(self.original.piece(tile, self._tiles))
                )
                tile = (tile + self._tiles) % TILES
            await self._welcome()
        return {
            self._delta.name: {**deltas.report(), "skipped": pace.skipped},
            self._piece.name: pieces.report(),
        }

    async def _send(self, kind: Kind, data: bytes) -> None:
        await self._connection.multicast(
            kind.group, data, level=kind.level, type=kind.type, self_discard=True
        )

    async def _welcome(self) -> None:
        """Send newcomers the next larger piece of the map."""
        self._welcomed += [(name, 0) for name in self._newcomers]
        self._newcomers.clear()
        count = min(TILES, WELCOME_PIECES * self._tiles)
        for first in {first for _, first in self._welcomed}:
            names = tuple(name for name, place in self._welcomed if place == first)
            made_ns = time.monotonic_ns() + self._window.offset_ns
            data = HEAD.pack(0, made_ns) + self.original.piece(first, count)
            await self._connection.multicast(names, data, level=self._delta.level, type=WELCOME)
        self._welcomed = [
            (n, first + count) for n, first in self._welcomed if first + count < TILES
        ]
