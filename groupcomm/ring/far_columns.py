"""Far columns: what a token says of the streams of other rings, where it has no room for all.

Pure. ``now`` is in seconds. A token by columns (wire/columns.py) tells some at each visit, in turn.
Senders of other rings may wait to hear that this ring holds their packets. So a token that would
rest although it has left out a stream that goes on is passed round again soon, and again, until
what it tells is up to date. With a slow member that may last, so it does not go round at once.
"""

from collections.abc import Sequence
from math import inf

from groupcomm.config.core import Timing
from groupcomm.stream.stream import Stream
from groupcomm.wire.columns import Far, far_columns
from groupcomm.wire.token import Token


class FarColumns:
    """The far columns of one ring's token, as one daemon tells them.

    Attributes:
        due: the time at which a token that rests here goes round to tell more; inf if it need not.
    """

    __slots__ = ("_again_s", "_count", "due")

    def __init__(self, ring: int, columns: int, timing: Timing) -> None:
        """Start.

        Args:
            ring: index of the ring.
            columns: the numbers held in each row of the token.
            timing: says how soon the token goes round again, as if it had been asked for.
        """
        self._again_s = timing.request_retry_s
        self._count = len(far_columns(ring, columns))
        self.due = inf

    def on_pass(self, token: Token) -> None:
        """Choose what the token tells, as it is passed on."""
        self.due = inf
        before = token.far or Far(0, self._count, 0)
        token.far = before.passed(len(token.rows), self._count)

    def on_rest(
        self, token: Token, held: Sequence[int], streams: Sequence[Stream], now: float
    ) -> None:
        """Note that the token rests here.

        Args:
            token: the token, with what it told last.
            held: up to where all daemons of the ring are known to hold each stream.
            streams: the streams as they are held here.
            now: seconds.
        """
        self.due = inf
        if token.far is not None and token.far.told < self._count:
            known = zip(held, streams, strict=True)
            if any(number < stream.held for number, stream in known):
                self.due = now + self._again_s
