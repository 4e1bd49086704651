"""Lingering: a daemon keeps the token after it has numbered packets that others may lack.

Pure. ``now`` is in seconds. In a view of one ring the token stays while messages follow each other,
as each message shows whether the one before it is missing. In a view of several rings it goes soon,
because other rings wait for headers until this ring holds everything.

SAFE messages wait until every daemon is known to hold them. A token that circulates for that needs
as many steps as there are daemons, and one more for all but one of them. So the daemon that keeps
the token of a small ring asks with the packet, and each daemon answers to the whole ring: two
network delays after the message has left, all of them know. The token collects lost answers, as in
larger rings, where answers would cost more than a round of the token.

Birman, Schiper and Stephenson, "Lightweight Causal and Atomic Group Multicast", ACM TOCS 9(3),
1991, call a message stable that all daemons have. Here a number and a time state this for a whole
stream.
"""

from math import inf
from typing import Final

from groupcomm.config.core import Timing

STEADY: Final = 10
"""Messages follow each other if they come within this many times `linger_s`."""

ANSWERS: Final = 4
"""A daemon that holds a message has answered within this many times `linger_s`, even if busy."""

MOST_DAEMONS: Final = 4
"""The most daemons of a ring that answer to each other."""


class Lingering:
    """The time for which one daemon may keep the token.

    Args:
        timing: the timing of the ring.
        single: whether the view has one ring.
        now: seconds.

    Attributes:
        single: the view has one ring.
        steady: the view has one ring, and the last packet of any daemon came soon after the one
            before it.
        settle_at: the time at which the token must circulate; inf if it need not, because it leaves
            anyway or all daemons hold the numbered packets.
    """

    __slots__ = (
        "_interval_s",
        "_linger_s",
        "_numbered_at",
        "_overdue_at",
        "_rests",
        "settle_at",
        "single",
        "steady",
    )

    def __init__(self, timing: Timing, *, single: bool, now: float) -> None:
        self._linger_s = timing.linger_s
        self._interval_s = timing.rest_interval_s
        self.single = single
        self._numbered_at = -inf  # the time of the last new packet
        # The token leaves by then, though its holder has more to number, or others ask for it.
        self._overdue_at = now + self._interval_s
        self._rests = True  # all daemons were told that it rests, and nothing has come since
        self.steady = False
        self.settle_at = inf

    def note_packet(self, now: float) -> None:
        """Note that there is a new packet."""
        before, self._numbered_at = self._numbered_at, now
        if self._rests:
            self._rests, self._overdue_at = False, now + self._interval_s
        self.steady = self.single and now - before <= STEADY * self._linger_s

    def note_rest(self) -> None:
        """Note that all daemons are told that the token rests; until the next packet it may."""
        self._rests = True

    def note_round(self, now: float) -> None:
        """Note that the token goes to the next daemon in turn, and so round the ring.

        That others hold all packets does not count, as they report it without the token.
        """
        self._overdue_at = now + self._interval_s

    def stay(self, now: float, *, asks: bool) -> None:
        """Keep the token; `asks` says that the others were asked whether they hold the packets."""
        wait_s = self._linger_s
        if self.steady:
            wait_s *= STEADY
        elif asks:
            wait_s *= ANSWERS
        if self.single:
            self.settle_at = min(now + wait_s, self._overdue_at)
        else:
            self.settle_at = min(self.settle_at, now + wait_s)

    def may_stay(self, now: float) -> bool:
        """Return whether the token may stay."""
        return self._linger_s > 0 and now < self._overdue_at

    def is_starving(self, now: float) -> bool:
        """Return whether the next daemon may lack the token for long, as others ask for it."""
        return now >= self._overdue_at + self._interval_s


class Holdings:
    """The reports of the daemons of one ring, without the token, of the packets that they hold.

    Args:
        members: the members of the ring, by index in the view.
        me: the index of this daemon.

    Attributes:
        are_reported: whether the ring is small enough for that.
        owed: the number up to which the ring wants a report once its stream is held here; 0 for
            none.
        news: whether some daemon has reported something since `pop_risen` was called.
    """

    __slots__ = (
        "_frontiers",
        "_me",
        "_numbers",
        "_reported",
        "_single",
        "are_reported",
        "news",
        "owed",
    )

    def __init__(self, members: tuple[int, ...], me: int, *, single: bool) -> None:
        self._me, self._single = me, single
        self.are_reported = 1 < len(members) <= MOST_DAEMONS
        self._frontiers = dict.fromkeys(members, 0)
        self._numbers = dict.fromkeys(members, 0)  # up to these each can deliver the stream
        self._reported = 0  # the ring's number that was returned last
        self.owed = 0
        self.news = False

    def on_question(self, daemon: int, number: int, time: int) -> None:
        """Note that a daemon has numbered a packet of this time, can deliver it, and asks."""
        self.on_report(daemon, number, time if self._single else 0)
        if number > self.owed:
            self.owed = number

    def on_report(self, daemon: int, number: int, frontier: int) -> None:
        """Note up to where a daemon can deliver the stream, and its frontier."""
        if frontier > self._frontiers[daemon]:
            self._frontiers[daemon] = frontier
            self.news = True
        if number > self._numbers[daemon]:
            self._numbers[daemon] = number
            self.news = True

    def least_number(self, own: int) -> int:
        """Return the number up to which all can deliver the stream, this daemon up to `own`."""
        return min((own, *(n for daemon, n in self._numbers.items() if daemon != self._me)))

    def pop_risen(self, own: int) -> int:
        """Return the frontier of the ring if it has risen since the last call; else 0.

        Args:
            own: the frontier of this daemon.
        """
        self.news = False
        self._frontiers[self._me] = own
        least = min(self._frontiers.values())
        if least <= self._reported:
            return 0
        self._reported = least
        return least
