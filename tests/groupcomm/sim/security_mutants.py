"""Wrong ways to keep the rules of security, which tests find rather than the simulator's checkers.

A checker checks the notices of programs and daemons; these bugs let an attacker in, or repeat a
nonce, and cause no wrong notice. docs/mutants.md lists them, each with the test that finds it.
"""

from collections.abc import Sequence
from typing import Any, Final

from groupcomm.config.view import Incarnation
from groupcomm.engine.access_control import AccessControl
from groupcomm.engine.keys import KeyManager
from groupcomm.engine.sessions import LocalSessions
from groupcomm.groups.table import GroupTable
from groupcomm.security import opening, sealing
from groupcomm.security.exchange import Exchange
from groupcomm.security.hello import HelloReply, Introductions
from groupcomm.security.identity import Signer, StartId
from groupcomm.security.keys import Rotation
from groupcomm.security.layout import Channel, Opened
from groupcomm.security.opening import Opener
from groupcomm.security.quotas import Account
from groupcomm.security.secret_sealing import SecretOpener
from groupcomm.session.daemon_session import DaemonSession
from groupcomm.wire.hello import NO_WRAP
from groupcomm.wire.keys import KeyReport
from tests.verification.mutants.mutant import Right, mutant

_DERIVED: Final = ((sealing, "derive_key"), (opening, "derive_key"))
_ANY_START: Final = Incarnation(0, 0)

# ---- datagrams ----


@mutant((Opener, "_open_unproven"))
def taken_without_a_proof(right: Right) -> Right:
    """A start of a daemon counts as proved as soon as a datagram of it has a right seal."""

    def open_stranger(self: Opener, *arguments: Any) -> Opened:
        opened: Opened = right(self, *arguments)
        self.trust(opened.sender, opened.incarnation, dict.fromkeys(Channel, opened.counter))
        opened.proven = True
        return opened

    return open_stranger


@mutant((Introductions, "on_hello"))
def proof_counts_again(right: Right) -> Right:
    """A copy of a proof begins windows anew after they had to be forgotten."""

    def on_hello(self: Introductions, *arguments: Any, **options: Any) -> HelloReply:
        self.forgot = False
        reply: HelloReply = right(self, *arguments, **options)
        return reply

    return on_hello


@mutant(*_DERIVED)
def keys_outlive_the_start(seals: Right, opens: Right) -> tuple[Right, Right]:
    """Keys do not depend on the start of a daemon, whose counters begin anew."""

    def without_start(right: Right) -> Right:
        def derive(secret: bytes, cluster: int, sender: int, _: object, *place: int) -> bytes:
            key: bytes = right(secret, cluster, sender, _ANY_START, *place)
            return key

        return derive

    return without_start(seals), without_start(opens)


@mutant(*_DERIVED)
def channels_share_a_key(seals: Right, opens: Right) -> tuple[Right, Right]:
    """All channels of a daemon have one key, though each counts for itself."""

    def without_channel(right: Right) -> Right:
        def derive(*who: Any) -> bytes:
            *others, _channel, epoch = who
            key: bytes = right(*others, 0, epoch)
            return key

        return derive

    return without_channel(seals), without_channel(opens)


# ---- changing the key ----


@mutant((Rotation, "_agree"))
def promoted_before_all_have_it(right: Right) -> Right:
    """A daemon seals with a new key as soon as it has it, even if other members lack it."""

    def agree(self: Rotation, reports: Sequence[KeyReport]) -> None:
        target = max(max(report.active, report.wish) for report in reports)
        if target in self.keys.keys:
            self._seal_with(target)
        right(self, reports)

    return agree


@mutant((KeyManager, "retire"))
def retired_at_once(right: Right) -> Right:
    """A key is erased while datagrams that are sealed with it may be on their way."""

    def retire(self: KeyManager, *asked: Any, without_missing: bool) -> None:
        self._sealed_since = 0.0
        right(self, *asked, without_missing=without_missing)

    return retire


# ---- access ----


@mutant((LocalSessions, "review_members"))
def only_joins_are_checked(_right: Right) -> Right:
    """Rules are checked when a program joins; later rules do not concern members."""

    def review(_self: LocalSessions) -> None:
        pass

    return review


@mutant((LocalSessions, "set_rules"))
def checked_once(right: Right) -> Right:
    """A program may send for ever to the groups that it was once allowed to send to."""

    def govern(self: LocalSessions, *rules: Any) -> None:
        allowed = {number: set(session.allowed) for number, session in self.by_connection.items()}
        right(self, *rules)
        for number, session in self.by_connection.items():
            session.allowed |= allowed[number]

    return govern


@mutant((GroupTable, "own_principals"))
def principals_stay_behind(_right: Right) -> Right:
    """A daemon does not announce the principals of its sessions in a new view."""

    def own_principals(_self: GroupTable) -> list[tuple[int, str]]:
        return []

    return own_principals


# ---- quotas ----


@mutant((Account, "charge"))
def nothing_is_charged(_right: Right) -> Right:
    """Quotas are set, and nothing that a program sends counts."""

    def charge(_self: Account, _now: float, **_amounts: int) -> None:
        pass

    return charge


@mutant((AccessControl, "_forget"))
def charged_for_nothing(right: Right) -> Right:
    """A membership counts for the quota also when the group was left."""

    def forget(self: AccessControl, session: DaemonSession, group: str) -> None:
        counted = group in session.groups
        right(self, session, group)
        if counted:
            self._memberships[session.principal] += 1

    return forget


# ---- identities ----


@mutant((Signer, "check"))
def anybody_signs(_: Right) -> Right:
    """No daemon checks the signatures of others."""

    def check(self: Signer, *arguments: Any) -> None:
        """Accept every signature."""

    return check


@mutant((Exchange, "_wrap"))
def wrapped_for_an_old_key(right: Right) -> Right:
    """Secrets of a view are given to keys of the view before, which an intruder may know."""

    def wrap(self: Exchange, start: StartId, peer: Any) -> bytes:
        peer.view = self._pair.view
        secrets: bytes = right(self, start, peer)
        return secrets

    return wrap


@mutant((Exchange, "_wrap"))
def wrapped_anew(right: Right) -> Right:
    """Each introduction is wrapped anew, with the nonce that the key has seen already."""

    def wrap(self: Exchange, start: StartId, peer: Any) -> bytes:
        peer.wrap = NO_WRAP
        secrets: bytes = right(self, start, peer)
        return secrets

    return wrap


@mutant((Exchange, "erase_before"))
def secrets_are_kept(_: Right) -> Right:
    """Keys of a view are kept after its datagrams cannot be in flight any more."""

    def erase_before(self: Exchange, start: StartId, number: int) -> None:
        """Nothing is erased."""

    return erase_before


@mutant((SecretOpener, "forget_daemon"))
def evicted_is_heard(_: Right) -> Right:
    """An evicted daemon gets no new secrets, but its old ones still count."""

    def forget_daemon(self: SecretOpener, number: int) -> None:
        """It goes on."""

    return forget_daemon


BUGS = (
    taken_without_a_proof,
    proof_counts_again,
    keys_outlive_the_start,
    channels_share_a_key,
    promoted_before_all_have_it,
    retired_at_once,
    only_joins_are_checked,
    checked_once,
    principals_stay_behind,
    nothing_is_charged,
    charged_for_nothing,
    anybody_signs,
    wrapped_for_an_old_key,
    wrapped_anew,
    secrets_are_kept,
    evicted_is_heard,
)
