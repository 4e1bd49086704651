"""Senders and receivers of datagrams for tests."""

from typing import Final

import pytest

from groupcomm.config.view import Incarnation
from groupcomm.errors import BadDatagram
from groupcomm.security.keys import KeyRing
from groupcomm.security.sealing import SUITE_AES_GCM, SUITE_NONE, Opener, Sealer

CLUSTER: Final = 0xC1
ALICE: Final = 2**63 + 1  # numbers of daemons
BOB: Final = 2**32
CAROL: Final = 3
FIRST: Final = Incarnation(restarts=1, random_id=2**64 - 1)
KEYS: Final = KeyRing({0: bytes(32), 7: b"k" * 32}, active=7)

SUITES: Final = (SUITE_NONE, SUITE_AES_GCM)
each_suite = pytest.mark.parametrize("suite", SUITES, ids=["none", "aes-256-gcm"])


def sealer(
    suite: int = SUITE_AES_GCM,
    *,
    keys: KeyRing = KEYS,
    cluster: int = CLUSTER,
    sender: int = ALICE,
    incarnation: Incarnation = FIRST,
    counter: int = 0,
) -> Sealer:
    return Sealer(suite, keys, cluster, sender, incarnation, counter)


def opener(
    suite: int = SUITE_AES_GCM, *, keys: KeyRing = KEYS, cluster: int = CLUSTER, own: int = BOB
) -> Opener:
    return Opener(suite, keys, cluster, (own, FIRST))


def refused(receiver: Opener, datagram: bytes) -> str:
    """The reason for which a receiver refuses a datagram."""
    with pytest.raises(BadDatagram) as caught:
        receiver.open_untrusted(datagram)
    return caught.value.reason
