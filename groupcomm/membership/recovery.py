"""Recovery: daemons that come from one view exchange packets until all hold the same ones.

Pure. ``now`` is in seconds. The lowest holder of a packet sends it to the daemons that lack it by
their joins. A daemon that still lacks packets lists them in each repetition of its commit. While a
packet may be on its way to it, it gets it no second time: the commit was sent before it came.

Thousands of single packets may be missing, and a daemon that lacks some says so a hundred times a
second. So the list of packets that are missing here is computed once and then kept, and packets
that others lack are looked up.
"""

from collections.abc import Callable, Mapping, Set
from math import inf
from typing import Final

from groupcomm.config.view import View
from groupcomm.membership.context import OldView
from groupcomm.membership.recovered_set import RecoveredSet
from groupcomm.stream.ranges import Range, among, remove_number
from groupcomm.stream.stream import MAX_AHEAD
from groupcomm.wire.membership import MAX_MISSING, Join, Past, Proposal, Span

MAX_SPREAD = 4 * MAX_AHEAD
"""The most numbers above the forgotten ones that a daemon can hold; windows stay far below it."""

BATCH_BYTES = 256 * 1024
"""The most bytes sent at once; the rest follows with the next repetition."""

FAR_BATCH_BYTES = 128 * 1024
MOST_COPIES = 8
"""In a view of several rings fewer bytes are sent at once, and of each packet the copies count, up
to so many: links may be narrow, and what waits before them for long is dropped."""

_NOBODY: Final[Set[int]] = frozenset()
_NEVER: Final = (-inf, _NOBODY)


