"""Reach: which daemons want what is sent to which groups, and what may stay in the own ring.

A daemon's word counts as soon as it is received, ahead of the agreed order: it subscribes before
its first join, and joins only once all know (docs/pruning.md). Private messages need no word, as
the name of the target says at which daemon it is.
"""

from collections.abc import Iterable

from groupcomm.config.view import View
from groupcomm.groups.announcement import Announcement
from groupcomm.wire.bundle import Bundle, BundleKind

_FRAGMENT = BundleKind.FRAGMENT


class Reach:
    """The subscriptions of one view, as one daemon knows them.

    Only what daemons of other rings want is kept, and only while they want it: a group of which
    nothing is kept stays, so to forget what is over changes nothing.
    """

    __slots__ = ("_elsewhere", "_remote_subscribers", "_ring_daemons")

    def __init__(self, view: View, me: int) -> None:
        """Begin without any."""
        self._ring_daemons = frozenset(view.rings[view.ring_of[me]])
        daemons = enumerate(view.daemons)
        self._elsewhere = frozenset(d.name for at, d in daemons if at not in self._ring_daemons)
        # By group, the daemons of other rings that want it.
        self._remote_subscribers: dict[str, set[int]] = {}

    def begin(self, announcements: dict[int, Announcement]) -> None:
        """Enter the groups with which daemons come into the view."""
        for daemon, announced in announcements.items():
            for group, _ in announced.groups:
                self.subscribe(daemon, group)

    def subscribe(self, daemon: int, group: str) -> None:
        """A daemon wants what is sent to a group."""
        if daemon not in self._ring_daemons:
            self._remote_subscribers.setdefault(group, set()).add(daemon)

    def unsubscribe(self, daemon: int, group: str) -> None:
        """A daemon has no members of a group any more, and none that is about to join."""
        daemons = self._remote_subscribers.get(group)
        if daemons is not None:
            daemons.discard(daemon)
            if not daemons:
                del self._remote_subscribers[group]

    def is_local_only(self, bundle: Bundle) -> bool:
        """Whether nobody outside the own ring is a recipient of this bundle of messages."""
        return bundle.kind <= _FRAGMENT and not any(map(self._leaves, bundle.groups))

    def all_local_only(self, bundles: Iterable[Bundle]) -> bool:
        """Whether all of them stay."""
        return all(map(self.is_local_only, bundles))

    def _leaves(self, group: str) -> bool:
        if group[0] != "#":
            return group in self._remote_subscribers
        return group.rpartition("#")[2] in self._elsewhere
