"""Keys of a cluster: the key ring, derivation of keys for each start, and rotation.

Rotation: another key seals from one position of the agreed order on, and an old one is erased.
Pure. Daemons with more than one key report which ones, in messages of the agreed order, anew in
every view. So at each position all members of a view know the same, and decide alike:

    SILENT --- a second key, or a report ---> REPORTED --- all have reported ---> all seal with it
       ^                                         |
       +---------------- a view -----------------+

The key to seal with is the highest one that any member seals with, or asks for. So parts of a
cluster that were separated agree when they meet, without anybody's help.
"""

import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from groupcomm.config.view import Incarnation
from groupcomm.errors import ConfigError, LocalProtocolError
from groupcomm.wire.keys import FINGERPRINT_BYTES, MAX_EVICTED, KeyReport

KEY_BYTES: Final = 32
_SALT = struct.Struct("!QQQQ")
_PLACE = struct.Struct("!BI")
_INFO: Final = b"groupcomm dgram v1"


def _check_keys(_: object, __: object, keys: Mapping[int, bytes]) -> None:
    for number, key in keys.items():
        if not 0 <= number <= 0xFFFF:
            raise ConfigError(f"key ring: a key id is {number}; it must be 0 to 65535")
        if len(key) != KEY_BYTES:
            raise ConfigError(
                f"key ring: key {number} has {len(key)} bytes; it must have {KEY_BYTES}"
            )


@attrs.frozen
class KeyRing:
    """The secrets that the daemons of a cluster share.

    Attributes:
        keys: 32 bytes each, by key id (0 to 65535); all of them open datagrams.
        active: the id of the key that seals.
    """

    keys: Mapping[int, bytes] = attrs.field(repr=False, validator=_check_keys)
    active: int

    def __attrs_post_init__(self) -> None:
        if self.active not in self.keys:
            raise ConfigError(f"key ring: active is {self.active}, which is none of its keys")


def derive_key(
    ring_key: bytes,
    cluster: int,
    sender: int,
    incarnation: Incarnation,
    channel: int,
    epoch: int,
) -> bytes:
    """Derive the key of one channel of one start in one epoch, 32 bytes (RFC 5869).

    The random id makes it fresh even if the restart count was lost or rolled back, so counters may
    start anew without using a nonce twice. Each epoch's key is derived from the ring's key and not
    from the key before it: a receiver that has missed many derives the present one at once, and a
    stolen key opens neither earlier nor later epochs.
    """
    salt = _SALT.pack(cluster, incarnation.random_id, sender, incarnation.restarts)
    info = _INFO + _PLACE.pack(channel, epoch)
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=info).derive(ring_key)


_PERSON: Final = b"groupcomm keys"


def fingerprint_of(key: bytes) -> bytes:
    """Return a fingerprint, which tells keys apart and reveals nothing else about them."""
    return hashlib.blake2b(key, digest_size=FINGERPRINT_BYTES, person=_PERSON).digest()


