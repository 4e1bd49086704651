"""What a daemon says of itself while it gathers: its join, a new one for each attempt.

Pure. ``now`` is in seconds.
"""

from groupcomm.config.start import Start
from groupcomm.membership.host import Host
from groupcomm.membership.neighbours import Neighbours
from groupcomm.membership.reservation import Reservation
from groupcomm.wire.membership import Join


class OwnJoin:
    """The join of this daemon.

    Attributes:
        latest: as it was last said, or is said next.
    """

    __slots__ = ("_began_at", "_host", "_name", "_neighbours", "_reservation", "latest")

    def __init__(
        self, start: Start, host: Host, neighbours: Neighbours, reservation: Reservation
    ) -> None:
        self._name = start.name
        self._host = host
        self._neighbours = neighbours
        self._reservation = reservation
        self._began_at = 0.0
        self.latest = Join(
            attempt=0, name=start.name, heard=(), reading=0, clock=0, counter=0, mark=0, past=None
        )

    def begin(self, now: float) -> None:
        """Begin the next attempt. A view needs one more counter at least: have it reserved."""
        disk = self._reservation
        disk.may_use(disk.used + 1, now)
        self._began_at = now
        self.latest = Join(
            attempt=self.latest.attempt + 1,
            name=self._name,
            heard=(),
            reading=self._host.reading(now),
            clock=self._host.clock,
            counter=disk.used,
            mark=disk.mark,
            past=self._host.past,
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
        neighbours, before = self._neighbours, self.latest
        heard = neighbours.heard_since(neighbours.fresh_since(self._began_at))
        self.latest = before.updated(heard, self._reservation.mark)
        return self.latest is not before
