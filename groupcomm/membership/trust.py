"""Trust: a daemon that breaks the protocol is left out for a while.

Pure. ``now`` is in seconds. Each daemon relies on its own observations: the statements of others
about a member do not count, as they may be the broken ones. A daemon that is left out is not heard.
It comes back after a while that doubles with each time, and at once if it was started anew, as a
restart repairs most faults of a daemon.

A daemon whose packets do not arrive here, though tokens do, or which packets from here do not
reach over a link, is left out in the same way: that is no breach of the protocol, and nothing is
counted against it. The sole purpose is that the two come
into different views, or different rings of one.

No daemon is blamed for a contradiction: the statement that came first may be the wrong one. After a
few contradictions the view is over, and nothing of it counts any more.
"""

from collections import Counter, deque
from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Final

import attrs

from groupcomm.config.view import Incarnation
from groupcomm.errors import BadDatagram, Contradiction, ProtocolViolation, RemoteProtocolError
from groupcomm.membership.peer import PeerDaemon
from groupcomm.membership.states import GatherReason

FEW: Final = 3
WITHIN_S: Final = 5.0
"""After this many breaches within this time a daemon is left out, or the view is over."""

FIRST_S: Final = 1.0
LONGEST_S: Final = 60.0
"""The time for which a daemon is left out, at first and at most."""

MEMORY_S: Final = 120.0
"""After this time without a breach, since it came back, the past of a daemon is forgotten."""

TOLD_EVERY_S: Final = 10.0
"""The least time between two lines of the log about one daemon."""

MAX_NEWS: Final = 64
"""The most lines for the log that wait for the shell."""


class LeftOutDaemon:
    """A daemon that is not heard for a while, twice as long each time.

    Attributes:
        until: the time before which it is left out.
        incarnation: the start that is left out.
        lasts_s: the seconds for which it was left out last.
    """

    __slots__ = ("incarnation", "lasts_s", "until")

    def __init__(self) -> None:
        self.until = -inf
        self.incarnation: Incarnation | None = None
        self.lasts_s = 0.0

    def leave_out(self, incarnation: Incarnation, now: float) -> None:
        """Note that it is not heard for a while."""
        again = now < self.until + MEMORY_S
        self.lasts_s = min(2 * self.lasts_s, LONGEST_S) if again else FIRST_S
        self.until, self.incarnation = now + self.lasts_s, incarnation

    def is_heard(self, incarnation: Incarnation, now: float) -> bool:
        """Return whether datagrams of a start of it count now."""
        return now >= self.until or self.incarnation != incarnation


class BrokenDaemon(LeftOutDaemon):
    """A daemon that has broken the protocol.

    Attributes:
        counts: the number of its breaches, by kind.
    """

    __slots__ = ("_at", "_logged_at", "counts")

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self._at: deque[float] = deque(maxlen=FEW)
        self._logged_at = -inf

    def note_breach(self, now: float) -> bool:
        """Note a breach; return whether there were a few within a short time."""
        return _note(self._at, now)

    def leave_out(self, incarnation: Incarnation, now: float) -> None:
        """Note that it is not heard for a while."""
        super().leave_out(incarnation, now)
        self._at.clear()

    def should_log(self, now: float) -> bool:
        """Return whether the log should report it now."""
        if now < self._logged_at + TOLD_EVERY_S:
            return False
        self._logged_at = now
        return True


@attrs.frozen(kw_only=True)
class BrokenStatus:
    """A daemon that has broken the protocol.

    Attributes:
        name: its name, or its number if it has announced no name.
        counts: the number of its breaches, by kind.
        until: the time before which it is left out.
    """

    name: str
    counts: Mapping[str, int]
    until: float


