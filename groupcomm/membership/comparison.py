"""Comparison: finds the daemons whose settings differ from those of this daemon.

Pure. ``now`` is in seconds. Joins and beacons carry digests of their sender's shared settings
(config/shared.py). A daemon is left out if its required settings differ: it counts as not heard,
its messages about views are dropped, and no daemon begins a view for it. Both sides then flood
their settings now and then, so that each can name the differences. These messages are passed on
also to daemons that the receiver does not list, and so reach those that refuse the sender's
datagrams.
"""

import enum
from collections.abc import Mapping
from math import inf
from typing import Final, TypeAlias

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.config.shared import Difference, differences, must_equal, shared_settings
from groupcomm.config.view import Start, View
from groupcomm.membership.flood import Flood
from groupcomm.membership.peer import PeerDaemon
from groupcomm.wire.membership import (
    Beacon,
    Commit,
    ControlMessage,
    Join,
    Links,
    RosterNotice,
    Settings,
)
from groupcomm.wire.roster import encode_roster

FIRST_INTERVAL_S: Final = 1.0
LONGEST_INTERVAL_S: Final = 20.0
"""Between two times that a daemon tells its settings: longer and longer, while any differ."""

NOTICE_INTERVAL_S: Final = 0.1
"""The least time between two notices of the roster: a daemon with another one is news."""

SILENT_S: Final = 10.0
"""After this silence a daemon that was heard directly is not compared any more."""

MAX_BEHIND: Final = 256
"""The most daemons that are noted as having an earlier roster; more are answered later."""

FORGOTTEN_S: Final = 3 * LONGEST_INTERVAL_S
"""The same time for a daemon whose messages others pass on."""

OfViews: TypeAlias = Join | Beacon | Commit | Links


class Verdict(enum.Enum):
    """The settings that count: those that more daemons have."""

    OURS = enum.auto()
    THEIRS = enum.auto()
    OPEN = enum.auto()  # both sides have the same number of daemons


@attrs.frozen(kw_only=True)
class OtherConfiguration:
    """One configuration that differs from this daemon's.

    Attributes:
        daemons: the names of the daemons with this configuration, sorted; numbers of those without
            a known name.
        alike: the names of the other daemons with this daemon's configuration, sorted.
        excludes: whether required settings differ, so that they form no view with this daemon.
        verdict: whose settings count.
        differences: the settings that differ; empty until one of the daemons has told its own.
    """

    daemons: tuple[str, ...]
    alike: tuple[str, ...]
    excludes: bool
    verdict: Verdict
    differences: tuple[Difference, ...]


