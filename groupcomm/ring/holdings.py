"""What the daemons of a small ring tell each other that they hold, while its token is kept.

Pure. SAFE messages wait until it is known that every daemon holds them. A token that goes round
for that tells it in as many steps as there are daemons, and once more to all but one of them. So
who keeps the token asks with the packet, and each daemon answers to all of the ring: two ways after
the message has left all of them know. What is lost is collected by the token, as in larger rings,
where so many answers would cost more than its round.

That all have it is what Birman, Schiper and Stephenson, "Lightweight Causal and Atomic Group
Multicast", ACM TOCS 9(3), 1991, call stability. Here a number and a time tell it of a whole stream.
"""

from typing import Final

MOST_DAEMONS: Final = 4
"""Of a ring whose daemons answer to each other."""


class Holdings:
    """Of one ring, as one of its daemons knows it.

    Args:
        members: of the ring, indices in the view.
        me: index of this daemon.

    Attributes:
        are_told: the ring is small enough for that.
        owed: the ring is to hear when its stream is held here up to this number; 0 for nothing.
        news: some daemon has told something since `risen` was asked.
    """

    __slots__ = ("_frontiers", "_me", "_told", "are_told", "news", "owed")

    def __init__(self, members: tuple[int, ...], me: int) -> None:
        self._me = me
        self.are_told = 1 < len(members) <= MOST_DAEMONS
        self._frontiers = dict.fromkeys(members, 0)
        self._told = 0  # of the ring, as returned last
        self.owed = 0
        self.news = False

    def asked(self, daemon: int, number: int, time: int) -> None:
        """A daemon has numbered a packet, which has this time; it holds all up to there."""
        self.heard(daemon, time)
        if number > self.owed:
            self.owed = number

    def heard(self, daemon: int, frontier: int) -> None:
        """A daemon has told its frontier."""
        if frontier > self._frontiers[daemon]:
            self._frontiers[daemon] = frontier
            self.news = True

    def risen(self, own: int) -> int:
        """Return the frontier of the ring, as far as it was told; 0 if it was told before.

        Args:
            own: the frontier of this daemon.
        """
        self.news = False
        self._frontiers[self._me] = own
        least = min(self._frontiers.values())
        if least <= self._told:
            return 0
        self._told = least
        return least
