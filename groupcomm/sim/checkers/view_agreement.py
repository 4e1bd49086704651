"""Checks of the agreement of members when a view ends: V1, O5, D6, S1, S2, S3 and G1."""

from groupcomm.sim.checkers.places import (
    PacketBundle,
    SafeRecord,
)
from groupcomm.sim.checkers.records import (
    Stay,
    ViewRecord,
)
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.state import ObservedState
from groupcomm.trace.events import Conf, Quiet, Release, Stamped

_AGREED, _SAFE = 4, 5
_CONNECT = 2


class Together:
    """A checker of sets of releases, by hashes and counts over many daemons at once."""

    def __init__(self, state: ObservedState, report: Report) -> None:
        self._state = state
        self._report = report

    def released(
        self,
        stay: Stay,
        key: PacketBundle,
        author: str | None,
        event: Release,
        *,
        first: bool,
        early: bool,
    ) -> None:
        """Note the first release here of a bundle above UNRELIABLE.

        Args:
            stay: the daemon.
            key: the bundle.
            author: the daemon that has numbered it; None if that is unknown.
            event: the release.
            first: whether nobody has released it before.
            early: whether it is a SAFE one that only its ring is known to hold.
        """
        view = stay.view
        mark = view.places[key].mark
        stay.released ^= mark
        regular = stay.part.regular
        if event.level >= _AGREED:
            if regular and len(stay.blocks) > 1 and event.kind < _CONNECT:
                stay.released_inner[event.ring] = stay.released_inner.get(event.ring, 0) ^ mark
            elif regular:
                stay.released_agreed ^= mark
            if event.level == _SAFE:
                self._safe(stay, key, event, early=early)
        if not regular:
            self._check_held(stay, event)
        if author is None:
            unknown = view.unauthored.setdefault((event.ring, event.number), {})
            unknown.setdefault(key, []).append(stay)
            return
        stay.by_author[author] = stay.by_author.get(author, 0) + 1
        if first:
            view.authored[author] = view.authored.get(author, 0) + 1
            for other in view.left:
                if other.transitional_members is not None and author in other.transitional_members:
                    self._lacks(other, author, event)

    def stamped(self, event: Stamped, stay: Stay) -> None:
        """Note the author of bundles that were released, against the rules, before it was known."""
        view, author = stay.view, event.p
        for releasers in view.unauthored.pop((event.ring, event.number), {}).values():
            view.authored[author] = view.authored.get(author, 0) + 1
            for one in releasers:
                one.by_author[author] = one.by_author.get(author, 0) + 1
            for other in set(view.left) - set(releasers):
                if other.transitional_members is not None and author in other.transitional_members:
                    self._lacks(other, author, event)

    def _lacks(self, stay: Stay, author: str, event: Release | Conf | Stamped) -> None:
        which = "D6" if author == stay.process.identity else "O5"
        text = f"{stay} goes on from {stay.view.text} without a bundle of {author}"
        self._report.add(which, text, event)

    def _check_held(self, stay: Stay, event: Release) -> None:
        """Check S3: all transitional members hold the released packet."""
        view, number, ring = stay.view, event.number, event.ring
        known = number in view.streams[ring].packets
        for index in stay.transitional_members or ():
            other = view.stays[index]
            if not known or (number > other.prefix[ring] and number not in other.early[ring]):
                self._report.add(
                    "S3", f"{stay} releases packet {number} of ring {ring}, {other} lacks it", event
                )
                return

    # ---- SAFE ----

    def _safe(self, stay: Stay, key: PacketBundle, event: Release, *, early: bool) -> None:
        view = stay.view
        safe = view.safes.get(key)
        if safe is None:
            safe = view.safes[key] = SafeRecord()
        safe.members |= stay.bit
        if safe.regular and safe.ring in (None, stay.ring):
            stay.safe_count += 1
        if not stay.part.regular:
            self._safe_late(stay, key, safe, event)
            return
        if len(view.stays) < len(view.members):
            self._report.add("S2", f"{stay} passes SAFE, and not all are in its view", event)
        if not safe.regular:
            safe.regular, safe.ring = True, event.ring if early else None
            self._require(view, key, safe, event)
        if safe.members == (1 << len(view.members)) - 1:
            del view.safes[key]

    def _require(
        self, view: ViewRecord, key: PacketBundle, safe: SafeRecord, event: Release
    ) -> None:
        """Require a SAFE bundle of all daemons, or of those of its ring."""
        rings = range(len(view.rings)) if safe.ring is None else (safe.ring,)
        for ring in rings:
            view.safe_counts[ring] += 1
        for other in view.stays.values():
            if other.ring in rings and safe.members & other.bit:
                other.safe_count += 1
        for other in view.left:
            if other.ring in rings and not safe.members & other.bit:
                self._report.add("S1", f"{other} has left its view without SAFE {key}", event)

    def _safe_late(self, stay: Stay, key: PacketBundle, safe: SafeRecord, event: Release) -> None:
        view, transitional_members = stay.view, stay.transitional_members
        assert transitional_members is not None
        _, late = view.safe_late.setdefault(stay.next, (transitional_members, {}))
        late[key] = None
        for other in view.left:
            if other.process.identity in transitional_members and not safe.members & other.bit:
                self._report.add("S3", f"{other} has left its view without SAFE {key}", event)

    def _check_safe(self, stay: Stay, event: Conf) -> None:
        view = stay.view
        if stay.safe_count < view.safe_counts[stay.ring]:
            self._report.add("S1", f"{stay} leaves its view without a SAFE bundle", event)
        for transitional_members, late in view.safe_late.values():
            if stay.process.identity in transitional_members:
                for key in late:
                    safe = view.safes.get(key)
                    if safe is not None and not safe.members & stay.bit:
                        self._report.add("S3", f"{stay} leaves its view without SAFE {key}", event)

    # ---- ends ----

    def left(self, stay: Stay, event: Conf) -> None:
        """Check the releases of a daemon when it continues from a view to the next."""
        view = stay.view
        assert stay.transitional_members is not None
        for author in stay.transitional_members:
            if view.authored.get(author, 0) != stay.by_author.get(author, 0):
                self._lacks(stay, author, event)
        self._check_safe(stay, event)
        end = (stay.released, stay.released_agreed, stay.tables, stay.complete)
        first = view.ends.setdefault(stay.next, end)
        if (first[0], first[1], first[3]) != (end[0], end[1], end[3]):
            what = "part of the view" if first[0] == end[0] else "bundles"
            if first[3] != end[3]:
                what = "knowledge of the groups"
            self._report.add("V1", f"{stay} leaves {view.text} with other {what}", event)
        for ring in range(len(stay.blocks)):
            key, inner = (stay.next, ring, ring == stay.ring), stay.released_inner.get(ring, 0)
            if view.inner_ends.setdefault(key, inner) != inner:
                text = f"{stay} leaves {view.text} with other agreed messages of ring {ring}"
                self._report.add("V1", text, event)
        if first[2] != end[2]:
            text = (
                f"{stay} has changed its group tables in {view.text} where its transitional "
                "members have not"
            )
            self._report.add("G1", text, event)
        view.left.append(stay)

    def quiet(self, event: Quiet) -> None:
        """Check R and G1: all daemons of the core have released the same of their last view."""
        firsts: dict[ViewRecord, Stay] = {}
        for process in self._state.final:
            stay = process.stay
            if stay is None:
                continue
            first = firsts.setdefault(stay.view, stay)
            if first.released != stay.released:
                self._report.add("R", f"{first} and {stay} have not released the same", event)
            if first.tables != stay.tables:
                self._report.add(
                    "G1", f"{first} and {stay} have changed their tables elsewhere", event
                )
