"""Senders and receivers of datagrams for tests."""

from typing import Final, Protocol

import pytest

from groupcomm.config.core import Rekeying
from groupcomm.config.view import Incarnation
from groupcomm.errors import BadDatagram
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import SUITE_AES_GCM, SUITE_NONE, Channel, Opened
from groupcomm.security.opening import Opener
from groupcomm.security.plain import PlainOpener, PlainSealer
from groupcomm.security.sealing import Sealer

CLUSTER: Final = 0xC1
ALICE: Final = 2**63 + 1  # numbers of daemons
BOB: Final = 2**32
CAROL: Final = 3
FIRST: Final = Incarnation(restarts=1, random_id=2**64 - 1)
EARLIER: Final = Incarnation(restarts=0, random_id=5)
KEYS: Final = KeyRing({0: bytes(32), 7: b"k" * 32}, active=7)

SUITES: Final = (SUITE_NONE, SUITE_AES_GCM)
each_suite = pytest.mark.parametrize("suite", SUITES, ids=["none", "aes-256-gcm"])


class AnySealer(Protocol):
    """A sealer of either suite, on one channel."""

    def seal(self, packet: bytes, receiver: int | None = None) -> bytes: ...


class AnyOpener(Protocol):
    """An opener of either suite."""

    def open_untrusted(self, datagram: bytes) -> Opened: ...


class OneChannel:
    """A sealer of suite 1 that seals all on one channel."""

    def __init__(self, sealer: Sealer, channel: Channel) -> None:
        self.sealer = sealer
        self._channel = channel

    def seal(self, packet: bytes, receiver: int | None = None) -> bytes:
        return self.sealer.seal(packet, self._channel, receiver)


def aes_sealer(
    *,
    keys: KeyRing = KEYS,
    cluster: int = CLUSTER,
    sender: int = ALICE,
    incarnation: Incarnation = FIRST,
    counter: int = 0,
    rekeying: Rekeying | None = None,
) -> Sealer:
    return Sealer(keys, cluster, sender, incarnation, counter=counter, rekeying=rekeying)


def sealer(
    suite: int = SUITE_AES_GCM,
    *,
    keys: KeyRing = KEYS,
    cluster: int = CLUSTER,
    sender: int = ALICE,
    incarnation: Incarnation = FIRST,
    counter: int = 0,
    channel: Channel = Channel.CONTROL,
) -> AnySealer:
    if suite == SUITE_NONE:
        return PlainSealer(cluster, sender, incarnation, counter)
    made = aes_sealer(
        keys=keys, cluster=cluster, sender=sender, incarnation=incarnation, counter=counter
    )
    return OneChannel(made, channel)


def aes_opener(
    *,
    keys: KeyRing = KEYS,
    cluster: int = CLUSTER,
    own: int = BOB,
    knows: tuple[tuple[int, Incarnation], ...] = ((ALICE, FIRST), (ALICE, EARLIER)),
    rekeying: Rekeying | None = None,
) -> Opener:
    """It knows that these starts send now, and takes any counter of theirs."""
    made = Opener(keys, cluster, (own, FIRST), rekeying=rekeying)
    for number, incarnation in knows:
        if (number, incarnation) != (own, FIRST):
            made.trust(number, incarnation, dict.fromkeys(Channel, -1))
    return made


def opener(
    suite: int = SUITE_AES_GCM, *, keys: KeyRing = KEYS, cluster: int = CLUSTER, own: int = BOB
) -> AnyOpener:
    if suite == SUITE_NONE:
        return PlainOpener(cluster, (own, FIRST))
    return aes_opener(keys=keys, cluster=cluster, own=own)


def refused(receiver: AnyOpener, datagram: bytes) -> str:
    """The reason for which a receiver refuses a datagram."""
    with pytest.raises(BadDatagram) as caught:
        receiver.open_untrusted(datagram)
    return caught.value.reason
