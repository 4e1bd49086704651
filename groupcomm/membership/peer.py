"""The peers: the knowledge of a daemon about each other one, in its view or not.

Of each daemon one start counts; see failure_detector.py.
"""

from collections.abc import Set
from functools import lru_cache
from math import inf
from typing import Final

import attrs

from groupcomm.config.versions import Versions
from groupcomm.config.view import Incarnation
from groupcomm.errors import ProtocolViolation
from groupcomm.names import daemon_number
from groupcomm.security.layout import ReplayWindow
from groupcomm.wire.membership import Beacon, Commit, ControlMessage, Heard, Join, Settings

HEARSAY_S: Final = 2.0
"""Messages of others about a daemon are forgotten after this time without news. Messages that a
daemon has sent before it left arrive within this time."""

MOST_OVER: Final = 4
"""The starts of one daemon that are remembered to be over. Late datagrams of an earlier one would
end one view more: they are seconds old at most, and no daemon starts that often meanwhile."""

_NOTHING: Final = (0, -inf)

Key = tuple[int, int]
"""(number, random id) of a daemon."""

Row = frozenset[Key]

row_of = lru_cache(maxsize=512)(frozenset[Key])
"""Returns the row of a list: the same list comes again and again, and from many daemons."""


@attrs.frozen(kw_only=True)
class PeerStatus:
    """Another daemon, in its latest start.

    Attributes:
        name: its announced or listed name; None without one.
        heard_at: the time of its own latest datagram, or until which its view says that it is
            there; -inf if none came.
        left: whether it has left in order.
        reading: the physical time at which its latest join was sent, in microseconds; None without
            one.
        joined_at: the time at which that join came.
        advised: its advised settings, key and values.
    """

    name: str | None
    heard_at: float
    left: bool
    reading: int | None
    joined_at: float
    advised: tuple[tuple[str, tuple[str, ...]], ...]


