"""Recovery: those who come from one view bring each other to hold all that any of them holds.

Pure. ``now`` is in seconds. The lowest holder of a packet sends it to those who lack it by their
joins; who still lacks some says which, again and again, with its commit. While a packet may be on
its way it is not sent again: what was said meanwhile was said before it came.
"""

from collections.abc import Mapping
from math import inf

from groupcomm.config.view import View
from groupcomm.membership.host import Host
from groupcomm.membership.union import Union
from groupcomm.stream.stream import MAX_AHEAD
from groupcomm.wire.membership import Join, Past, Proposal, Span

MAX_SPREAD = 4 * MAX_AHEAD
"""Numbers above the forgotten ones that anybody can hold; windows stay far below it."""

BATCH_BYTES = 256 * 1024
"""Sent at once; the rest follows with the next repetition."""


class Recovery:
    """The exchange among those who come from this daemon's old view.

    Attributes:
        fellows: indices in the old view; empty without one.
        numbers: daemon numbers of the same.
        union: what they hold together; None without an old view.
        begun: packets have come from fellows.
    """

    __slots__ = (
        "_again_s",
        "_host",
        "_missing",
        "_open",
        "_sent_at",
        "begun",
        "fellows",
        "numbers",
        "union",
    )

    def __init__(
        self,
        host: Host,
        old: View | None,
        me: int,
        proposal: Proposal,
        joins: Mapping[int, Join],
        *,
        again_s: float,
    ) -> None:
        """Begin.

        Args:
            host: the daemon.
            old: the view that ends, if there is one.
            me: this daemon's number.
            proposal: what was agreed to.
            joins: that it was made from.
            again_s: who says after so long that it lacks a packet has not got it.
        """
        self._host = host
        self._again_s = again_s
        self.begun = False
        self._missing: tuple[tuple[Span, ...], ...] | None = None  # None: to be looked for anew
        self.union: Union | None = None
        self.fellows: frozenset[int] = frozenset()
        self.numbers: frozenset[int] = frozenset()
        self._sent_at: dict[tuple[int, int], float] = {}  # when, of all packets to send from here
        self._open: dict[tuple[int, int], set[int]] = {}  # those to be sent, and to whom
        if old is None:
            return
        pasts: dict[int, Past] = {}
        numbers: set[int] = set()
        keys = {(d.number, d.incarnation.random_id): i for i, d in enumerate(old.daemons)}
        for seat in proposal.seats:
            past = joins[seat.number].past
            index = keys.get((seat.number, seat.random_id))
            if index is None or past is None or past.view != old.key:
                continue
            if _fits(past, old) and host.old.believes(past):
                pasts[index] = past
                numbers.add(seat.number)
        own = next(index for key, index in keys.items() if key[0] == me)
        if own not in pasts:  # it goes on alone
            past = host.past
            assert past is not None
            pasts, numbers = {own: past}, {me}
        self.union = Union(pasts)
        self.fellows = frozenset(pasts)
        self.numbers = frozenset(numbers)
        for duty, lacking in self.union.duties(own).items():
            self._sent_at[duty] = -inf
            self._open[duty] = {old.daemons[index].number for index in lacking}

    @property
    def missing(self) -> tuple[tuple[Span, ...], ...]:
        """What is still lacking here."""
        if self._missing is None:
            self._missing = () if self.union is None else self._host.missing(self.union)
        return self._missing

    def take(self, sender: int, packet: bytes) -> bool:
        """Take a packet from a fellow; False if it is here already, or not of the union.

        What is not of it may come from an attempt with others; it would be here alone.

        Args:
            sender: its number; what strangers send counts for nothing.
            packet: whole.

        Raises:
            BadDatagram, ProtocolViolation: it is no packet of the old view, or does not fit it.
        """
        if self.union is None or sender not in self.numbers:
            return False
        if not self._host.take_repair(packet, self.union):
            return False
        self.begun = True
        self._missing = None
        return True

    def is_sound(self) -> bool:
        """Whether what was delivered here could have come of the union, which is here now.

        Without fellows it is by definition.
        """
        union = self.union
        return union is None or self._host.old.prepare(union, self.fellows)

    def asked(self, number: int, missing: tuple[tuple[Span, ...], ...], now: float) -> None:
        """A fellow still lacks these: those that it should have by now are sent again."""
        lost = [duty for duty, at in self._sent_at.items() if now >= at + self._again_s]
        for ring, spans in enumerate(missing):
            for first, last in spans:
                for duty in lost:
                    if duty[0] == ring and first <= duty[1] <= last:
                        self._open.setdefault(duty, set()).add(number)

    def next_batch(self, now: float) -> list[tuple[bytes, set[int]]]:
        """The next packets to send, whole, and to whom, by daemon numbers."""
        taken: list[tuple[bytes, set[int]]] = []
        room = BATCH_BYTES
        while self._open and room > 0:
            duty = next(iter(self._open))
            lacking = self._open.pop(duty)
            self._sent_at[duty] = now
            packet = self._host.old_packet(*duty)
            if packet is not None:
                taken.append((packet, lacking))
                room -= len(packet)
        return taken

    @property
    def sends(self) -> bool:
        """Whether `next_batch` has something to give."""
        return bool(self._open)


def _fits(past: Past, old: View) -> bool:
    """Whether what a daemon says of the old view can be true; else it is taken for a stranger."""
    return len(past.holdings) == len(old.rings) and all(
        holding.forgotten < holding.spans[0][0]
        and holding.spans[-1][1] <= holding.forgotten + MAX_SPREAD
        for holding in past.holdings
        if holding.spans
    )