class Comparison:
    """Compares the settings of one daemon with those of all that it hears of.

    Attributes:
        digests: the digests of this daemon's settings.
        due: the time at which `step` is due; inf if no daemon differs.
    """

    __slots__ = (
        "_behind",
        "_flood",
        "_former",
        "_interval_s",
        "_may_tell",
        "_name",
        "_notice",
        "_notified_at",
        "_own",
        "_peers",
        "_sent_at",
        "digests",
        "due",
    )

    def __init__(
        self, config: CoreConfig, start: Start, flood: Flood, peers: Mapping[int, PeerDaemon]
    ) -> None:
        self._name = start.name
        self._flood = flood
        self._peers = peers
        self._interval_s = FIRST_INTERVAL_S
        self._behind = set[str]()  # daemons that have sent a roster which this one supersedes
        self._sent_at = self._notified_at = -inf
        self._may_tell = True  # the roster, to those that lack it
        self.due = inf
        self._adopt(config)

    def _adopt(self, config: CoreConfig) -> None:
        self._own = shared_settings(config)
        self.digests = self._own.digests
        roster = config.agreed
        self._notice = (
            None if roster is None else RosterNotice(self._name, True, encode_roster(roster))
        )
        self._former = frozenset(config.former)

    @property
    def has_roster(self) -> bool:
        """Return whether this daemon uses a roster that the cluster has agreed on."""
        return self._notice is not None

    def use_config(self, config: CoreConfig, now: float) -> None:
        """Compare with these settings, with another roster, from now on."""
        self._adopt(config)
        for peer in self._peers.values():
            if peer.digests is not None:
                self._compare(peer, peer.digests, now)

    def hold_roster(self) -> None:
        """Tell nobody the roster that counts, as the disk does not hold it yet."""
        self._may_tell = False

    def tell_roster(self, now: float) -> None:
        """Tell the roster that counts from now on to those that lack it."""
        if not self._may_tell:
            self._may_tell = True
            self.due = min(self.due, max(now, self._notified_at + NOTICE_INTERVAL_S))

    # ---- messages of others ----

    def admits(self, peer: PeerDaemon, message: ControlMessage, now: float) -> bool:
        """Note the settings in a message; return whether the message is to be processed further.

        Raises:
            ProtocolViolation: its name is not that of its sender.
        """
        if isinstance(message, Join | Beacon | Settings):
            if not isinstance(message, Beacon):
                peer.set_name(message.name)
            self._note(peer, message.digests, now)
        if isinstance(message, Settings):
            peer.settings = message
            return False
        if isinstance(message, RosterNotice):
            peer.set_name(message.name)
        return not (peer.differs and isinstance(message, OfViews))

    def _note(self, peer: PeerDaemon, digests: bytes, now: float) -> None:
        peer.digests_at = now
        is_news = digests != peer.digests
        if is_news:
            peer.digests, peer.settings = digests, None
        if is_news or (digests != self.digests and self.due == inf):
            self._compare(peer, digests, now)

    def _compare(self, peer: PeerDaemon, digests: bytes, now: float) -> None:
        """Compare a daemon's digests with the own ones, which are new to each other."""
        peer.differs = must_equal(digests) != must_equal(self.digests)
        if peer.differs:
            peer.join = peer.commit = peer.beacon = None
        if digests != self.digests:
            self._interval_s = FIRST_INTERVAL_S
            self.due = min(self.due, max(now, self._sent_at + FIRST_INTERVAL_S))
        if peer.differs and self._notice is not None:
            self.due = min(self.due, max(now, self._notified_at + NOTICE_INTERVAL_S))

    def on_superseded_roster(self, peer: PeerDaemon, now: float) -> None:
        """Send the own roster to a daemon that has sent an earlier one, or one that gives way.

        Nothing else may come from it here: its roster may not have this daemon.
        """
        if peer.name is not None and len(self._behind) < MAX_BEHIND:
            self._behind.add(peer.name)
            self.due = min(self.due, max(now, self._notified_at + NOTICE_INTERVAL_S))

    # ---- messages of this daemon ----

    def step(self, now: float) -> None:
        """Send this daemon's settings and roster to the others; call it at `due`."""
        others = [peer for peer in self._peers.values() if self._is_other(peer, now)]
        different = {peer.name for peer in others if peer.name is not None}
        if self._notice is not None and self._may_tell:
            if self._behind or any(peer.differs for peer in others):
                self._send_notice(different | self._behind, now)
            self._behind.clear()
        if not others:
            self.due = inf
            return
        if now < self._sent_at + FIRST_INTERVAL_S:
            self.due = self._sent_at + FIRST_INTERVAL_S
            return
        own = self._own
        self._flood.send_all(Settings(self._name, own.digests, own.required, own.advised))
        self._sent_at, self.due = now, now + self._interval_s
        self._interval_s = min(2 * self._interval_s, LONGEST_INTERVAL_S)

    def _send_notice(self, others: set[str], now: float) -> None:
        """Send the roster to all that lack it; also to those that it does not have any more."""
        assert self._notice is not None
        self._notified_at = now
        self._flood.send_all(self._notice)
        for name in sorted(others & self._former):
            self._flood.send_to(name, self._notice)

    # ---- results ----

    def others(self, view: View | None, now: float) -> list[OtherConfiguration]:
        """Return the configurations that differ from this daemon's, one entry for each.

        Args:
            view: the present one; its members run with settings that form views with this daemon.
            now: seconds.
        """
        members = frozenset() if view is None else view.numbers
        groups: dict[bytes, list[PeerDaemon]] = {}
        for peer in self._peers.values():
            if self._is_known(peer, now) or (peer.number in members and peer.digests is not None):
                assert peer.digests is not None
                groups.setdefault(peer.digests, []).append(peer)
        alike = groups.pop(self.digests, [])
        return [self._other(found, alike, groups) for _, found in sorted(groups.items())]

    def _other(
        self,
        found: list[PeerDaemon],
        alike: list[PeerDaemon],
        groups: Mapping[bytes, list[PeerDaemon]],
    ) -> OtherConfiguration:
        excludes = found[0].differs
        ours, theirs = 1 + len(alike), len(found)
        if excludes:  # advised settings do not keep daemons out of one view
            half = must_equal(found[0].digests or b"")
            ours = 1 + sum(len(g) for g in (alike, *groups.values()) if g and not g[0].differs)
            theirs = sum(len(g) for digests, g in groups.items() if must_equal(digests) == half)
        told = next((peer.settings for peer in found if peer.settings is not None), None)
        differ = () if told is None else self._differences(told, excludes=excludes)
        return OtherConfiguration(
            daemons=_names(found),
            alike=_names(alike),
            excludes=excludes,
            verdict=_verdict(ours, theirs),
            differences=differ,
        )

    def _differences(self, told: Settings, *, excludes: bool) -> tuple[Difference, ...]:
        if excludes:
            return differences(self._own.required, told.required)
        return differences(self._own.advised, told.advised)

    def _is_other(self, peer: PeerDaemon, now: float) -> bool:
        return peer.digests != self.digests and self._is_known(peer, now)

    def _is_known(self, peer: PeerDaemon, now: float) -> bool:
        """Return whether a daemon has told its digests and seems to be still running."""
        if peer.left or peer.digests is None:
            return False
        timeout_s = SILENT_S if peer.heard_at > -inf else FORGOTTEN_S
        return max(peer.digests_at, peer.heard_at) >= now - timeout_s


def _names(peers: list[PeerDaemon]) -> tuple[str, ...]:
    return tuple(sorted(peer.name or f"{peer.number:x}" for peer in peers))


def _verdict(ours: int, theirs: int) -> Verdict:
    if ours == theirs:
        return Verdict.OPEN
    return Verdict.OURS if ours > theirs else Verdict.THEIRS
