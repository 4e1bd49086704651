"""Defences against each role of the attacker, removed: some seeds of that role then find it."""

from collections.abc import Callable
from typing import Any, Final

from groupcomm.config.view import Incarnation
from groupcomm.engine import intake, session_output
from groupcomm.engine.access_control import AccessControl
from groupcomm.errors import BadDatagram
from groupcomm.events import Refused
from groupcomm.security.access import Access
from groupcomm.security.exchange import Exchange
from groupcomm.security.identity import Roll, Signer, StartId
from groupcomm.security.layout import HEAD_BYTES, Channel, Opened, ReplayWindow
from groupcomm.security.opening import Opener
from groupcomm.security.sealing import Encrypt
from groupcomm.security.secret_sealing import SecretOpener, SecretSealer
from groupcomm.session import daemon_session
from groupcomm.session.daemon_session import DaemonSession
from groupcomm.wire.bundle import Bundle, BundleKind
from tests.verification.mutants.mutant import Right, mutant

_SEALED: Final = HEAD_BYTES + 5
_TAG: Final = 16

# ---- nothing ----


@mutant((ReplayWindow, "check"))
def replays_are_taken(_: Right) -> Right:
    """Captured datagrams are accepted again."""
    return lambda self, counter: True


@mutant((Opener, "_open"))
def seals_are_not_checked(right: Right) -> Right:
    """A datagram that does not open is accepted as it is."""

    def open_(self: Opener, lane: Any, decrypt: Any, datagram: bytes, scope: int) -> bytes:
        try:
            opened: bytes = right(self, lane, decrypt, datagram, scope)
        except BadDatagram:
            return datagram[_SEALED:-_TAG]
        return opened

    return open_


# ---- ring-key ----


@mutant((SecretOpener, "SIGNED"))
def windows_move_before_the_signature_fits(_: Right) -> int:
    """A seal by the file's key is believed: one forged introduction makes genuine ones replays."""
    return -1


@mutant((Signer, "check"))
def anybody_signs(_: Right) -> Right:
    """No daemon checks the signatures of others."""
    return lambda self, *said: None


@mutant((Exchange, "secret_of"), (SecretSealer, "_encrypt"))
def the_key_file_is_enough(opens: Right, seals: Right) -> tuple[Right, Right]:
    """The seal of a daemon depends on no secret of its own."""

    def secret_of(self: Exchange, start: StartId, number: int) -> bytes | None:
        return None if opens(self, start, number) is None else b""

    def encrypt(self: SecretSealer, *place: Any) -> Encrypt:
        self._secret = b""
        sealing: Encrypt = seals(self, *place)
        return sealing

    return secret_of, encrypt


# ---- evicted ----


@mutant((SecretOpener, "forget_daemon"))
def the_evicted_is_heard(_: Right) -> Right:
    """The seals of an evicted daemon still open."""
    return lambda self, number: None


@mutant((Signer, "use"))
def the_evicted_signs(right: Right) -> Right:
    """The identity of an evicted daemon still counts."""

    def use(self: Signer, roll: Roll) -> None:
        right(self, Roll(roll.daemons))

    return use


@mutant((Exchange, "_draw"))
def the_evicted_reads(_: Right) -> Right:
    """Neither an eviction nor a view brings new secrets."""

    def draw(self: Exchange, view: bytes, now: float) -> None:
        """Go on with the old ones."""

    return draw


# ---- programs ----


@mutant((AccessControl, "find_refusal"))
def rules_are_not_asked(_: Right) -> Right:
    """Whatever a session submits is ordered."""
    return lambda self, session, bundle: None


@mutant((AccessControl, "find_refusal"))
def leaves_of_nothing_are_ordered(right: Right) -> Right:
    """A session may have all daemons order its leave of a group that it never was in."""

    def refusal_of(self: AccessControl, session: DaemonSession, bundle: Bundle) -> Refused | None:
        if bundle.kind == BundleKind.LEAVE:
            return None
        refused: Refused | None = right(self, session, bundle)
        return refused

    return refusal_of


@mutant((Access, "may_be_called"))
def names_are_free(_: Right) -> Right:
    """A session may have any name."""
    return lambda self, principal, name: True


# ---- users ----


@mutant((Opener, "_open"), (Opener, "_open_unproven"))
def whoever_sends_is_heard(opens: Right, strangers: Right) -> tuple[Right, Right]:
    """A datagram that does not open is accepted as it is, and its sender as a daemon."""

    def open_stranger(self: Opener, *arguments: Any) -> Opened:
        opened: Opened = strangers(self, *arguments)
        start: Incarnation = opened.incarnation
        self.trust(opened.sender, start, dict.fromkeys(Channel, opened.counter))
        opened.proven = True
        return opened

    open_: Callable[..., bytes] = seals_are_not_checked.variant(opens)
    return open_, open_stranger


# ---- programs with a small right ----


@mutant(
    *((intake, "STEP_WORK"), (intake, "SESSION_WORK"), (session_output, "STEP_FRAMES")),
    (daemon_session, "MOST_BACKLOG_WORK"),
)
def steps_have_no_bound(*_: int) -> tuple[int, ...]:
    """A step does all that was asked for, and delivers all that there is."""
    return (10**6,) * 4


BREAKS: Final = (
    (replays_are_taken, "nothing"),
    (seals_are_not_checked, "nothing"),
    (windows_move_before_the_signature_fits, "ring-key"),
    (anybody_signs, "ring-key"),
    (the_key_file_is_enough, "ring-key"),
    (the_evicted_is_heard, "evicted"),
    (the_evicted_signs, "evicted"),
    (the_evicted_reads, "evicted"),
    (rules_are_not_asked, "program"),
    (leaves_of_nothing_are_ordered, "program"),
    (names_are_free, "program"),
    (names_are_free, "user"),
    (whoever_sends_is_heard, "user"),
)
"""The removed defence, and the role whose seeds find it."""