class Trust:
    """The trust of one daemon in all others.

    Attributes:
        broken: the daemons that have broken the protocol, by number.
        not_received: the daemons whose packets did not arrive here, or which packets from here did
            not reach, by number.
        news: lines for the log, the oldest first.
    """

    __slots__ = ("_contradictions", "broken", "news", "not_received")

    def __init__(self) -> None:
        self.broken: dict[int, BrokenDaemon] = {}
        self.not_received: dict[int, LeftOutDaemon] = {}
        self.news: deque[str] = deque(maxlen=MAX_NEWS)
        self._contradictions: deque[float] = deque(maxlen=FEW)

    def status(self, peers: Mapping[int, PeerDaemon]) -> tuple[BrokenStatus, ...]:
        """Return the daemons that have broken the protocol; `peers` has their names."""
        return tuple(
            BrokenStatus(
                name=peers[number].label if number in peers else f"daemon {number:x}",
                counts=MappingProxyType(dict(broken.counts)),
                until=broken.until,
            )
            for number, broken in self.broken.items()
        )

    def on_breach(
        self, peer: PeerDaemon, error: RemoteProtocolError, now: float
    ) -> GatherReason | None:
        """Note a breach of the protocol; return a reason to look for another view, or None."""
        if isinstance(error, Contradiction):
            return GatherReason.CONTRADICTED if self.doubt(str(error), now) else None
        if not self.blame(peer, error, now):
            return None
        peer.leave_out()
        return GatherReason.MEMBER_BROKEN

    def blame(self, peer: PeerDaemon, error: RemoteProtocolError, now: float) -> bool:
        """Note that a daemon has broken the protocol; return whether it is left out from now on.

        A message that it has only passed on may be the fault of another daemon, and does not count.
        """
        if not isinstance(error, BadDatagram | ProtocolViolation):
            return False
        broken = self.broken.setdefault(peer.number, BrokenDaemon())
        broken.counts[error.reason] += 1
        name = peer.label
        if broken.should_log(now):
            self.news.append(
                f"{name} has broken the protocol ({error}; breaches so far:"
                f" {broken.counts.total()}): its message was dropped; check that it runs the same"
                " release as all others, and that its memory is sound"
            )
        if now < broken.until or not broken.note_breach(now):
            return False
        broken.leave_out(peer.incarnation, now)
        self.news.append(
            f"{name} is left out for {broken.lasts_s:g} s, as it breaks the protocol:"
            " restart it with the same release as all others; if that does not help, replace its"
            " host"
        )
        return True

    def leave_out_unreceived(self, peer: PeerDaemon, now: float) -> None:
        """Note that packets of a daemon do not arrive here: it counts as not heard for a while."""
        self._leave_out(peer, "packets from it do not arrive here", now)

    def leave_out_unreached(self, peer: PeerDaemon, now: float) -> None:
        """Note that packets from here do not reach a daemon: it counts as not heard for a while."""
        self._leave_out(peer, "packets from here do not reach it", now)

    def _leave_out(self, peer: PeerDaemon, reason: str, now: float) -> None:
        left_out = self.not_received.setdefault(peer.number, LeftOutDaemon())
        left_out.leave_out(peer.incarnation, now)
        peer.leave_out()
        self.news.append(
            f"{peer.label} is left out for {left_out.lasts_s:g} s, as {reason}, though short ones"
            " do: check network cards and switches between the two hosts for datagrams that are"
            " too long for them"
        )

    def doubt(self, text: str, now: float) -> bool:
        """Note a contradiction; return whether the view is over by it."""
        if not _note(self._contradictions, now):
            return False
        self._contradictions.clear()
        self.news.append(
            f"the view has ended, as statements of its daemons contradict each other ({text}): a"
            " new one follows; if this comes again, check releases and memory of all daemons"
        )
        return True

    def is_heard(self, number: int, incarnation: Incarnation, now: float) -> bool:
        """Return whether datagrams of a start of a daemon count now."""
        left_out = self.broken.get(number), self.not_received.get(number)
        return all(daemon is None or daemon.is_heard(incarnation, now) for daemon in left_out)


def _note(times: deque[float], now: float) -> bool:
    times.append(now)
    return len(times) == FEW and now - times[0] <= WITHIN_S


def forgotten_starts(peer: PeerDaemon, over: Incarnation) -> str:
    """Return the line for the log about a start that has not counted the one before it."""
    return (
        f"{peer.label} has counted {peer.incarnation.restarts} starts, and its start before this"
        f" one {over.restarts}: its state folder was lost, restored from a backup, or copied from"
        " another host; if it was copied, give one of the two daemons another name and an empty"
        " folder"
    )
