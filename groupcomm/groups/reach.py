"""Reach: which daemons want what is sent to which groups, and what may stay in the own ring.

A daemon's word counts as soon as it is received, ahead of the agreed order: it subscribes before
its first join, and joins only once all know (docs/pruning.md). Private messages need no word, as
the name of the target says at which daemon it is.
"""

from collections.abc import Iterable

from groupcomm.config.view import View
from groupcomm.groups.announcement import Announcement
from groupcomm.names import split_private
from groupcomm.wire.bundle import Bundle, BundleKind

_FRAGMENT = BundleKind.FRAGMENT


class Reach:
    """The subscriptions of one view, as one daemon knows them."""

    __slots__ = ("_fellows", "_inside", "_names", "_subscribed")

    def __init__(self, view: View, me: int) -> None:
        """Begin without any."""
        self._fellows = frozenset(view.rings[view.ring_of[me]])
        self._names = {daemon.name: at for at, daemon in enumerate(view.daemons)}
        self._subscribed: dict[str, set[int]] = {}
        self._inside: dict[str, bool] = {}  # found once, until the group's subscribers change

    def begin(self, announcements: dict[int, Announcement]) -> None:
        """Enter the groups with which daemons come into the view."""
        for daemon, announced in announcements.items():
            for group, _ in announced.groups:
                self.subscribe(daemon, group)

    def subscribe(self, daemon: int, group: str) -> None:
        """A daemon wants what is sent to a group."""
        self._subscribed.setdefault(group, set()).add(daemon)
        self._inside.pop(group, None)

    def unsubscribe(self, daemon: int, group: str) -> None:
        """A daemon has no members of a group any more, and none that is about to join."""
        self._subscribed.get(group, set()).discard(daemon)
        self._inside.pop(group, None)

    def stays(self, bundle: Bundle) -> bool:
        """Whether nobody outside the own ring is a recipient of this bundle of messages."""
        return bundle.kind <= _FRAGMENT and all(map(self._is_inside, bundle.groups))

    def all_stay(self, bundles: Iterable[Bundle]) -> bool:
        """Whether all of them stay."""
        return all(map(self.stays, bundles))

    def _is_inside(self, group: str) -> bool:
        inside = self._inside.get(group)
        if inside is None:
            inside = self._inside[group] = self._find(group)
        return inside

    def _find(self, group: str) -> bool:
        if group[0] != "#":
            return self._subscribed.get(group, set()) <= self._fellows
        daemon = self._names.get(split_private(group)[1])
        return daemon is None or daemon in self._fellows
