"""The join of this daemon: what it tells while it looks for a view.

Pure. ``now`` is in seconds. Each attempt has its own join, and others compute the view from it. So
only whom the daemon hears, and what its disk holds, may change during an attempt.
"""

from groupcomm.config.view import Start
from groupcomm.membership.context import MembershipContext
from groupcomm.membership.failure_detector import FailureDetector
from groupcomm.membership.reservation import Reservation
from groupcomm.wire.membership import Join, Past


class OwnJoin:
    """The latest join of one daemon.

    Attributes:
        latest: the join as it was sent last, or will be next.
    """

    __slots__ = ("_began_at", "_context", "_detector", "_name", "_reservation", "latest")

    def __init__(
        self,
        start: Start,
        context: MembershipContext,
        detector: FailureDetector,
        reservation: Reservation,
    ) -> None:
        self._name = start.name
        self._context = context
        self._detector = detector
        self._reservation = reservation
        self._began_at = 0.0
        self.latest = self._make(0, reading=0, clock=0, past=None)

    def begin(self, past: Past | None, now: float) -> None:
        """Begin the next attempt. A view needs one more counter at least: have it reserved.

        Args:
            past: what is held of the old view; None if there is none, or nobody to share it with.
            now: seconds.
        """
        disk, context = self._reservation, self._context
        disk.may_use(disk.used + 1, now)
        self._began_at = now
        self.latest = self._make(
            self.attempt + 1, reading=context.reading(now), clock=context.clock, past=past
        )

    def _make(self, attempt: int, *, reading: int, clock: int, past: Past | None) -> Join:
        return Join(
            attempt=attempt,
            name=self._name,
            digests=self._detector.comparison.digests,
            heard=(),
            reading=reading,
            clock=clock,
            counter=self._reservation.used,
            mark=self._reservation.mark,
            past=past,
        )

    @property
    def attempt(self) -> int:
        """Return which attempt this is, from 1."""
        return self.latest.attempt

    @property
    def lacks_mark(self) -> bool:
        """Return whether the disk has reserved more since it was last said."""
        return self.latest.mark != self._reservation.mark

    def update(self) -> bool:
        """Bring what may change during an attempt up to date; return whether anything has changed.

        A daemon that has died since the attempt began sends no join, and so does not count as
        heard.
        """
        detector, before = self._detector, self.latest
        heard = detector.heard_since(detector.fresh_since(self._began_at))
        self.latest = before.updated(heard, self._reservation.mark)
        return self.latest is not before
