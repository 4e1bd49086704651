"""Rotation: another key seals from one position of the agreed order on, an old one is erased.

Pure. Daemons that have more than one key report which ones, in messages of the agreed order, anew
in every view. So at each position all members of a view know the same, and decide alike:

    SILENT --- a second key, or a report ---> REPORTED --- all have, and open it ---> all seal so
       ^                                         |
       +---------------- a view -----------------+

The key to seal with is the highest that any member seals with, or wishes all to. So parts of a
cluster that were apart meanwhile agree when they meet, without anybody's help.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import attrs

from groupcomm.errors import LocalProtocolError
from groupcomm.security.keys import KeyRing
from groupcomm.wire.keys import FINGERPRINT_BYTES, MAX_EVICTED, KeyReport

_PERSON: Final = b"groupcomm keys"


def fingerprint_of(key: bytes) -> bytes:
    """Tells keys apart, and nothing else about them."""
    return hashlib.blake2b(key, digest_size=FINGERPRINT_BYTES, person=_PERSON).digest()


class Rotation:
    """One daemon's part.

    Attributes:
        keys: that it has now; `active` of them seals.
        stored: the key file holds them; the owner sets it once it does.
        reports: of the members of the view, by name; None of those that have said nothing.
        evicted: fingerprints of identities that count no more; the owner sets it, and they are told
            with the keys.
    """

    __slots__ = ("_me", "_retires", "_said", "_wish", "evicted", "keys", "reports", "stored")

    def __init__(self, keys: KeyRing, me: str) -> None:
        self.keys = keys
        self.stored = True
        self._me = me
        self._wish = keys.active
        self._retires: int | None = None
        self._said = False  # in this view
        self.reports: dict[str, KeyReport | None] = {}
        self.evicted: tuple[bytes, ...] = ()

    # ---- what is said ----

    def begin(self, members: Sequence[str]) -> KeyReport | None:
        """A view begins; what to say in it, if there is anything to say."""
        self.reports = dict.fromkeys(members)
        self._said = False
        return self.report() if len(self.keys.keys) > 1 or self.evicted else None

    def report(self) -> KeyReport:
        """Say how it stands here."""
        self._said = True
        return self.here()

    def here(self) -> KeyReport:
        """What there is to tell of this daemon."""
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
        """The key file has changed: open with what it holds, seal as before; then report.

        Raises:
            LocalProtocolError: the key that seals is not in it, or is another one there.
        """
        active = self.keys.active
        if keys.keys.get(active) != self.keys.keys[active]:
            raise LocalProtocolError(
                f"key {active} seals, and the file lacks it, or has another key of that number:"
                " put it back; groupcomm keys retire takes keys out"
            )
        self.keys = KeyRing(keys.keys, active)

    def promote(self, number: int) -> KeyReport:
        """Wish that all seal with a key from now on.

        Raises:
            LocalProtocolError: it is not newer than the present one, or not all members have it.
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
        """Wish that all erase a key.

        Raises:
            LocalProtocolError: somebody seals with it, or has not told.
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

    # ---- what is heard ----

    def on_report(self, name: str, report: KeyReport) -> KeyReport | None:
        """A member has reported, at the present position of the agreed order.

        Returns:
            What to say to it, as this daemon has said nothing yet in this view.
        """
        self.reports[name] = report
        reports = [each for each in self.reports.values() if each is not None]
        if len(reports) == len(self.reports):
            self._agree(reports)
        return None if self._said else self.report()

    def _agree(self, reports: Sequence[KeyReport]) -> None:
        """All have told: what follows from it is the same at all of them."""
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
            self._take(KeyRing(self.keys.keys, number))

    def _erase(self, number: int) -> None:
        for name, report in self.reports.items():
            if report is not None:
                prints = tuple(each for each in report.prints if each[0] != number)
                self.reports[name] = attrs.evolve(report, retires=None, prints=prints)
        self._retires = None
        if number in self.keys.keys:
            left = {key: secret for key, secret in self.keys.keys.items() if key != number}
            self._take(KeyRing(left, self.keys.active))

    def _take(self, keys: KeyRing) -> None:
        self.keys = keys
        self.stored = False
