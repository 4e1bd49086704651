"""Key reports: a daemon tells all of its view which keys it has, without the keys themselves.

::

    active u16, wish u16, retires u32, count u16, evicted u16
    each key: key id u16, fingerprint 8 bytes
    each identity that is evicted: fingerprint of its public key, 8 bytes
"""

import struct
from typing import Final

import attrs

from groupcomm.errors import BadDatagram

FINGERPRINT_BYTES: Final = 8
MAX_KEYS: Final = 64
MAX_EVICTED: Final = 64
NOTHING: Final = 2**32 - 1
"""Stands for no key to retire."""

_HEAD = struct.Struct("!HHIHH")
_EACH = struct.Struct("!H8s")


@attrs.frozen(kw_only=True)
class KeyReport:
    """The keys that a daemon has.

    Attributes:
        active: the key that it seals with.
        wish: the key that all should seal with; `active` if it wishes for nothing.
        retires: the key that all should erase; None for none.
        prints: a fingerprint of each key that it opens with, by key id, rising.
        evicted: a fingerprint of each identity that it has evicted, 64 at most.
    """

    active: int
    wish: int
    retires: int | None
    prints: tuple[tuple[int, bytes], ...]
    evicted: tuple[bytes, ...] = ()

    def encode(self) -> bytes:
        """Return the payload of a bundle."""
        retires = NOTHING if self.retires is None else self.retires
        counts = len(self.prints), len(self.evicted)
        head = _HEAD.pack(self.active, self.wish, retires, *counts)
        return b"".join((head, *(_EACH.pack(*each) for each in self.prints), *self.evicted))


def decode_key_report_untrusted(payload: bytes) -> KeyReport:
    """Decode a whole payload.

    Raises:
        BadDatagram: its length and count disagree, ids do not rise, or the key that seals is not
            among them. No other exception, whatever the bytes.
    """
    if len(payload) < _HEAD.size:
        raise BadDatagram("short", f"a key report of {len(payload)} bytes")
    active, wish, retires, count, gone = _HEAD.unpack_from(payload)
    keys_end = _HEAD.size + count * _EACH.size
    size = keys_end + gone * FINGERPRINT_BYTES
    if count > MAX_KEYS or gone > MAX_EVICTED or len(payload) != size:
        raise BadDatagram("count", f"{count} keys and {gone} evicted in {len(payload)} bytes")
    prints = tuple(_EACH.iter_unpack(payload[_HEAD.size : keys_end]))
    ids = [number for number, _ in prints]
    if ids != sorted(set(ids)) or active not in ids:
        raise BadDatagram("keys", f"ids {ids} do not rise, or lack {active}, which seals")
    if retires != NOTHING and retires > 0xFFFF:
        raise BadDatagram("keys", f"key {retires} to retire is no key id")
    return KeyReport(
        active=active,
        wish=wish,
        retires=None if retires == NOTHING else retires,
        prints=prints,
        evicted=tuple(
            payload[at : at + FINGERPRINT_BYTES] for at in range(keys_end, size, FINGERPRINT_BYTES)
        ),
    )
