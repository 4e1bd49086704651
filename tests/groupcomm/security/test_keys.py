"""Key rings, and the key of each start of each daemon."""

import hashlib
import hmac
import itertools
import struct

import pytest

from groupcomm.config.view import Incarnation
from groupcomm.errors import ConfigError
from groupcomm.security.keys import KeyRing, derive_key
from tests.groupcomm.security.daemons import ALICE, CLUSTER, FIRST

SECRET = b"s" * 32


@pytest.mark.parametrize(
    ("keys", "active", "text"),
    [
        ({-1: SECRET}, -1, "a key id is -1; it must be 0 to 65535"),
        ({65536: SECRET}, 65536, "a key id is 65536; it must be 0 to 65535"),
        ({1: b"short"}, 1, "key 1 has 5 bytes; it must have 32"),
        ({0: SECRET, 1: SECRET + b"x"}, 0, "key 1 has 33 bytes"),
        ({0: SECRET, 1: b""}, 0, "key 1 has 0 bytes"),
        ({0: SECRET}, 1, "active is 1, which is none of its keys"),
        ({}, 0, "active is 0, which is none of its keys"),
    ],
)
def test_a_bad_key_ring_is_refused(keys: dict[int, bytes], active: int, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        KeyRing(keys, active)


def test_the_edges_of_key_ids_are_good_and_keys_are_not_printed() -> None:
    ring = KeyRing({0: SECRET, 65535: SECRET}, active=65535)
    assert "s" * 5 not in repr(ring)
    assert "active=65535" in repr(ring)


def test_the_key_is_that_of_rfc_5869() -> None:
    """HKDF-SHA256 written out: extract with the salt, expand to one block."""
    salt = struct.pack("!QQQQ", CLUSTER, FIRST.random_id, ALICE, FIRST.restarts)
    extracted = hmac.digest(salt, SECRET, hashlib.sha256)
    info = b"groupcomm dgram v1" + struct.pack("!BI", 2, 2**20)
    expanded = hmac.digest(extracted, info + b"\x01", hashlib.sha256)
    assert derive_key(SECRET, CLUSTER, ALICE, FIRST, 2, 2**20) == expanded


def test_whatever_differs_gives_another_key() -> None:
    keys = [
        derive_key(secret, a, b, Incarnation(c, d), e, f)
        for secret in (SECRET, bytes(32))
        for a, b, c, d, e, f in itertools.product((0, 1), repeat=6)
    ]
    assert len(set(keys)) == 128