class Recovery:
    """The exchange among the transitional members of this daemon's old view.

    Attributes:
        transitional: indices in the old view; empty without one.
        member_numbers: daemon numbers of the same.
        recovered_set: the packets that they hold together; None without an old view.
        begun: whether packets have come from other members.
    """

    __slots__ = (
        "_again_s",
        "_duties",
        "_frozen",
        "_is_slow",
        "_lacking",
        "_most_copies",
        "_open",
        "_sent",
        "begun",
        "member_numbers",
        "recovered_set",
        "transitional",
    )

    def __init__(
        self,
        frozen: OldView | None,
        old: View | None,
        me: int,
        proposal: Proposal,
        joins: Mapping[int, Join],
        *,
        again_s: float,
    ) -> None:
        """Begin.

        Args:
            frozen: the view that ends, as it is here; None without one.
            old: the view that ends, if there is one.
            me: this daemon's number.
            proposal: the proposal that was agreed to.
            joins: the joins that it was made from.
            again_s: a daemon that still lacks a packet this long after it was sent has not got it;
                twice as long once that was so.
        """
        self._frozen = frozen
        self._again_s, self._is_slow = again_s, False
        self._most_copies = 1
        self.begun = False
        self._lacking: list[list[Range]] | None = None  # missing packets by ring; None: unknown yet
        self.recovered_set: RecoveredSet | None = None
        self.transitional: frozenset[int] = frozenset()
        self.member_numbers: frozenset[int] = frozenset()
        # Until when each packet may be on its way, and to whom.
        self._sent: dict[tuple[int, int], tuple[float, Set[int]]] = {}
        # The packets to send, with their receivers.
        self._open: dict[tuple[int, int], set[int]] = {}
        self._duties: list[list[int]] = []  # the numbers of these packets, by ring, rising
        if old is None or frozen is None:
            return
        pasts: dict[int, Past] = {}
        numbers, judged = set[int](), dict[int, bool]()
        keys = {(d.number, d.incarnation.random_id): i for i, d in enumerate(old.daemons)}
        for seat in proposal.seats:
            past = joins[seat.number].past
            index = keys.get((seat.number, seat.random_id))
            if index is None or past is None or past.view != old.key:
                continue
            if id(past) not in judged:  # many members hold the same, one object
                judged[id(past)] = _fits(past, old) and frozen.is_plausible(past)
            if judged[id(past)]:
                pasts[index] = past
                numbers.add(seat.number)
        own = next(index for key, index in keys.items() if key[0] == me)
        if own not in pasts:  # this daemon continues alone
            pasts, numbers = {own: frozen.past}, {me}
        self.recovered_set = RecoveredSet(pasts)
        self.transitional = frozenset(pasts)
        self.member_numbers = frozenset(numbers)
        self._duties = [[] for _ in old.rings]
        self._most_copies = 1 if len(old.rings) == 1 else MOST_COPIES
        for duty, lacking in self.recovered_set.duties(own).items():
            self._duties[duty[0]].append(duty[1])
            self._open[duty] = {old.daemons[index].number for index in lacking}

    @property
    def missing(self) -> tuple[tuple[Span, ...], ...]:
        """Return the first ranges of packets that are still missing here, by ring."""
        return tuple(tuple(ranges[:MAX_MISSING]) for ranges in self._find_lacking())

    @property
    def complete(self) -> bool:
        """Return whether nothing is missing here."""
        return not any(self._find_lacking())

    def _find_lacking(self) -> list[list[Range]]:
        if self._lacking is None:
            recovered, frozen = self.recovered_set, self._frozen
            self._lacking = [] if recovered is None or frozen is None else frozen.missing(recovered)
        return self._lacking

    def end(self) -> None:
        """Forget the packets of the old view: it has ended."""
        self._frozen = None
        self._open.clear()

    def receive(self, sender: int, packet: bytes) -> bool:
        """Enter a packet from another member; return False if it is here or not of the set.

        A packet outside the set may come from an attempt with other members; only this daemon would
        have it.

        Args:
            sender: the number of the sender; a packet of a stranger is ignored.
            packet: whole.

        Raises:
            BadDatagram, ProtocolViolation: it is no packet of the old view, or does not fit it.
        """
        recovered, frozen = self.recovered_set, self._frozen
        if recovered is None or frozen is None or sender not in self.member_numbers:
            return False
        lacking = self._find_lacking()
        taken = frozen.receive_repair(packet, recovered)
        if taken is None:
            return False
        ring, number = taken
        remove_number(lacking[ring], number)
        self.begun = True
        return True

    def is_sound(self) -> bool:
        """Return whether the deliveries so far are in line with the recovered set, which is here.

        Without other members they always are.
        """
        recovered, frozen = self.recovered_set, self._frozen
        return recovered is None or frozen is None or frozen.prepare(recovered, self.transitional)

    def accept_obligation(self) -> None:
        """Accept the obligation: this daemon holds the recovered set, and says so."""
        if self.recovered_set is not None and self._frozen is not None:
            self._frozen.accept_obligation(self.recovered_set, self.transitional)

    def on_missing(self, number: int, missing: tuple[tuple[Span, ...], ...], now: float) -> None:
        """Note the packets that another member still lacks: send those again that it should have
        by now.
        """
        was_sent = False
        for ring, (spans, duties) in enumerate(zip(missing, self._duties, strict=False)):
            for span in spans:
                for duty in among(duties, span):
                    if number not in self._expecting((ring, duty), now):
                        self._open.setdefault((ring, duty), set()).add(number)
                        was_sent |= number in self._sent.get((ring, duty), _NEVER)[1]
        if was_sent and not self._is_slow:  # they may wait before a narrow link
            self._is_slow, self._again_s = True, 2 * self._again_s

    def _expecting(self, duty: tuple[int, int], now: float) -> Set[int]:
        """Return the numbers of the members to which a packet may be on its way."""
        until, receivers = self._sent.get(duty, _NEVER)
        return receivers if now < until else _NOBODY

    def pop_batch(
        self, now: float, copies: Callable[[set[int]], int] = len
    ) -> list[tuple[bytes, set[int]]]:
        """Return the next packets to send, whole, each with those that lack it, by daemon numbers.

        Args:
            now: seconds.
            copies: returns to how many daemons a packet is sent that some lack.
        """
        taken: list[tuple[bytes, set[int]]] = []
        done: list[tuple[int, int]] = []
        room = BATCH_BYTES if self._most_copies == 1 else FAR_BATCH_BYTES
        for duty, lacking in self._open.items():
            if room <= 0:
                break
            done.append(duty)
            self._sent[duty] = now + self._again_s, lacking | self._expecting(duty, now)
            packet = None if self._frozen is None else self._frozen.packet(*duty)
            if packet is not None:
                taken.append((packet, lacking))
                room -= len(packet) * min(copies(lacking), self._most_copies)
        for duty in done:
            del self._open[duty]
        return taken

    @property
    def has_packets_to_send(self) -> bool:
        """Return whether `pop_batch` has something to return."""
        return bool(self._open)


def _fits(past: Past, old: View) -> bool:
    """Return whether the statement of a daemon about the old view can be true.

    If not, the daemon is treated as a stranger.
    """
    return len(past.holdings) == len(old.rings) and all(
        holding.forgotten < holding.spans[0][0]
        and holding.spans[-1][1] <= holding.forgotten + MAX_SPREAD
        for holding in past.holdings
        if holding.spans
    )
