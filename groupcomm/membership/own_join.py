"""The join of this daemon: what it tells while it looks for a view.

Pure. ``now`` is in seconds. All but whom it hears stays as it is for one attempt, since others
compute the view from it.
"""

from msgspec import structs

from groupcomm.config.start import Start
from groupcomm.membership.host import Host
from groupcomm.membership.neighbours import Neighbours
from groupcomm.wire.membership import Heard, Join, Past


class OwnJoin:
    """The latest join of one daemon.

    Attributes:
        message: the join as it was sent last, or will be next.
    """

    __slots__ = ("_first", "_host", "_neighbours", "_since", "message")

    def __init__(self, start: Start, neighbours: Neighbours, host: Host) -> None:
        self._neighbours = neighbours
        self._host = host
        self._since = 0.0
        self._first = self.message = Join(
            attempt=0,
            name=start.name,
            digests=neighbours.comparison.digests,
            heard=(),
            reading=0,
            clock=0,
            counter=0,
            past=None,
        )

    @property
    def heard(self) -> Heard:
        """Whom this daemon hears; one that has died since sends no join, and so does not count."""
        return self._neighbours.heard_since(self._since)

    def begin(self, attempt: int, counter: int, past: Past | None, now: float) -> None:
        """Begin an attempt.

        Args:
            attempt: its number.
            counter: the highest view counter that this daemon may have used.
            past: what is held of the old view; None if there is none, or nobody to share it with.
            now: seconds.
        """
        self._since = self._neighbours.fresh_since(now)
        host = self._host
        self.message = structs.replace(
            self._first,
            attempt=attempt,
            heard=self.heard,
            reading=host.reading(now),
            clock=host.clock,
            counter=counter,
            past=past,
        )

    def renew(self) -> Join:
        """Return the join, which from now on says whom this daemon hears at present."""
        heard = self.heard
        if heard != self.message.heard:
            self.message = self.message.hearing(heard)
        return self.message
