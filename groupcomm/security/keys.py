"""Keys of a cluster, and what is derived from them for each start of each daemon."""

import struct
from collections.abc import Mapping
from typing import Final

import attrs
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from groupcomm.config.view import Incarnation
from groupcomm.errors import ConfigError

KEY_BYTES: Final = 32
_SALT = struct.Struct("!QQQQ")
_PLACE = struct.Struct("!BI")
_INFO: Final = b"groupcomm dgram v1"


def _check_keys(_: object, __: object, keys: Mapping[int, bytes]) -> None:
    for number, key in keys.items():
        if not 0 <= number <= 0xFFFF:
            raise ConfigError(f"key ring: key id {number}; it must be 0 to 65535")
        if len(key) != KEY_BYTES:
            raise ConfigError(
                f"key ring: key {number} has {len(key)} bytes; it must have {KEY_BYTES}"
            )


@attrs.frozen
class KeyRing:
    """The secrets that a cluster's daemons share.

    Attributes:
        keys: 32 bytes each, by key id (0 to 65535); all of them open datagrams.
        active: the id of the one that seals.
    """

    keys: Mapping[int, bytes] = attrs.field(repr=False, validator=_check_keys)
    active: int

    def __attrs_post_init__(self) -> None:
        if self.active not in self.keys:
            raise ConfigError(f"key ring: active is {self.active}, but there is no such key")


def derive_key(
    ring_key: bytes,
    cluster: int,
    sender: int,
    incarnation: Incarnation,
    channel: int,
    epoch: int,
) -> bytes:
    """The key of one channel of one start of one daemon in one epoch, 32 bytes (RFC 5869).

    The random id makes it fresh even where the restart count was lost or rolled back, so counters
    may start anew without a nonce being used twice. Each epoch's key comes from the ring's key and
    not from the key before it: a receiver that has missed many finds the present one at once, and
    a key that was stolen opens neither earlier nor later epochs.
    """
    salt = _SALT.pack(cluster, incarnation.random_id, sender, incarnation.restarts)
    info = _INFO + _PLACE.pack(channel, epoch)
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=info).derive(ring_key)
