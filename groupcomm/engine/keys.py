"""The key manager: gives agreed keys to the protection, and sends operators' wishes to all.

Pure. groupcomm/security/keys.py decides about keys. The first daemon that says that an identity is
evicted decides that, for good. docs/security.md describes the work of an operator.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.config.roster import Roster
from groupcomm.engine.backlog import Submitter
from groupcomm.engine.counters import Counters
from groupcomm.engine.inputs import Evict, KeyCommand, LoadKeys, PromoteKey, RetireKey
from groupcomm.engine.protection import DatagramProtection
from groupcomm.errors import BadDatagram, LocalProtocolError
from groupcomm.security.identity import Roll, identity_fingerprint
from groupcomm.security.keys import KeyRing, Rotation
from groupcomm.wire.bundle import Bundle, body_payload, keys_bundle
from groupcomm.wire.eviction import Eviction
from groupcomm.wire.keys import KeyReport, decode_key_report_untrusted

_NO_KEYS: Final = "this daemon has no key_file: its datagrams are not sealed; set key_file"
_NO_IDENTITY: Final = (
    "this daemon has no identity, and needs one to evict another: set identity and identities"
)


@attrs.frozen(kw_only=True)
class KeyStatus:
    """Keys and identities.

    Attributes:
        missing_key: the name of a daemon and the id of the key that it seals with, as it has
            proved, where this daemon does not have that key; None if there is none.
        named_key: a missing key that some datagram has named; anybody can name one.
        evicted: whether this daemon's identity is evicted, and its file says so.
        eviction: the name of a daemon that says so, and its notice; None without one that counts.
        description: the keys here and at all members, without secrets; None without a key file.
    """

    missing_key: tuple[str, int] | None
    named_key: int | None
    evicted: bool
    eviction: tuple[str, Eviction] | None
    description: Mapping[str, Any] | None


class KeyManager:
    """The keys and identities of one start of a daemon.

    Args:
        name: the name of the daemon.
        protection: seals and opens datagrams with the keys.
        keys: the keys at the start; None without a key file, then no report is ever sent.
        submitter: sends the reports of this daemon.
        counters: counts the reports that cannot be read.

    Attributes:
        unstored: whether a file lacks agreed keys or evictions: see `to_store`.
    """

    def __init__(
        self,
        name: str,
        protection: DatagramProtection,
        keys: KeyRing | None,
        submitter: Submitter,
        counters: Counters,
    ) -> None:
        self._name = name
        self._rotation = Rotation(keys, name) if keys is not None else None
        self._protection = protection
        self._submitter = submitter
        self._counters = counters
        self._members: Sequence[str] = ()
        self._sealed_since = 0.0  # the time from which the present key seals
        self._roll_stored = True
        self.unstored = False
        self._note_evicted()

    # ---- reports in the order ----

    def begin_view(self, members: Sequence[str]) -> None:
        """Begin a view whose groups are known; `members` are its daemons, by index."""
        self._members = members
        if self._rotation is not None:
            self._submit(self._rotation.begin(members))

    def on_report(self, daemon: int, bundle: Bundle) -> None:
        """Process a key report at its place in the agreed order."""
        rotation = self._rotation
        if rotation is None or daemon >= len(self._members):
            return
        try:
            report = decode_key_report_untrusted(bytes(body_payload(bundle.body)))
        except BadDatagram:
            self._counters.violations["keys"] += 1
            return
        before = rotation.keys
        self._submit(rotation.on_report(self._members[daemon], report))
        if rotation.keys is not before:
            self._use_keys(before)
        if report.evicted and self._protection.roll is not None:
            self._use_roll(self._protection.roll.without(report.evicted))

    def _use_roll(self, roll: Roll) -> None:
        if roll is not self._protection.roll:
            self._protection.use_roll(roll)
            self._roll_stored, self.unstored = False, True
            self._note_evicted()

    def _note_evicted(self) -> None:
        if self._rotation is not None and self._protection.roll is not None:
            self._rotation.evicted = tuple(map(identity_fingerprint, self._protection.roll.evicted))

    def _use_keys(self, before: KeyRing) -> None:
        assert self._rotation is not None
        keys = self._rotation.keys
        self._protection.use_keys(keys)
        self.unstored |= not self._rotation.stored
        if keys.active != before.active:
            self._sealed_since = self._protection.now

    def _submit(self, report: KeyReport | None) -> None:
        if report is not None:
            self._submitter.submit(keys_bundle(report.encode()))

    # ---- commands of the operator ----

    def carry_out(self, command: KeyCommand, config: CoreConfig) -> None:
        """Carry out a command of an operator; raise LocalProtocolError if it is impossible."""
        match command:
            case LoadKeys(keys, roll):
                self.load(keys, roll)
            case PromoteKey(number):
                self.promote(number)
            case Evict(name):
                self.evict(name)
            case RetireKey(number=number, without_missing=anyway):
                self.retire(number, config, without_missing=anyway)

    def load(self, keys: KeyRing, roll: Roll | None = None) -> None:
        """Adopt the changed files, all of them or none.

        Args:
            keys: the keys of the key file.
            roll: the roll of the identities' file; None without one.

        Raises:
            LocalProtocolError: one of them cannot be adopted.
        """
        rotation = self._active_rotation
        merged = None if roll is None else self._merged(roll)
        rotation.load(keys)  # the last act that may fail
        self._protection.use_keys(rotation.keys)
        if merged is not None:
            self._protection.use_roll(merged)
            self._note_evicted()
        self._submit(rotation.report())

    def promote(self, number: int) -> None:
        """Have all daemons seal with a key; raise LocalProtocolError if not all can."""
        self._submit(self._active_rotation.promote(number))

    def retire(self, number: int, config: CoreConfig, *, without_missing: bool) -> None:
        """Have all daemons erase a key.

        Args:
            number: the key's number.
            config: the settings that count.
            without_missing: also if configured daemons are not in the view; they need the newer
                key before they can come back.

        Raises:
            LocalProtocolError: it is in use, or was a moment ago, or a daemon is missing.
        """
        rotation = self._active_rotation
        missing = sorted(set(config.daemons) - set(self._members))
        if missing and not without_missing:
            raise LocalProtocolError(
                f"{', '.join(missing)} would be locked out if the newer key is not in the file"
                " there: start them first, or add --without-missing"
            )
        wait_s = self._sealed_since + 2 * config.rekeying.lifetime_s - self._protection.now
        if self._sealed_since and wait_s > 0:
            raise LocalProtocolError(
                f"datagrams sealed with key {number} may still be on their way: wait {wait_s:.0f} s"
            )
        self._submit(rotation.retire(number))

    def evict(self, name: str) -> None:
        """Have no daemon trust the identity of this daemon any more.

        Raises:
            LocalProtocolError: there are no identities, or the daemon has none.
        """
        rotation, roll = self._active_rotation, self._protection.roll
        if roll is None:
            raise LocalProtocolError(_NO_IDENTITY)
        if name == self._name:
            raise LocalProtocolError(f"{name} is this daemon: evict it from another host")
        if not roll.is_trusted(name):
            raise LocalProtocolError(
                f"{name} is evicted already"
                if name in roll.daemons
                else f"{name} has no identity; known are {', '.join(sorted(roll.daemons))}"
            )
        rotation.evicted += (identity_fingerprint(roll.daemons[name]),)
        self._submit(rotation.report())

    def _merged(self, roll: Roll) -> Roll:
        """Return the identities of a file, with all evictions so far, which are final.

        Raises:
            LocalProtocolError: there are no identities here, or it has another one for this daemon.
        """
        old, me = self._protection.roll, self._name
        if old is None:
            raise LocalProtocolError(_NO_IDENTITY)
        if roll.daemons.get(me) != old.daemons[me]:
            raise LocalProtocolError(
                f"identities: they do not list {me}, this daemon, with its public key any more: put"
                " it back"
            )
        return Roll(roll.daemons, {**roll.evicted, **old.evicted})

    @property
    def _active_rotation(self) -> Rotation:
        if self._rotation is None:
            raise LocalProtocolError(_NO_KEYS)
        return self._rotation

    # ---- the key file ----

    @property
    def keys(self) -> KeyRing | None:
        """Return the keys of this daemon; None without a key file."""
        return None if self._rotation is None else self._rotation.keys

    @property
    def missing_key(self) -> tuple[str, int] | None:
        """Return a daemon's name and the missing key that it provably seals with; None without."""
        return self._protection.missing_key

    @property
    def named_key(self) -> int | None:
        """Return a missing key that some datagram has named; anybody can name one."""
        return self._protection.named_key

    def to_store(self) -> tuple[KeyRing | None, Roll | None]:
        """Return the contents that the two files must get; None for a file that has them."""
        rotation = self._rotation
        keys = None if rotation is None or rotation.stored else rotation.keys
        return keys, None if self._roll_stored else self._protection.roll

    def keys_stored(self, keys: KeyRing) -> None:
        """Note that the key file holds these keys."""
        if self._rotation is not None and keys is self._rotation.keys:
            self._rotation.stored = True
        self.unstored = self.to_store() != (None, None)

    # ---- identities ----

    @property
    def is_evicted(self) -> bool:
        """Return whether the others no longer trust this daemon, and the file here says so."""
        roll = self._protection.roll
        return roll is not None and self._roll_stored and not roll.is_trusted(self._name)

    def find_eviction(self, roster: Roster) -> tuple[str, Eviction] | None:
        """Return a daemon's name and its notice that this daemon is evicted; None without one.

        Daemons that are not in the roster that counts, or know an older one, are not believed.
        """
        found = self._protection.eviction
        if found is None:
            return None
        name, notice = found
        least = roster.number + notice.removed
        return found if roster.entry(name) is not None and notice.roster >= least else None

    @property
    def roll(self) -> Roll | None:
        """Return the identities that are trusted; None where daemons have none."""
        return self._protection.roll

    def roll_stored(self, roll: Roll) -> None:
        """Note that the identities' file holds these identities."""
        if roll is self._protection.roll:
            self._roll_stored = True
        self.unstored = self.to_store() != (None, None)

    # ---- description ----

    def status(self, config: CoreConfig) -> KeyStatus:
        """Return the facts for operators, by the settings that count."""
        return KeyStatus(
            missing_key=self.missing_key,
            named_key=self.named_key,
            evicted=self.is_evicted,
            eviction=self.find_eviction(config.roster),
            description=None if self.keys is None else self.describe(config.daemons),
        )

    def describe(self, configured: Collection[str]) -> dict[str, Any]:
        """Return a description of the keys here and at all members, without secrets.

        Args:
            configured: the names of all daemons.
        """
        rotation = self._active_rotation
        members = rotation.reports or dict.fromkeys(self._members)
        here = rotation.own_report()
        return {
            "active": here.active,
            "keys": {str(number): found.hex() for number, found in here.prints},
            "members": {name: _status_of(report) for name, report in members.items()},
            "missing": sorted(set(configured) - set(self._members)),
            "identities": self._describe_identities(),
        }

    def _describe_identities(self) -> dict[str, Any] | None:
        roll = self._protection.roll
        if roll is None:
            return None
        evicted = {
            identity_fingerprint(public).hex(): name for public, name in roll.evicted.items()
        }
        known = {name: identity_fingerprint(public).hex() for name, public in roll.daemons.items()}
        return {
            "daemons": {name: found for name, found in known.items() if found not in evicted},
            "evicted": evicted,
            "await": self._protection.awaited,
        }


def _status_of(report: KeyReport | None) -> dict[str, Any] | None:
    if report is None:
        return None
    return {
        "active": report.active,
        "keys": {str(number): found.hex() for number, found in report.prints},
    }
