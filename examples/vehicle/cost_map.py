"""A map that its receivers copy by changes: tiles that differ, and all others piece by piece.

Pure. The cost of a cell of the ground says how much the vehicle should avoid it, 0 to 255.
Cells are kept tile by tile, so that a tile is one piece of memory and one comparison tells
whether it changed.

A *delta* leads from one version of the map to the next. A *piece* repeats some tiles of a version,
changed or not; in time the pieces cover every tile. A receiver that has missed a delta knows it by
the version that the next message builds on; from then on it trusts only the tiles that come anew,
until it has all. A newcomer is a receiver that has missed everything.
"""

import struct
import zlib
from random import Random
from typing import Final

import attrs

CELLS: Final = 2048
"""Cells of a side of the map: 4 MiB together."""

TILE: Final = 64
"""Cells of a side of a tile."""

TILE_BYTES: Final = TILE * TILE
ACROSS: Final = CELLS // TILE
TILES: Final = ACROSS * ACROSS
MAP_BYTES: Final = CELLS * CELLS

ALL: Final = frozenset(range(TILES))

_HEAD: Final = struct.Struct("!IIIH")
_INDEX: Final = struct.Struct("!H")


@attrs.frozen
class Change:
    """A message with a change of the map.

    Attributes:
        version: the version after the change, 0 to 2**32 - 1.
        base: the version before the change; for a piece, the same.
        checksum: CRC-32 of the tiles in the message.
        tiles: contents by the number of the tile.
    """

    version: int
    base: int
    checksum: int
    tiles: dict[int, bytes]


def encode(version: int, base: int, tiles: dict[int, bytes]) -> bytes:
    """Return a message: a head, then each tile's number and cells."""
    body = b"".join(_INDEX.pack(index) + cells for index, cells in tiles.items())
    return _HEAD.pack(version, base, zlib.crc32(body), len(tiles)) + body


def decode_untrusted(data: bytes) -> Change:
    """Read a message.

    Raises:
        ValueError: the bytes are no message.
    """
    if len(data) < _HEAD.size:
        raise ValueError(f"a change of the map has {len(data)} bytes; {_HEAD.size} at least")
    version, base, checksum, count = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    step = _INDEX.size + TILE_BYTES
    if len(body) != count * step or zlib.crc32(body) != checksum:
        raise ValueError(f"the tiles of version {version} are damaged")
    tiles = {
        _INDEX.unpack_from(body, at)[0]: body[at + _INDEX.size : at + step]
        for at in range(0, len(body), step)
    }
    if len(tiles) != count or any(index >= TILES for index in tiles):
        raise ValueError(f"version {version} has tiles that the map has not")
    return Change(version, base, checksum, tiles)


class Original:
    """The map of its sender.

    Attributes:
        version: the version of the last message.
        cells: tile by tile.
    """

    def __init__(self) -> None:
        self.version = 0
        self.cells = bytearray(MAP_BYTES)
        self._told = bytes(MAP_BYTES)

    def fill(self, x: int, y: int, width: int, height: int, cost: int) -> None:
        """Give the cells of a rectangle a cost; cells outside the map are ignored."""
        left, right = max(x, 0), min(x + width, CELLS)
        for row in range(max(y, 0), min(y + height, CELLS)):
            at = left
            while at < right:
                end = min(right, (at // TILE + 1) * TILE)
                place = place_of(at, row)
                self.cells[place : place + end - at] = bytes((cost,)) * (end - at)
                at = end

    def delta(self) -> bytes:
        """Return a message with the tiles that changed since the last one."""
        self.version += 1
        now, told = bytes(self.cells), self._told
        tiles = {
            at // TILE_BYTES: now[at : at + TILE_BYTES]
            for at in range(0, MAP_BYTES, TILE_BYTES)
            if now[at : at + TILE_BYTES] != told[at : at + TILE_BYTES]
        }
        self._told = now
        return encode(self.version, self.version - 1, tiles)

    def piece(self, first: int, count: int) -> bytes:
        """Return a message with tiles from `first` on, as they were last sent; 0 follows the
        last."""
        told = self._told
        indices = [(first + offset) % TILES for offset in range(min(count, TILES))]
        tiles = {i: told[i * TILE_BYTES : (i + 1) * TILE_BYTES] for i in indices}
        return encode(self.version, self.version, tiles)

    @property
    def checksum(self) -> int:
        """Return the CRC-32 of the map as it was last sent."""
        return zlib.crc32(self._told)


class Copy:
    """The map of a receiver.

    Attributes:
        version: the version of the last message; None before the first.
        unknown: tiles that may differ from the map of that version.
        cells: tile by tile.
        gaps: the number of times that messages were missing.
    """

    def __init__(self) -> None:
        self.version: int | None = None
        self.unknown = set(ALL)
        self.cells = bytearray(MAP_BYTES)
        self.gaps = 0

    @property
    def is_whole(self) -> bool:
        """Return whether it is the map of its version."""
        return not self.unknown

    def apply(self, change: Change) -> None:
        """Apply a message, unless it is older than the map."""
        if self.version is not None and change.version < self.version:
            return
        if self.version not in (change.base, change.version):
            self.gaps += self.version is not None
            self.unknown = set(ALL)
        for index, cells in change.tiles.items():
            self.cells[index * TILE_BYTES : (index + 1) * TILE_BYTES] = cells
        self.unknown -= change.tiles.keys()
        self.version = change.version

    @property
    def checksum(self) -> int:
        """Return the CRC-32 of the map."""
        return zlib.crc32(self.cells)


def place_of(x: int, y: int) -> int:
    """Return the place of a cell in memory."""
    tile = y // TILE * ACROSS + x // TILE
    return tile * TILE_BYTES + y % TILE * TILE + x % TILE


class Traffic:
    """Objects that move about on a map: each step, some of its tiles change."""

    SIZE: Final = 20
    COST: Final = 200

    def __init__(self, seed: int, things: int = 12) -> None:
        rng = Random(seed)
        self._places = [
            (rng.randrange(CELLS), rng.randrange(CELLS), rng.randint(-15, 15), rng.randint(-15, 15))
            for _ in range(things)
        ]

    def step(self, on: Original) -> None:
        """Move all objects; one that leaves the map at one side comes back at the other."""
        for x, y, _, _ in self._places:
            on.fill(x, y, self.SIZE, self.SIZE, 0)
        self._places = [
            ((x + dx) % CELLS, (y + dy) % CELLS, dx, dy) for x, y, dx, dy in self._places
        ]
        for x, y, _, _ in self._places:
            on.fill(x, y, self.SIZE, self.SIZE, self.COST)