class Rotation:
    """One daemon's part in the rotation of keys.

    Attributes:
        keys: the keys that it has now; the active one seals.
        stored: whether the key file holds them; the owner sets it once it does.
        reports: the reports of the view's members, by name; None for a member without one.
        evicted: fingerprints of evicted identities, which are reported with the keys; the owner
            sets it.
    """

    __slots__ = ("_me", "_retires", "_said", "_wish", "evicted", "keys", "reports", "stored")

    def __init__(self, keys: KeyRing, me: str) -> None:
        self.keys = keys
        self.stored = True
        self._me = me
        self._wish = keys.active
        self._retires: int | None = None
        self._said = False  # whether this daemon has reported in this view
        self.reports: dict[str, KeyReport | None] = {}
        self.evicted: tuple[bytes, ...] = ()

    # ---- reports of this daemon ----

    def begin(self, members: Sequence[str]) -> KeyReport | None:
        """Begin a view; return the report for it, if there is anything to report."""
        self.reports = dict.fromkeys(members)
        self._said = False
        return self.report() if len(self.keys.keys) > 1 or self.evicted else None

    def report(self) -> KeyReport:
        """Return this daemon's report, which counts as sent."""
        self._said = True
        return self.own_report()

    def own_report(self) -> KeyReport:
        """Return this daemon's report."""
        prints = tuple((number, fingerprint_of(self.keys.keys[number])) for number in self._ids)
        return KeyReport(
            active=self.keys.active,
            wish=max(self._wish, self.keys.active),
            retires=self._retires,
            prints=prints,
            evicted=self.evicted[-MAX_EVICTED:],
        )

    @property
    def _ids(self) -> list[int]:
        return sorted(self.keys.keys)

    def load(self, keys: KeyRing) -> None:
        """Use the keys of a changed key file to open datagrams; the key that seals stays.

        Raises:
            LocalProtocolError: the key that seals is not in the file, or is another one there.
        """
        active = self.keys.active
        if keys.keys.get(active) != self.keys.keys[active]:
            raise LocalProtocolError(
                f"key {active} seals, and the file lacks it or has another key of that number:"
                " put it back; to remove keys, use groupcomm keys retire"
            )
        self.keys = KeyRing(keys.keys, active)

    def promote(self, number: int) -> KeyReport:
        """Return a report that asks all daemons to seal with a key from now on.

        Raises:
            LocalProtocolError: the key is not newer than the present one, or not all members have
                it.
        """
        if number <= self.keys.active:
            raise LocalProtocolError(
                f"key {self.keys.active} seals; only one with a higher number comes after it"
            )
        self._check_here(number)
        lacking = [name for name, report in self.reports.items() if not self._has(report, number)]
        if lacking:
            raise LocalProtocolError(
                f"key {number} is not known at {', '.join(lacking)}: bring it there with groupcomm"
                " keys add, which has the daemon read it"
            )
        self._wish = number
        return self.report()

    def retire(self, number: int) -> KeyReport:
        """Return a report that asks all daemons to erase a key.

        Raises:
            LocalProtocolError: a member seals with it, or has not reported.
        """
        self._check_here(number)
        sealing = [
            name
            for name, report in self.reports.items()
            if report is None or report.active <= number
        ]
        if number >= self.keys.active or (sealing and len(self.reports) > 1):
            who = ", ".join(sealing) or self._me
            raise LocalProtocolError(
                f"key {number} is still in use at {who}: groupcomm keys promote a newer one first"
            )
        self._retires = number
        return self.report()

    def _check_here(self, number: int) -> None:
        if number not in self.keys.keys:
            raise LocalProtocolError(
                f"key {number} is not in the key file here; it has {', '.join(map(str, self._ids))}"
            )

    def _has(self, report: KeyReport | None, number: int) -> bool:
        mine = number, fingerprint_of(self.keys.keys[number])
        return report is not None and mine in report.prints

    # ---- reports of members ----

    def on_report(self, name: str, report: KeyReport) -> KeyReport | None:
        """Process a member's report, at the present position of the agreed order.

        Returns:
            This daemon's report, if it has sent none in this view; else None.
        """
        self.reports[name] = report
        reports = [each for each in self.reports.values() if each is not None]
        if len(reports) == len(self.reports):
            self._agree(reports)
        return None if self._said else self.report()

    def _agree(self, reports: Sequence[KeyReport]) -> None:
        """Act on the reports of all members; the result is the same at all of them."""
        prints = [dict(report.prints) for report in reports]
        target = max(max(report.active, report.wish) for report in reports)
        if len({each.get(target) for each in prints}) == 1:
            self._seal_with(target)
            lowest = target
        else:
            lowest = min(report.active for report in reports)
        for report in reports:
            if report.retires is not None and report.retires < lowest:
                self._erase(report.retires)

    def _seal_with(self, number: int) -> None:
        for name, report in self.reports.items():
            if report is not None:
                self.reports[name] = attrs.evolve(report, active=number, wish=number)
        self._wish = number
        if self.keys.active != number and number in self.keys.keys:
            self._install(KeyRing(self.keys.keys, number))

    def _erase(self, number: int) -> None:
        for name, report in self.reports.items():
            if report is not None:
                prints = tuple(each for each in report.prints if each[0] != number)
                self.reports[name] = attrs.evolve(report, retires=None, prints=prints)
        self._retires = None
        if number in self.keys.keys:
            left = {key: secret for key, secret in self.keys.keys.items() if key != number}
            self._install(KeyRing(left, self.keys.active))

    def _install(self, keys: KeyRing) -> None:
        self.keys = keys
        self.stored = False