class PeerDaemon:
    """One other daemon, in its latest start.

    Attributes:
        number: its daemon number, which follows from its name.
        name: its name in its joins or in the list; None without one.
        incarnation: the start that counts.
        heard_at: the time of its latest own datagram; -inf if none came.
        vouched_at: the time up to which a view that has ended says that it was there, though it
            sent no beacons here; -inf if none does (vouched.py).
        heard_from: the time since which it is heard without a break; -inf if it never was.
        clone_at: the time of the latest datagram of another start of it that did not count.
        left: whether it has left in order.
        left_sequence, left_reported_at: the sequence of the message by which others reported that
            it left, -1 without one, and its time.
        met: whether this start itself was heard, and not only reported by others.
        strange: whether to check it when it is heard next: it was not met, or it is left out.
        over: the random ids of its latest starts that were heard, and gave way to another one.
        passed_on_at: the time at which others last passed on a message of it; -inf if never.
        mentioned_at: the time at which others last passed on a part of one; -inf if never.
        said_at: the time of its latest own message; -inf if none came.
        spoke_at: the time of its latest own join, commit or beacon, or report of links.
        sequences: the highest sequence of its messages, by kind, and its time; joins,
            commits, beacons and links with lower ones are stale.
        seen, passed_on: sequences of its messages that were accepted, from itself and from others,
            and passed on if they had to be.
        join, join_at: its latest join and the time of its arrival.
        versions: the versions of the protocol that it speaks; None before its first join.
        heard_list_at: the time of a join with the daemons that it heard then.
        commit: its latest commit.
        beacon, beacon_at: its latest beacon and the time of its arrival.
        streak: the number of its latest beacons in a row that say that it hears this daemon.
        digests, digests_at: the digests of its shared settings, and the time of their latest
            announcement; None before that.
        differs: whether its required settings differ, so that it forms no view with this daemon.
        settings: its announced settings; None if it announced none.
        answered_at: the time at which it was last answered with a beacon.
        ignored_until: the time before which no view begins because it is heard.
        backoff_s: the time for which it is ignored when the next view comes out without it.
        half_heard_since: the time since which it hears some members of the view only; inf if it
            hears all.
        kept_waiting_since: the time since which a view with it waits for disks of members; inf if
            none does.
    """

    __slots__ = (
        "_beacon_heard",
        "_beacon_row",
        "_heard",
        "_row",
        "answered_at",
        "backoff_s",
        "beacon",
        "beacon_at",
        "clone_at",
        "commit",
        "differs",
        "digests",
        "digests_at",
        "half_heard_since",
        "heard_at",
        "heard_from",
        "heard_list_at",
        "ignored_until",
        "incarnation",
        "join",
        "join_at",
        "kept_waiting_since",
        "left",
        "left_reported_at",
        "left_sequence",
        "mentioned_at",
        "met",
        "name",
        "number",
        "over",
        "passed_on",
        "passed_on_at",
        "said_at",
        "seen",
        "sequences",
        "settings",
        "spoke_at",
        "strange",
        "streak",
        "versions",
        "vouched_at",
    )

    def __init__(
        self, number: int, name: str | None, incarnation: Incarnation, *, met: bool = True
    ) -> None:
        self.number = number
        self.name = name
        self.backoff_s = 0.0
        self.ignored_until = -inf
        self.over: tuple[int, ...] = ()
        self.restart(incarnation, met=met)

    def precedes(self, incarnation: Incarnation) -> bool:
        """Return whether another start is later than the one that counts."""
        later = incarnation.restarts > self.incarnation.restarts
        return later and incarnation.random_id not in self.over

    def restart(self, incarnation: Incarnation, *, met: bool = True) -> None:
        """Reset to another start, which was met or heard of: all known facts are of the old one."""
        self.incarnation = incarnation
        self.met = met
        self.strange = not met
        self.passed_on_at = self.mentioned_at = self.said_at = self.spoke_at = -inf
        self.heard_at = self.heard_from = self.clone_at = self.vouched_at = -inf
        self.left = False
        self.left_sequence, self.left_reported_at = -1, -inf
        self.sequences: dict[tuple[type, bool], tuple[int, float]] = {}
        self.seen = ReplayWindow()
        self.passed_on = ReplayWindow()
        self.join: Join | None = None
        self._heard: Heard = ()
        self._row: Row = frozenset()
        self._beacon_heard: Heard = ()
        self._beacon_row: Row = frozenset()
        self.join_at = self.heard_list_at = -inf
        self.versions: Versions | None = None
        self.commit: Commit | None = None
        self.beacon: Beacon | None = None
        self.beacon_at = -inf
        self.streak = 0
        self.answered_at = -inf
        self.digests: bytes | None = None
        self.digests_at = -inf
        self.differs = False
        self.settings: Settings | None = None
        self.kept_waiting_since = self.half_heard_since = inf

    @property
    def is_left_out(self) -> bool:
        """Return whether it was heard, and is ignored until it is met anew."""
        return self.met and self.strange

    @property
    def label(self) -> str:
        """Return its name for operators, or its number while it has none."""
        return self.name or f"daemon {self.number:x}"

    def set_name(self, name: str) -> None:
        """Note its name, as it says; raise ProtocolViolation if its number is of another one."""
        if daemon_number(name) != self.number:
            raise ProtocolViolation("name", f"daemon {self.number:x} calls itself {name!r}")
        self.name = name

    def leave(self, sequence: int, now: float, *, own: bool) -> None:
        """Note that it has left; if only others say so, it may be heard again."""
        self.left, self.left_sequence, self.left_reported_at = True, -1 if own else sequence, now
        self.strange |= not own
        self.join = None

    def retract_leave(self) -> None:
        """Note that it is there: others were wrong to say that it had left."""
        if self.left_sequence >= 0:
            self.left, self.left_sequence = False, -1

    def on_passed_on(self, sequence: int, now: float) -> None:
        """Note that others have passed on a message of it that had not come before.

        A daemon that has left sends nothing more, and earlier messages are not that long on their
        way. So the daemon that has said that it left has lied, in spite of the sequence.
        """
        if sequence > self.left_sequence or now > self.left_reported_at + HEARSAY_S:
            self.retract_leave()

    def forget_passed_on(self) -> None:
        """Forget the messages that others have passed on."""
        self.retract_leave()
        self.passed_on = ReplayWindow()
        self.sequences = {key: seq for key, seq in self.sequences.items() if key[1]}

    def leave_out(self) -> None:
        """Ignore it until it is met anew; its sequences then begin anew, too."""
        self.heard_at = self.vouched_at = self.join_at = self.said_at = self.spoke_at = -inf
        self.join, self.strange = None, True
        self.seen = ReplayWindow()
        self.sequences = {key: seq for key, seq in self.sequences.items() if not key[1]}

    def is_latest(self, message: ControlMessage, sequence: int, now: float, *, own: bool) -> bool:
        """Return whether no later message of its kind has come; if so it counts from now on.

        A message that others pass on does not count against its own messages. After a while it does
        not count against messages that others pass on later, either: its sequence may be a lie.
        """
        kind = type(message)
        latest, _ = self.sequences.get((kind, True), _NOTHING)
        if not own:
            told, told_at = self.sequences.get((kind, False), _NOTHING)
            if now <= told_at + HEARSAY_S:
                latest = max(latest, told)
        if sequence <= latest:
            return False
        self.sequences[kind, own] = sequence, now
        if own:
            self.spoke_at = now
        return True

    def note_join(self, join: Join, now: float) -> bool:
        """Note a join; return whether it says anything new.

        A join that is repeated after the commit, for daemons that may not have it, is of the past:
        a daemon that was heard then may not be heard any more, and needs messages passed on.
        """
        known = self.join
        self.join, self.join_at = join, now
        self.versions = join.versions
        news = known is None or (
            (known.attempt, known.heard, known.mark) != (join.attempt, join.heard, join.mark)
        )
        if news or self.commit is None or self.commit.attempt != join.attempt:
            self.heard_list_at = now
        return news

    @property
    def key(self) -> tuple[int, int]:
        """Return its entry in the lists of the daemons that hear it."""
        return self.number, self.incarnation.random_id

    @property
    def row(self) -> Row:
        """Return the daemons that its latest join says that it hears; none without a join."""
        heard = () if self.join is None else self.join.heard
        if heard is not self._heard:
            self._heard, self._row = heard, row_of(heard)
        return self._row

    @property
    def beacon_row(self) -> Row:
        """Return the daemons that its latest beacon says that it hears; none without a beacon."""
        heard = () if self.beacon is None else self.beacon.heard
        if heard is not self._beacon_heard:
            self._beacon_heard, self._beacon_row = heard, row_of(heard)
        return self._beacon_row

    def hears(self, key: tuple[int, int], since: float) -> bool:
        """Return whether its latest join or beacon says that it hears a daemon."""
        if self.heard_list_at >= since and key in self.row:
            return True
        return self.beacon_at >= since and key in self.beacon_row

    def unheard(self, keys: Set[tuple[int, int]], since: float) -> Set[tuple[int, int]]:
        """Return those of these daemons that it does not say to hear; see `hears`."""
        left = keys - self.row if self.heard_list_at >= since else keys
        if left and self.beacon_at >= since:
            left = left - self.beacon_row
        return left

    def status(self, heard_at: float) -> PeerStatus:
        """Return the facts for operators, with the time at which it was heard."""
        return PeerStatus(
            name=self.name,
            heard_at=heard_at,
            left=self.left,
            reading=None if self.join is None else self.join.reading,
            joined_at=self.join_at,
            advised=() if self.settings is None else self.settings.advised,
        )
