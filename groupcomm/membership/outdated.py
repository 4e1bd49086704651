"""Outdated: others say that there were more starts of this daemon than it knows of.

Pure. ``now`` is in seconds. A daemon whose disk was lost or rolled back learns so how many restarts
it has to count, and starts anew. As that ends all its sessions, one broken daemon must not bring it
about: it counts only while more daemons say so than say that they hear this very start.
"""

from collections.abc import Callable, Iterable
from math import inf
from typing import Final

from groupcomm.config.view import Adoption, Start
from groupcomm.errors import ProtocolViolation
from groupcomm.membership.peer import PeerDaemon
from groupcomm.wire.membership import Outdated

PATIENCE_S: Final = 0.5
"""It has to be said for so long: by then it is known who hears this start."""

STALEMATE_S: Final = 5.0
"""If as many say the one as the other, for so long: who hears it may just not know."""

LATELY_S: Final = 1.0
MOST_AHEAD: Final = 2**32
"""Restarts that a disk may have forgotten; more were never counted."""


class OutdatedStart:
    """What one start of a daemon is told of other starts of it."""

    __slots__ = ("_adoption", "_peers", "_reporters", "_since", "_start")

    def __init__(self, start: Start, peers: Callable[[], Iterable[PeerDaemon]]) -> None:
        self._start = start
        self._peers = peers
        self._reporters: dict[int, float] = {}  # when each has last said so
        self._since = inf
        self._adoption = Adoption()

    def receive(self, teller: PeerDaemon, told: Outdated, now: float) -> Adoption | None:
        """Take what a daemon says; what to adopt, once it is to be believed.

        Raises:
            ProtocolViolation: nobody can have counted so many, or so few.
        """
        own = self._start.incarnation
        if told.random_id != own.random_id:
            return None
        if not own.restarts <= told.restarts <= own.restarts + MOST_AHEAD:
            raise ProtocolViolation("outdated", f"{told.restarts} restarts, of {own.restarts}")
        if all(at < now - LATELY_S for at in self._reporters.values()):
            self._since, self._adoption = now, Adoption()
        self._reporters[teller.number] = now
        self._adoption = self._adoption.united(told.restarts, told.counter)
        return self._adoption if self._is_believed(now) else None

    def _is_believed(self, now: float) -> bool:
        if now < self._since + PATIENCE_S:
            return False
        key = self._start.daemon.number, self._start.incarnation.random_id
        hearers = {peer.number for peer in self._peers() if peer.hears(key, now - LATELY_S)}
        lately = {number for number, at in self._reporters.items() if at >= now - LATELY_S}
        says, denies = len(lately - hearers), len(hearers)
        return says > denies or (0 < says == denies and now >= self._since + STALEMATE_S)
