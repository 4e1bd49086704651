"""Datagrams of strangers, and of trusted daemons, for a daemon's protection with identities."""

import contextlib
from random import Random
from typing import Final

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import Incarnation, Start
from groupcomm.engine.protection import IdentityProtection, Outgoing
from groupcomm.errors import BadDatagram
from groupcomm.security.exchange import _ExchangePeer
from groupcomm.security.identity import DaemonCredentials, Roll, public_of
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import SUITE_IDENTITIES, Channel
from groupcomm.wire.hello import HELLO_BYTES, SIGNED_BYTES, Hello
from groupcomm.wire.packet import PacketKind
from tests.verification.campaigns.fuzz.checks import Target

_STARTS: Final = tuple(Start(name=f"d{n}", incarnation=Incarnation(1, n)) for n in (1, 2))
_CONFIG: Final = CoreConfig(suite=SUITE_IDENTITIES, sites=(("d1", "d2"),))
_PRIVATES: Final = tuple(bytes([number] * 32) for number in (1, 2))
_ROLL: Final = Roll({f"d{n}": public_of(private) for n, private in enumerate(_PRIVATES, 1)})


def _meeting() -> tuple[IdentityProtection, IdentityProtection]:
    """Return two daemons with identities that have heard of each other, and no more."""
    ring, entropy = KeyRing({1: bytes(32)}, 1), Random(1).randbytes
    one, other = (
        IdentityProtection(_CONFIG, start, ring, 0.0, DaemonCredentials(private, _ROLL, entropy))
        for start, private in zip(_STARTS, _PRIVATES, strict=True)
    )
    return one, other


def _secret(raw: bytes) -> None:
    """Nobody has sealed these bytes; sealed with a secret that is here they come out."""
    one, other = _meeting()
    peer = _STARTS[1].daemon.number, _STARTS[1].incarnation
    one._exchange._peers[peer] = _ExchangePeer(secrets={1: other._exchange.secret})
    opener = one._opener
    opener.trust(*peer, dict.fromkeys(Channel, 0))
    with contextlib.suppress(BadDatagram):
        opened = opener.open_untrusted(raw)
        raise AssertionError(f"opened {opened.packet!r}, which nobody sealed")
    assert opener.open_untrusted(other._sealer.seal(raw, Channel.RING)).packet == raw
    control = bytes((PacketKind.CONTROL,)) + raw[1:]
    assert opener.open_untrusted(other._sealer.seal(control, Channel.CONTROL)).packet == control


def _signed(raw: bytes) -> None:
    """Have a trusted daemon sign these bytes, in place of its statement about secrets."""
    one, other = _meeting()
    start, number = _STARTS[0].incarnation, _STARTS[0].daemon.number
    rest = raw.ljust(SIGNED_BYTES - HELLO_BYTES, b"\0")
    said = (Hello(start=start, asks=1).encode() + rest)[:SIGNED_BYTES]
    packet = said + other._signer.sign(said, number, other._sealer.counter(Channel.HELLO) + 1)
    assert one.open_untrusted(other._sealer.seal_hello(packet, number, 1)) is None
    out: list[Outgoing] = []
    one.pop_hellos(out)
    assert len(out) == 1, "it is answered once"


IDENTITY_TARGETS: Final[dict[str, Target]] = {
    "security.secret_sealing.open": _secret,
    "core.identity_gate.signed": _signed,
}
